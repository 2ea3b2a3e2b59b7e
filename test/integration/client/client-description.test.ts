// What a client shows of itself: its identity, and nothing about how it connects.
import { hostname } from 'node:os';
import { inspect } from 'node:util';
import { expect, it } from 'vitest';
import { connectedClient, newClient, nextEvent } from '../../support/clients.js';
import { RedNodes } from '../../support/red-nodes.js';
import { startMasters } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

const WHERE = `${hostname().slice(-32)}-${process.pid}`;

/** The client's id without its own part, which is checked. */
function withoutDigits({ clientId }: { readonly clientId: string }): string {
  expect(clientId).toMatch(/-[0-9a-f]{12}$/);
  return clientId.slice(0, -13);
}

it("a client's id names the host and the process, and is never the same twice", async () => {
  await using client = newClient();
  await using other = newClient();
  expect(withoutDigits(client)).toBe(WHERE);
  expect(other.clientId).not.toBe(client.clientId);
});

it('a given clientId stands before the host and the process', async () => {
  await using client = newClient({ clientId: 'orders' });
  await using other = newClient({ clientId: 'orders' });
  expect(withoutDigits(client)).toBe(`orders-${WHERE}`);
  expect(other.clientId).not.toBe(client.clientId);
});

const ANY_TEXT = ['eu:{billing} *', 'a'.repeat(100), '-ü\u{1f600}', '%s[^?]\\'];

it.for([undefined, ...ANY_TEXT])(
  'clients named %j are holders and waiters like any others',
  async (clientId) => {
    await using client = newClient({ clientId });
    await using other = newClient({ clientId });
    const lock = client.getFairLock(uniqueName());
    const hold = await lock.acquire();
    expect(hold.ownerId.startsWith(`${client.clientId}:`)).toBe(true);
    const waiting = nextEvent(other, 'waiting');
    const theirs = other.getFairLock(lock.name).acquire();
    expect(await waiting).toMatchObject({ holder: hold.ownerId });
    await hold.release();
    const handedOver = await theirs;
    expect(handedOver.ownerId.startsWith(`${other.clientId}:`)).toBe(true);
    expect((await client.inspect(lock.name))?.holders).toMatchObject([
      { clientId: other.clientId },
    ]);
    expect(await lock.forceUnlock()).toBe(true);
    await expect(handedOver.release()).rejects.toMatchObject({ lossReason: 'forced' });
    const kept = client.getLock(lock.name, { keep: 100 });
    await kept.withLock(() => undefined);
    await other.getLock(lock.name, { keep: 100 }).withLock({ wait: 400 }, () => undefined);
  },
);

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
