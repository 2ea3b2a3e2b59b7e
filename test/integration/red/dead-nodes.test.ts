// Five real masters of which some die: with two dead all calls work, with three dead a holder learns of it in time.
import { describe, expect, it } from 'vitest';
import { LockLostError, QuorumError } from '../../../src/index.js';
import { rejectionOf } from '../../support/clients.js';
import { EventLoopLag, eventually } from '../../support/time.js';
import { RedNodes } from '../../support/red-nodes.js';
import { startMasters } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

describe('any two of five masters may die', () => {
  it.each([[[0, 1]], [[1, 3]]])(
    'without masters %j a Redlock is acquired, renewed and released',
    async (dead) => {
      await using servers = await startMasters(5);
      const nodes = new RedNodes(servers);
      await using client = await nodes.client({ lockWatchdogTimeout: 3_000 });
      const [before, after] = [client.lock(uniqueName()), client.lock(uniqueName())];
      const holds = [await before.acquire()];
      await Promise.all(dead.map((index) => servers[index]!.kill()));
      holds.push(await after.acquire({ wait: 10_000 }));
      const endsAtMs = performance.now() + 6_000;
      await eventually(() => {
        expect(performance.now()).toBeGreaterThan(endsAtMs);
      });
      for (const hold of holds) {
        expect(hold.signal.aborted).toBe(false);
        await hold.extend(5_000);
        expect(hold.remaining()).toBeGreaterThan(3_000);
        await hold.release();
      }
      await nodes.nothingLeft(before);
      await nodes.nothingLeft(after);
    },
  );
});

describe('three of five masters die', () => {
  it('a single attempt, a query and forceUnlock() report it long before commandTimeout', async () => {
    await using servers = await startMasters(5);
    const nodes = new RedNodes(servers);
    const commandTimeout = 8_000;
    await using client = await nodes.client({ commandTimeout });
    const lock = client.lock(uniqueName());
    await Promise.all(servers.slice(0, 3).map((server) => server.kill()));
    const calls = [
      () => lock.tryLock(),
      () => lock.isLocked(),
      () => lock.remainTimeToLive(),
      () => lock.forceUnlock(),
    ];
    for (const call of calls) {
      const startedAtMs = performance.now();
      expect(await rejectionOf(call())).toBeInstanceOf(QuorumError);
      expect(performance.now() - startedAtMs).toBeLessThan(commandTimeout / 2);
    }
  });

  it('a holder learns of it before the remaining masters would let another client in', async () => {
    await using servers = await startMasters(5);
    const nodes = new RedNodes(servers);
    await using client = await nodes.client({ lockWatchdogTimeout: 1_500 });
    const lock = client.lock(uniqueName());
    const hold = await lock.acquire();
    await eventually(async () => {
      expect(await nodes.owners(lock)).toEqual(Array(5).fill(hold.ownerId));
    });
    await Promise.all(servers.slice(0, 3).map((server) => server.kill()));
    const aborted = new Promise<void>((resolve) => {
      hold.signal.addEventListener('abort', () => {
        resolve();
      });
    });
    // Renewals of the two remaining masters do not count: a holder needs a majority.
    const validMs = hold.remaining();
    const startedAtMs = performance.now();
    using lag = new EventLoopLag();
    await aborted;
    expect(performance.now() - startedAtMs).toBeLessThan(validMs + 200 + lag.longestMs);
    expect(hold.remaining()).toBe(0);
    expect(hold.signal.reason).toBeInstanceOf(LockLostError);
    expect(hold.signal.reason).toMatchObject({ lossReason: 'unreachable' });
    expect(await rejectionOf(hold.release())).toBe(hold.signal.reason);
    await nodes.nothingLeft(lock); // on the remaining masters it was released
  });

  it('a release that reaches no majority reports it, and the rest is removed when the masters are back', async () => {
    await using servers = await startMasters(3);
    const nodes = new RedNodes(servers);
    await using client = await nodes.client({ lockWatchdogTimeout: 60_000, commandTimeout: 500 });
    const lock = client.lock(uniqueName(), { nodeTimeout: 100 });
    const hold = await lock.acquire();
    await Promise.all(servers.slice(0, 2).map((server) => server.pause()));
    const error = await rejectionOf(hold.release());
    await Promise.all(servers.slice(0, 2).map((server) => server.resume()));
    expect(error).toBeInstanceOf(QuorumError);
    await nodes.nothingLeft(lock);
  });
});
