// How an operator reads a token: in events and in the description of a hold, which JSON can represent.
import { inspect } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import type { FencedLock, Holdfast, HoldfastEvents } from '../../../src/index.js';
import { eventsOf, newClient } from '../../support/clients.js';
import { FENCED_KINDS } from '../../support/fenced-locks.js';
import { redNodes } from '../../support/red-nodes.js';
import { startMasters } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

/** What the client reports of holds, as in a log. */
function logOf(client: Holdfast): Record<string, unknown>[] {
  const log: Record<string, unknown>[] = [];
  const names: (keyof HoldfastEvents)[] = ['acquired', 'released', 'lost'];
  for (const name of names)
    client.on(name, (event: object) => {
      log.push(JSON.parse(JSON.stringify({ name, ...event })) as Record<string, unknown>);
    });
  return log;
}

async function tellsTokens(client: Holdfast, lock: FencedLock, plain = lock): Promise<void> {
  const log = logOf(client);
  const hold = await lock.acquire();
  const token = String(hold.token);
  expect(JSON.parse(JSON.stringify(hold))).toMatchObject({ state: 'held', token });
  expect(inspect(hold)).toContain(`token: '${token}'`);
  await hold.run(() => plain.withLock(() => undefined));
  await hold.release();
  expect(JSON.parse(JSON.stringify(hold))).toMatchObject({ state: 'released', token });
  expect(log).toMatchObject([
    { name: 'acquired', holdCount: 1, token },
    { name: 'acquired', holdCount: 2, token },
    { name: 'released', holdCount: 1, token },
    { name: 'released', holdCount: 0, token },
  ]);
  const lost = await lock.acquire();
  await lock.forceUnlock();
  await expect(lost.release()).rejects.toMatchObject({ code: 'LOCK_LOST' });
  const told = log.find(({ name }) => name === 'lost');
  expect(told).toMatchObject({ lossReason: 'forced', token: String(lost.token) });
  expect(BigInt(told!['token'] as string)).toBe(lost.token);
  expect(lost.toJSON()).toMatchObject({ state: 'lost', token: String(lost.token) });
}

it.each(FENCED_KINDS)(
  '$title reports its tokens in a form that JSON can represent',
  async ({ options }) => {
    await using client = newClient();
    const name = uniqueName('fenced');
    await tellsTokens(
      client,
      client.getFencedLock(name, options),
      client.getLock(name) as FencedLock,
    );
  },
);

describe('a fenced Redlock', () => {
  const nodes = redNodes(() => startMasters(3));

  beforeAll(async () => {
    await nodes.unguarded();
  });

  it('reports its tokens in a form that JSON can represent', async () => {
    await using client = await nodes.client();
    await tellsTokens(client.holdfast, client.fencedLock(uniqueName('fenced-red')));
  });
});

it('a lock without tokens reports none', async () => {
  await using client = newClient();
  const [acquired, released] = [eventsOf(client, 'acquired'), eventsOf(client, 'released')];
  await client.getLock(uniqueName()).withLock((hold) => {
    expect(hold.toJSON()).not.toHaveProperty('token');
  });
  for (const event of [acquired[0], released[0]]) {
    expect(event).toMatchObject({ ownerId: expect.any(String) as string });
    expect(event).not.toHaveProperty('token');
  }
});
