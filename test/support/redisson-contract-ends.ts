// Beside Redisson: how long each holds a lock against the other, and what ends it.
import { expect, it } from 'vitest';
import { nextEvent } from './clients.js';
import { eventually } from './eventually.js';
import type { RedissonContext } from './redisson-contract.js';
import { startRedisson } from './redisson.js';
import { NEVER, settledWithin } from './settled-within.js';

/** A lease that is short enough to see it renewed, long enough for a busy machine. */
const LEASE_MS = 1_500;

export function endTests(current: () => RedissonContext): void {
  it('each holds until its last release, however often it re-entered', async () => {
    const { servers, client, name, ours, theirs } = current();
    const counts = async (): Promise<string[]> => Object.values(await servers.redis.hgetall(name));
    for (const count of [1, 2, 3]) {
      await theirs.lock();
      expect(await counts()).toEqual([String(count)]);
    }
    for (const count of [2, 1, 0]) {
      expect(await ours.tryLock()).toBe(false);
      await theirs.unlock();
      expect(await theirs.getHoldCount()).toBe(count);
    }

    await client.run(async () => {
      for (const count of [1, 2, 3]) {
        await ours.lock();
        expect(await counts()).toEqual([String(count)]);
      }
      expect(await theirs.getHoldCount()).toBe(0);
      for (const count of [2, 1, 0]) {
        expect(await theirs.tryLock()).toBe(false);
        await ours.unlock();
        expect(await ours.getHoldCount()).toBe(count);
      }
    });
    expect(await theirs.tryLock()).toBe(true);
    await theirs.unlock();
  });

  it('each one’s watchdog keeps the other out for three leases', async () => {
    const { servers, name, ours, theirs } = current();
    await using java = startRedisson();
    const quick = (await java.connect(servers.nodes, { watchdogMs: LEASE_MS })).getLock(name);
    await quick.lock();
    expect(await ours.remainTimeToLive()).toBeLessThanOrEqual(LEASE_MS);
    expect(await ours.tryLock(3 * LEASE_MS)).toBe(false);
    await quick.unlock();

    await using client = servers.newHoldfast({ lockWatchdogTimeout: LEASE_MS });
    const hold = await client.getLock(name).acquire();
    expect(await theirs.remainTimeToLive()).toBeLessThanOrEqual(LEASE_MS);
    expect(await theirs.tryLock(3 * LEASE_MS)).toBe(false);
    expect(hold.signal.aborted).toBe(false);
    await hold.release();
  });

  it('a Java process that is killed frees its lock for us when its lease ends', async () => {
    const { servers, client, name, ours } = current();
    await using java = startRedisson();
    const doomed = await java.connect(servers.nodes, { watchdogMs: LEASE_MS });
    await doomed.getLock(name).lock();
    const waiting = nextEvent(client, 'waiting');
    const next = ours.acquire();
    await waiting;
    await java.kill();
    expect(await next).toMatchObject({ lockName: name });
    await ours.forceUnlock();
  });

  it('a Node process that is killed frees its lock for Redisson when its lease ends', async () => {
    const { servers, name, theirs } = current();
    await using child = servers.startHoldfastChild({ lockWatchdogTimeout: LEASE_MS });
    await child.next('ready');
    child.send({ type: 'acquire', name });
    await child.next('acquired');
    const next = theirs.lock();
    await servers.isListenedFor(name);
    await child.kill();
    await next;
    expect(await theirs.isHeldByCurrentThread()).toBe(true);
    await theirs.unlock();
  });

  it('our forceUnlock() puts Redisson out, which finds that it no longer holds it', async () => {
    const { servers, name, ours, theirs } = current();
    await theirs.lock();
    const next = theirs.of('waiter').lock();
    await servers.isListenedFor(name);
    expect(await ours.forceUnlock()).toBe(true);
    expect(await settledWithin(next, 5_000)).not.toBe(NEVER);
    expect(await theirs.isHeldByCurrentThread()).toBe(false);
    await expect(theirs.unlock()).rejects.toMatchObject({ name: 'IllegalMonitorStateException' });
    await theirs.of('waiter').unlock();
  });

  it('Redisson’s forceUnlock() puts us out, which is told at the next renewal, and wakes who waits', async () => {
    const { servers, name, ours, theirs } = current();
    await using client = servers.newHoldfast({ lockWatchdogTimeout: LEASE_MS });
    const hold = await client.getLock(name).acquire();
    const next = ours.acquire();
    await servers.isListenedFor(name);
    const lost = nextEvent(client, 'lost');
    expect(await theirs.forceUnlock()).toBe(true);
    const taken = await settledWithin(next, 5_000);
    if (taken === NEVER) throw new Error('forceUnlock() of Redisson woke nobody');
    expect(await lost).toMatchObject({ lockName: name, ownerId: hold.ownerId });
    expect(hold.signal.aborted).toBe(true);
    await taken.release();
    await eventually(async () => {
      expect(await ours.isLocked()).toBe(false);
    });
  });
}
