// Places in the line of a fair lock are leases: kept for live waiters, gone after dead ones, and none stays for ever.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import { newClient, sharedConnection } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { FairLine, type Caller } from '../../support/fair-line.js';
import { startFairProcesses } from '../../support/fair-processes.js';
import { startProxy } from '../../support/tcp-proxy.js';

const LEASE_MS = 2_000;
const TIMEOUT_MS = 60_000;

const redis = sharedConnection();
let line: FairLine;
let holder: Holdfast;
let waiter: Holdfast;
let other: Holdfast;

beforeEach(() => {
  line = new FairLine(redis);
  holder = newClient({ lockWatchdogTimeout: 30_000 });
  waiter = newClient({ lockWatchdogTimeout: LEASE_MS });
  other = newClient({ lockWatchdogTimeout: LEASE_MS });
});

afterEach(async () => {
  await line.isGone();
  await Promise.all([holder, waiter, other].map((client) => client.close()));
});

describe('a place', () => {
  it('of a live waiter is kept, and stays first, for three leases and longer', async () => {
    const hold = await line.lockOf(holder).acquire();
    const callers = await joinThree();
    const owners = callers.map(({ ownerId }) => ownerId);
    const tickets = await redis.zrange(line.keys[1], '0', '-1', 'WITHSCORES');
    const endMs = performance.now() + 3.5 * LEASE_MS;
    while (performance.now() < endMs) {
      expect(await line.lockOf(holder).getWaiters()).toEqual(owners);
      await sleep(20);
    }
    expect(await redis.zrange(line.keys[1], '0', '-1', 'WITHSCORES')).toEqual(tickets);
    await hold.release();
    await Promise.all(callers.map(({ done }) => done));
    expect(line.turns).toEqual(['a', 'b', 'c']);
  });

  it('of a dead waiter is not counted after its lease', async () => {
    const { hostname, port } = new URL(inject('redisUrl'));
    await using proxy = await startProxy(Number(port), hostname);
    await using dead = newClient({ redis: proxy.url, lockWatchdogTimeout: LEASE_MS });
    const hold = await line.lockOf(holder).acquire();
    const lock = line.lockOf(holder);
    const first = await line.join(dead, 'dead');
    const second = await line.join(waiter, 'alive');
    expect(await lock.getWaiters()).toEqual([first.ownerId, second.ownerId]);
    proxy.blackhole();
    await sleep(LEASE_MS + 100);
    expect(await lock.getWaiters()).toEqual([second.ownerId]);
    expect(await lock.getQueueLength()).toBe(1);
    proxy.heal();
    await eventually(async () => {
      expect(await lock.getWaiters()).toEqual([first.ownerId, second.ownerId]); // its old place
      // A command that was under way when its connections were dropped comes first, and claims to listen before it does.
      const channels = await redis.pubsub('CHANNELS', `holdfast_grants:{${line.name}}*`);
      expect(channels).toHaveLength(2);
    });
    await hold.release();
    await Promise.all([first.done, second.done]);
    expect(line.turns).toEqual(['dead', 'alive']);
  });
});

describe('getQueueLength() and getWaiters()', () => {
  it('list the waiters in order, without the holder', async () => {
    const lock = line.lockOf(waiter);
    expect(await lock.getQueueLength()).toBe(0);
    expect(await lock.getWaiters()).toEqual([]);
    const hold = await line.lockOf(holder).acquire();
    expect(await lock.getQueueLength()).toBe(0);
    const callers = await joinThree();
    expect(await lock.getQueueLength()).toBe(3);
    expect(await lock.getWaiters()).toEqual(callers.map(({ ownerId }) => ownerId));
    await hold.release();
    await Promise.all(callers.map(({ done }) => done));
    expect(await lock.getQueueLength()).toBe(0);
    expect(await lock.getWaiters()).toEqual([]);
  });

  it('do not list callers that wait in a hold of their own scope', async () => {
    const lock = line.lockOf(holder);
    await lock.withLock(async () => {
      const branches = [lock.withLock(() => sleep(100)), lock.withLock(() => sleep(100))];
      await sleep(50);
      expect(await lock.getQueueLength()).toBe(0);
      await Promise.all(branches);
    });
  });
});

describe('the keys', () => {
  it(
    'disappear by themselves when all holders and waiters are killed',
    async () => {
      await using processes = await startFairProcesses(3, inject('redisUrl'), {
        lockWatchdogTimeout: LEASE_MS,
      });
      const [first] = processes.all;
      first.call(line, 'holder');
      await first.acquiredAtMs('holder');
      for (const process of processes.all) {
        for (const label of ['a', 'b', 'c']) await process.join(line, label);
      }
      await sleep(LEASE_MS);
      await Promise.all(processes.all.map(({ child }) => child.kill()));
      for (const ttlMs of await line.ttls()) expect(ttlMs).toBeLessThanOrEqual(2 * LEASE_MS);
      await sleep(2 * LEASE_MS);
      expect(await line.ttls()).toEqual([-2, -2, -2]);
    },
    TIMEOUT_MS,
  );
});

async function joinThree(): Promise<Caller[]> {
  return [await line.join(waiter, 'a'), await line.join(other, 'b'), await line.join(waiter, 'c')];
}
