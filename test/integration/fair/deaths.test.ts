// A client that is killed, waiting or holding, does not delay the line of a fair lock.
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, inject, it } from 'vitest';
import type { HoldfastOptions } from '../../../src/index.js';
import { newClient, sharedConnection } from '../../support/clients.js';
import { eventually, machineMs, medianOf } from '../../support/time.js';
import { FairLine } from '../../support/fair-line.js';
import {
  joinAll,
  orderOf,
  startFairProcesses,
  turnsOneByOne,
  type FairProcess,
  type FairProcesses,
  type ProcessCall,
} from '../../support/fair-processes.js';

const LEASE_MS = 1_500;
const TIMEOUT_MS = 90_000;

const redis = sharedConnection();
let line: FairLine;

beforeEach(() => {
  line = new FairLine(redis);
});

describe('the first in line', () => {
  it(
    'is killed: the next one holds the lock at once when it is released',
    async () => {
      await using holder = newClient({ lockWatchdogTimeout: 30_000 });
      await using processes = await startProcesses(5, { lockWatchdogTimeout: 30_000 });
      const hold = await line.lockOf(holder).acquire();
      const [first, ...others] = await joinAll(line, processes);
      await first!.process.child.kill();
      await eventually(async () => {
        const channels = await redis.pubsub('CHANNELS', `holdfast_grants:{${line.name}}*`);
        expect(channels).toHaveLength(others.length);
      });
      const releasedAtMs = machineMs();
      await hold.release();
      const acquiredAtMs = await others[0]!.process.acquiredAtMs(others[0]!.label);
      // Half of the time after which the next one would poll.
      expect(acquiredAtMs - releasedAtMs).toBeLessThan(5_000);
      expect(orderOf(await turnsOneByOne(others))).toEqual(['1', '2', '3', '4']);
      await line.isGone();
    },
    TIMEOUT_MS,
  );
});

describe('after the holder is killed, the first in line acquires the lock when the lease ends', () => {
  it.each([LEASE_MS, 30_000])(
    'of a watched lock, with leases of %i ms for the places in line',
    async (lockWatchdogTimeout) => {
      const soonMs = soonFor(lockWatchdogTimeout);
      const lateMs = await medianOf(soonMs, async () => {
        line = new FairLine(redis);
        await using holders = await startProcesses(1);
        await using waiters = await startProcesses(2, { lockWatchdogTimeout });
        const [holder] = holders.all;
        holder.call(line, 'holder');
        await holder.acquiredAtMs('holder');
        const calls = await joinAll(line, waiters);
        await sleep(LEASE_MS); // it is renewed meanwhile
        return await killedHolder(holder, calls);
      });
      expect(lateMs).toBeLessThan(soonMs);
    },
    TIMEOUT_MS,
  );

  it.each([
    [700, LEASE_MS],
    [2_500, LEASE_MS],
    [700, 30_000],
  ])(
    'of a lock with a fixed lease of %i ms that was handed over, with leases of %i ms for places',
    async (lease, lockWatchdogTimeout) => {
      const soonMs = soonFor(lockWatchdogTimeout);
      const lateMs = await medianOf(soonMs, async () => {
        line = new FairLine(redis);
        await using predecessor = newClient({ lockWatchdogTimeout: LEASE_MS });
        await using holders = await startProcesses(1, { lockWatchdogTimeout });
        await using waiters = await startProcesses(2, { lockWatchdogTimeout });
        const [holder] = holders.all;
        const hold = await line.lockOf(predecessor).acquire();
        await holder.join(line, 'holder', { lease });
        const calls = await joinAll(line, waiters);
        await hold.release();
        await holder.acquiredAtMs('holder');
        await eventually(async () => {
          const [ttlMs] = await line.ttls(); // no longer the rest of its place's lease
          expect(ttlMs).toBeLessThanOrEqual(lease);
          if (lease > lockWatchdogTimeout) expect(ttlMs).toBeGreaterThan(lockWatchdogTimeout);
        });
        return await killedHolder(holder, calls);
      });
      expect(lateMs).toBeLessThan(soonMs);
    },
    TIMEOUT_MS,
  );

  /** A waiter that is not woken finds out when it next renews its place, within a third of the place's lease: seldom as soon as this. */
  function soonFor(placeLeaseMs: number): number {
    return Math.max(100, placeLeaseMs / 30);
  }

  /** How long after the end of the holder's lease the first of these calls acquired the lock. */
  async function killedHolder(
    holder: FairProcess,
    [first, ...others]: ProcessCall[],
  ): Promise<number> {
    const [ttlMs] = await line.ttls();
    const endsAtMs = machineMs() + ttlMs!;
    await holder.child.kill();
    const acquiredAtMs = await first!.process.acquiredAtMs(first!.label);
    const turns = await turnsOneByOne([first!, ...others]);
    expect(orderOf(turns)).toEqual(turns.map(({ label }) => label));
    await line.isGone();
    return acquiredAtMs - endsAtMs;
  }
});

function startProcesses(
  count: number,
  options: Partial<HoldfastOptions> = { lockWatchdogTimeout: LEASE_MS },
): Promise<FairProcesses> {
  return startFairProcesses(count, inject('redisUrl'), options);
}
