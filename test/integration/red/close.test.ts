// Closing the client that made a Redlock: its holds are released on all masters, waits end, and nothing is left behind.
import { expect, it } from 'vitest';
import { ClosedError, LockLostError } from '../../../src/index.js';
import { eventsOf, rejectionOf } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { redNodes } from '../../support/red-nodes.js';
import { startMasters } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

const nodes = redNodes(() => startMasters(3));

it("close() releases the client's Redlocks on all masters", async () => {
  await using client = await nodes.client();
  const locks = Array.from({ length: 20 }, () => client.lock(uniqueName()));
  const holds = await Promise.all(locks.map((lock) => lock.acquire({ lease: 60_000 })));
  await client.holdfast.close(); // the other members stay open
  for (const hold of holds) {
    expect(hold.signal.reason).toBeInstanceOf(LockLostError);
    expect(hold.signal.reason).toMatchObject({ lossReason: 'closed' });
    expect(hold.remaining()).toBe(0);
  }
  for (const lock of locks) await nodes.nothingLeft(lock);
});

it.each(['held', 'deleted'])(
  'a release behind an extension, in the same turn as close(), ends as without the close: the lock was %s',
  async (state) => {
    for (let round = 0; round < 5; round++) {
      await using client = await nodes.client();
      const lost = eventsOf(client.holdfast, 'lost');
      const lock = client.lock(uniqueName());
      const hold = await lock.acquire({ lease: 60_000 });
      if (state === 'deleted') await nodes.remove(lock, [0, 1, 2]);
      const calls = Promise.allSettled([hold.extend(60_000), hold.release()]);
      await client.holdfast.close();
      const reasons = (await calls).map((call) =>
        call.status === 'rejected' ? (call.reason as LockLostError).lossReason : 'done',
      );
      expect(reasons).toEqual(state === 'held' ? ['done', 'done'] : ['deleted', 'deleted']);
      expect(lost.map(({ lossReason }) => lossReason)).toEqual(state === 'held' ? [] : ['deleted']);
      await nodes.nothingLeft(lock);
    }
  },
);

it('close() ends waits with ClosedError, and leaves no vote and no subscription', async () => {
  await using client = await nodes.client();
  const lock = client.lock(uniqueName());
  await nodes.holdBy('somebody:1', lock, [0, 1, 2]);
  const told = eventsOf(client.holdfast, 'waiting');
  const waits = Array.from({ length: 10 }, () => rejectionOf(lock.lock()));
  await eventually(() => {
    expect(told).toHaveLength(10);
  });
  await client.holdfast.close();
  for (const error of await Promise.all(waits)) expect(error).toBeInstanceOf(ClosedError);
  await nodes.remove(lock, [0, 1, 2]);
  await nodes.nothingLeft(lock);
});

it('close() while votes are under way withdraws them', async () => {
  await using client = await nodes.proxied();
  for (const proxy of client.proxies) proxy.delay({ upstreamMs: 100, downstreamMs: 100 });
  const lock = client.lock(uniqueName());
  const acquiring = rejectionOf(lock.acquire({ lease: 60_000 }));
  await client.holdfast.close();
  expect(await acquiring).toBeInstanceOf(ClosedError);
  await nodes.nothingLeft(lock);
});

it.each([
  ['times out', { wait: 50 }],
  ['aborts', { signal: AbortSignal.timeout(50) }],
])('a waiter that %s leaves nothing behind', async (_, request) => {
  await using client = await nodes.client();
  const lock = client.lock(uniqueName());
  await nodes.holdBy('somebody:1', lock, [0, 1]);
  await rejectionOf(lock.acquire({ lease: 60_000, ...request }));
  await nodes.remove(lock, [0, 1]);
  await nodes.nothingLeft(lock, 20_000);
});
