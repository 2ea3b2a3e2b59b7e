// Tokens over a failover by Sentinel: with replicas they grow whatever the clocks say; without, because no token is below the time.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { Holdfast } from '../../../src/index.js';
import { eventually } from '../../support/time.js';
import { getIn } from '../../support/failovers.js';
import { counterOf, expectGrowing, FENCED_KINDS, passThrough } from '../../support/fenced-locks.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import {
  cutReplication,
  startSentinel,
  type SentinelSetup,
} from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

const HOUR_US = 3_600_000_000n;

describe.skipIf(topologiesUnavailable)('over a failover by Sentinel', () => {
  function connect({ name, sentinels }: SentinelSetup, replicas: number): Holdfast {
    const redis = { name, sentinels };
    const client = new Holdfast({ redis, replicas, lockWatchdogTimeout: 6_000, wait: Infinity });
    client.on('error', () => undefined); // that the master is gone
    return client;
  }

  describe.each(FENCED_KINDS)('$title', ({ options }) => {
    it('acknowledged by a replica, issues larger and larger tokens, even with clocks far behind them', async () => {
      await using setup = await startSentinel({ delayMs: 100 });
      await using one = connect(setup, 1);
      await using two = connect(setup, 1);
      const name = uniqueName('fenced');
      const ahead = BigInt(Date.now()) * 1_000n + HOUR_US;
      const master = new Redis(setup.master.url);
      await master.set(counterOf(name), String(ahead), 'PX', 600_000);
      master.disconnect();

      const tokens = [ahead];
      const killing = new AbortController();
      const { signal } = killing;
      const contenders = [one, two].map(async (client) => {
        const lock = client.getFencedLock(name, options);
        while (!signal.aborted) {
          const hold = await lock.acquire({ signal }).catch(() => undefined);
          if (!hold) continue;
          tokens.push(hold.token);
          void hold.release().catch(() => undefined); // its master may be gone
        }
      });
      await eventually(() => {
        expect(tokens.length).toBeGreaterThan(10);
      }, 40_000);
      const killed = setup.failover();
      await sleep(20);
      killing.abort();
      await Promise.all(contenders);
      await killed;
      // A caller that wants acknowledgements has to wait for another replica.
      await using after = connect(setup, 0);
      const lock = after.getFencedLock(name, options);
      const next = await getIn(lock);
      tokens.push(next.token!);
      await next.release();
      tokens.push(await passThrough(lock));
      expectGrowing(tokens);
      expect(tokens.at(-1)! - ahead).toBeLessThan(HOUR_US);
    }, 90_000);

    it('whose last tokens no replica has, still issues larger ones, by the time', async () => {
      await using setup = await startSentinel();
      await using one = connect(setup, 0);
      await using two = connect(setup, 0);
      const name = uniqueName('fenced');
      const lock = one.getFencedLock(name, options);
      const theirs = two.getFencedLock(name, options);
      await theirs.isLocked();
      const replica = new Redis(setup.replica.url);
      const tokens = [await passThrough(lock)];
      await eventually(async () => {
        expect(await replica.get(counterOf(name))).toBe(String(tokens[0]));
      });
      await cutReplication(setup.master);
      for (let count = 0; count < 3; count++) tokens.push(await passThrough(lock));
      const hold = await lock.acquire();
      tokens.push(hold.token);
      expect(await replica.get(counterOf(name))).toBe(String(tokens[0]));
      replica.disconnect();

      await setup.master.kill();
      const next = await getIn(theirs);
      tokens.push(next.token!);
      await next.release();
      await expect(hold.release()).rejects.toMatchObject({ code: 'LOCK_LOST' });
      tokens.push(await passThrough(lock));
      expectGrowing(tokens);
    }, 90_000);
  });
});
