// The part of the lock contract that is about lock, tryLock and unlock.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import type { Lock } from '../../src/index.js';
import { eventsOf, nextEvent } from './clients.js';
import { elsewhere } from './elsewhere.js';
import type { ContractContext } from './lock-contract.js';

export function callTests(context: () => ContractContext): void {
  it('lock() acquires, unlock() frees', async () => {
    const { lock, strangers } = context();
    await lock.lock();
    expect(await strangers.tryLock()).toBe(false);
    await lock.unlock();
    expect(await strangers.tryLock()).toBe(true);
    await strangers.unlock();
  });

  it('lock(lease) and lock({ lease }) end by themselves', async () => {
    const { lock, strangers } = context();
    for (const lease of [300, { lease: 300 }]) {
      await lock.lock(lease);
      expect(await lock.remainTimeToLive()).toBeLessThanOrEqual(300);
      await strangers.lock(); // nobody unlocked
      await strangers.unlock();
      await expect(lock.unlock()).rejects.toMatchObject({ code: 'LOCK_LOST' });
    }
  });

  it.each([undefined, -1])('lock(%s) is kept by the watchdog beyond its lease', async (lease) => {
    const { client, lock, strangers } = context();
    await lock.lock(lease);
    for (let renewal = 0; renewal < 4; renewal++) await nextEvent(client, 'renewed');
    expect(await strangers.tryLock()).toBe(false);
    await lock.unlock();
  });

  it('tryLock() makes one attempt', async () => {
    const { lock, strangers } = context();
    expect(await strangers.tryLock()).toBe(true);
    const before = performance.now();
    expect(await lock.tryLock()).toBe(false);
    expect(performance.now() - before).toBeLessThan(1_000);
    await strangers.unlock();
  });

  it.each(['positional', 'object'])('tryLock waits for at most `wait` (%s)', async (form) => {
    const { lock, strangers } = context();
    await strangers.lock();
    const before = performance.now();
    expect(await (form === 'object' ? lock.tryLock({ wait: 200 }) : lock.tryLock(200))).toBe(false);
    const elapsedMs = performance.now() - before;
    expect(elapsedMs).toBeGreaterThan(195);
    expect(elapsedMs).toBeLessThan(1_500);
    await strangers.unlock();
  });

  it('lock({ signal }) and tryLock({ wait, signal }) stop waiting when it aborts', async () => {
    const { client, lock, strangers } = context();
    await strangers.lock();
    for (const call of ['lock', 'tryLock'] as const) {
      const aborter = new AbortController();
      const waiting = nextEvent(client, 'waiting');
      const { signal } = aborter;
      const mine = call === 'lock' ? lock.lock({ signal }) : lock.tryLock({ wait: 60_000, signal });
      await waiting;
      aborter.abort(new Error('enough'));
      await expect(mine).rejects.toMatchObject({
        code: 'LOCK_ABORTED',
        lockName: lock.name,
        cause: { message: 'enough' },
      });
    }
    await strangers.unlock();
    expect(await lock.isLocked()).toBe(false);
  });

  it('an aborted signal is refused before anything is done', async () => {
    const { client, lock } = context();
    const acquired = eventsOf(client, 'acquired');
    const signal = AbortSignal.abort(new Error('before'));
    for (const refused of [
      lock.lock({ signal }),
      lock.tryLock({ signal }),
      lock.acquire({ signal }),
      lock.tryAcquire({ signal }),
      lock.withLock({ signal }, () => expect.fail('fn was called')),
    ]) {
      await expect(refused).rejects.toMatchObject({
        code: 'LOCK_ABORTED',
        lockName: lock.name,
        cause: { message: 'before' },
      });
    }
    expect(await lock.isLocked()).toBe(false);
    expect(acquired).toEqual([]);
  });

  it('unlock() by somebody who does not hold it, or twice, is a LockNotHeldError', async () => {
    const { lock, strangers } = context();
    const notHeld = { code: 'LOCK_NOT_HELD', lockName: lock.name };
    await expect(lock.unlock()).rejects.toMatchObject(notHeld);
    await lock.lock();
    await expect(strangers.unlock()).rejects.toMatchObject(notHeld);
    await lock.unlock();
    await expect(lock.unlock()).rejects.toMatchObject(notHeld);
  });

  it('outside any run unlock() behind a tryLock() that said false does not free the lock of another request', async () => {
    const { lock, strangers } = context();
    await strangers.lock();
    expect(await lock.tryLock()).toBe(false);
    await strangers.unlock();
    await elsewhere(() => lock.lock());
    await expect(lock.unlock()).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
    expect(await strangers.tryLock()).toBe(false);
    await elsewhere(() => lock.unlock());
    expect(await lock.tryLock()).toBe(true);
    await lock.unlock();
  });

  it('in a run it is reentrant, and as many unlock() free it', async () => {
    const { client, lock, strangers } = context();
    await client.run(async () => {
      await lock.lock();
      expect(await lock.tryLock()).toBe(true);
      expect(await lock.getHoldCount()).toBe(2);
      await lock.unlock();
      expect(await strangers.tryLock()).toBe(false);
      await lock.unlock();
      expect(await strangers.tryLock()).toBe(true);
      await strangers.unlock();
    });
  });

  it('a nested short lease does not shorten the outer one', async () => {
    const { client, lock, strangers, seen } = context();
    await client.run(async () => {
      await lock.lock();
      expect(await lock.tryLock(0, 100)).toBe(true);
      expect(await seen.remainTimeToLive()).toBeGreaterThan(100);
      await sleep(300);
      expect(await strangers.tryLock()).toBe(false);
      await lock.unlock();
      await lock.unlock();
    });
  });

  it('excludes: of two clients, and all their callers, one at a time is inside', async () => {
    const { lock, strangers, isShared } = context();
    const inside: Lock[] = [];
    let passes = 0;
    const pass = (theirs: Lock) => async (): Promise<void> => {
      inside.push(theirs);
      // Of a lock that several may have at a time, those who have it may be inside together.
      const mayShare = isShared && theirs === lock;
      expect(inside.filter((other) => !mayShare || other !== lock)).toEqual(
        mayShare ? [] : [theirs],
      );
      await sleep(1);
      inside.splice(inside.indexOf(theirs), 1);
      passes++;
    };
    const caller = async (theirs: Lock): Promise<void> => {
      await theirs.withLock(pass(theirs));
      await theirs.lock();
      await pass(theirs)();
      await theirs.unlock();
      const hold = await theirs.acquire({ lease: 60_000 });
      await pass(theirs)();
      await hold.release();
      expect(await theirs.tryLock(60_000)).toBe(true);
      await pass(theirs)();
      await theirs.unlock();
    };
    await Promise.all([lock, lock, lock, strangers, strangers, strangers].map(caller));
    expect(passes).toBe(24);
  });
}
