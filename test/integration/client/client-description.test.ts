// What a client shows of itself: its identity, and nothing about how it connects.
import { hostname } from 'node:os';
import { inspect } from 'node:util';
import { expect, it } from 'vitest';
import { connectedClient, newClient, nextEvent } from '../../support/clients.js';
import { RedNodes } from '../../support/red-nodes.js';
import { startMasters } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

it("a client's id names the host and the process, and is never the same twice", async () => {
  await using client = newClient();
  await using other = newClient();
  const prefix = `${hostname()}-${process.pid}-`;
  expect(client.clientId.slice(0, prefix.length)).toBe(prefix);
  expect(client.clientId.slice(prefix.length)).toMatch(/^[0-9a-f]{12}$/);
  expect(other.clientId).not.toBe(client.clientId);
});

it('a given clientId is the prefix of a unique id', async () => {
  await using client = newClient({ clientId: 'orders' });
  await using other = newClient({ clientId: 'orders' });
  expect(client.clientId).toMatch(/^orders-[0-9a-f]{12}$/);
  expect(other.clientId).not.toBe(client.clientId);
});

it('an owner of such an id is a holder like any other: it can be queried, waited for and forced out', async () => {
  await using client = newClient();
  await using other = newClient();
  const lock = client.getFairLock(uniqueName());
  const hold = await lock.acquire();
  expect(hold.ownerId.startsWith(`${client.clientId}:`)).toBe(true);
  const waiting = nextEvent(other, 'waiting');
  const theirs = other.getFairLock(lock.name).acquire();
  expect(await waiting).toMatchObject({ holder: hold.ownerId });
  await hold.release();
  await (await theirs).release();
});

it('a client shows its id, the state of its connection and how many locks it holds', async () => {
  const client = await connectedClient({});
  const { clientId } = client;
  const holds = await Promise.all([1, 2].map(() => client.getLock(uniqueName()).acquire()));
  expect(JSON.parse(JSON.stringify(client))).toEqual({
    clientId,
    state: 'ready',
    heldCount: 2,
    keptCount: 0,
  });
  await Promise.all(holds.map((hold) => hold.release()));
  expect(inspect(client, { breakLength: Infinity })).toBe(
    `Holdfast { clientId: '${clientId}', state: 'ready', heldCount: 0, keptCount: 0 }`,
  );
  expect(inspect({ client }, { depth: 0 })).toBe('{ client: [Holdfast] }');
  await client.close();
  expect(client.toJSON()).toEqual({ clientId, state: 'closed', heldCount: 0, keptCount: 0 });
});

it('a client counts the Redlocks that it holds', async () => {
  await using servers = await startMasters(3);
  const nodes = new RedNodes(servers);
  await using client = await nodes.client();
  await client.lock(uniqueName()).withLock(() => {
    expect(client.holdfast.toJSON().heldCount).toBe(1);
  });
});
