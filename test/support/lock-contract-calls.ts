// The parts of the lock contract about lock, tryLock and unlock, about queries, and about waking waiters.
import { expect, it } from 'vitest';
import type { Lock } from '../../src/index.js';
import { elsewhere, eventsOf, nextEvent } from './clients.js';
import type { ContractContext } from './lock-contract-context.js';
import { eventually, inTime, sleep } from './time.js';

export function callTests(context: () => ContractContext): void {
  it('lock() acquires, unlock() releases', async () => {
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
      await strangers.lock(); // without an unlock()
      await strangers.unlock();
      await expect(lock.unlock()).rejects.toMatchObject({ code: 'LOCK_LOST' });
    }
  });

  it('tryLock() makes one attempt', async () => {
    const { lock, strangers } = context();
    expect(await strangers.tryLock()).toBe(true);
    const before = performance.now();
    expect(await lock.tryLock()).toBe(false);
    expect(performance.now() - before).toBeLessThan(1_000);
    await strangers.unlock();
  });

  it.each(['positional', 'object'])('tryLock() waits for at most `wait` (%s)', async (form) => {
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

  it('unlock() by a caller that does not hold the lock, or twice, is a LockNotHeldError', async () => {
    const { lock, strangers } = context();
    const notHeld = { code: 'LOCK_NOT_HELD', lockName: lock.name };
    await expect(lock.unlock()).rejects.toMatchObject(notHeld);
    await lock.lock();
    await expect(strangers.unlock()).rejects.toMatchObject(notHeld);
    await lock.unlock();
    await expect(lock.unlock()).rejects.toMatchObject(notHeld);
  });

  it("outside any run unlock() after a tryLock() that returned false does not release another request's lock", async () => {
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

  it('in a run the lock is reentrant, and as many unlock() calls release it', async () => {
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

  it('of two clients with all their callers, one caller at a time is inside', async () => {
    const { lock, strangers, isShared } = context();
    const inside: Lock[] = [];
    let passes = 0;
    const pass = (theirs: Lock) => async (): Promise<void> => {
      inside.push(theirs);
      // The holders of a lock that several may have may be inside together.
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

// The part of the lock contract about queries of a lock, and about forceUnlock().

export function lookingTests(context: () => ContractContext): void {
  it('isLocked, remainTimeToLive, isHeldByCurrentOwner and getHoldCount follow the lock', async () => {
    const { client, lock, seen } = context();
    const look = async (): Promise<unknown[]> => [
      await lock.isLocked(),
      await seen.isLocked(),
      await lock.isHeldByCurrentOwner(),
      await seen.isHeldByCurrentOwner(),
      await lock.getHoldCount(),
      await seen.getHoldCount(),
    ];
    expect(await look()).toEqual([false, false, false, false, 0, 0]);
    expect(await lock.remainTimeToLive()).toBe(-2);
    await client.run(async () => {
      await lock.lock(5_000);
      await lock.lock(5_000);
      expect(await look()).toEqual([true, true, true, false, 2, 0]);
      expect(await seen.remainTimeToLive()).toBeGreaterThan(4_000);
      await lock.unlock();
      await lock.unlock();
    });
    expect(await look()).toEqual([false, false, false, false, 0, 0]);
  });

  it('inside withLock() and hold.run() the caller holds the lock, outside of them it does not', async () => {
    const { client, lock } = context();
    const isHeld = (): Promise<boolean> => lock.isHeldByCurrentOwner();
    await lock.withLock(async (hold) => {
      expect(await isHeld()).toBe(true);
      expect(await lock.withLock(() => lock.getHoldCount())).toBe(2);
      expect(await lock.getHoldCount()).toBe(1);
      expect(await client.detach(isHeld)).toBe(false);
      expect(await client.detach(() => hold.run(isHeld))).toBe(true);
    });
    expect(await isHeld()).toBe(false);
  });

  it('a run holds what it locked; a run beside it does not', async () => {
    const { client, lock } = context();
    await client.run(async () => {
      await lock.lock();
      expect(await lock.isHeldByCurrentOwner()).toBe(true);
      expect(await client.run(() => lock.isHeldByCurrentOwner())).toBe(true); // inside it
      const beside = client.detach(() => client.run(() => lock.isHeldByCurrentOwner()));
      expect(await beside).toBe(false);
      await lock.unlock();
      expect(await lock.isHeldByCurrentOwner()).toBe(false);
    });
  });

  it('outside all scopes the caller holds what unlock() would undo', async () => {
    const { lock } = context();
    const look = async (): Promise<unknown[]> => [
      await lock.isHeldByCurrentOwner(),
      await lock.getHoldCount(),
    ];
    await lock.lock();
    expect(await look()).toEqual([true, 1]);
    await lock.unlock();
    expect(await look()).toEqual([false, 0]);
    await using hold = await lock.acquire();
    expect(await look()).toEqual([false, 0]);
    expect(await hold.run(look)).toEqual([true, 1]);
  });

  it('remainTimeToLive() is at most the lease, and -2 once the lock is free', async () => {
    const { lock, seen, leaseMs } = context();
    await lock.withLock(async () => {
      for (const one of [lock, seen]) {
        const ttlMs = await one.remainTimeToLive();
        expect(ttlMs).toBeGreaterThan(0);
        expect(ttlMs).toBeLessThanOrEqual(leaseMs);
      }
    });
    expect(await lock.remainTimeToLive()).toBe(-2);
    expect(await seen.remainTimeToLive()).toBe(-2);
  });

  it('forceUnlock() releases the lock whoever holds it, and returns whether it was held', async () => {
    const { client, lock, strangers, seen } = context();
    expect(await seen.forceUnlock()).toBe(false);
    const hold = await lock.acquire();
    const lost = nextEvent(client, 'lost');
    expect(await seen.forceUnlock()).toBe(true);
    expect(await strangers.tryLock()).toBe(true);
    expect(await lost).toMatchObject({ lossReason: 'forced', ownerId: hold.ownerId });
    expect(hold.signal.aborted).toBe(true);
    await expect(hold.release()).rejects.toMatchObject({ code: 'LOCK_LOST', lossReason: 'forced' });
    await strangers.unlock();
  });

  it("forceUnlock() by the holder's own client notifies the holder at once", async () => {
    const { lock } = context();
    const hold = await lock.acquire({ lease: 1_500 }); // the mark for the holder is not needed: it ends with the lease
    expect(await lock.forceUnlock()).toBe(true);
    expect(hold.signal.aborted).toBe(true);
    expect(hold.signal.reason).toMatchObject({ lossReason: 'forced' });
  });
}

// The part of the lock contract about waking waiters: every way to free the lock does so, long before they would poll.

/** Of both clients: a waiter polls after a third of it. */
export const WAKING_LEASE_MS = 30_000;

/** Generous for a busy machine, and half of the time until a poll. */
const WOKEN_WITHIN_MS = WAKING_LEASE_MS / 6;

/** The waiter has subscribed by then, and polled once more: from now on it receives messages, or sleeps. */
export const SUBSCRIBED_AFTER_MS = 300;

export function wakingTests(context: () => ContractContext): void {
  it('lock() waits until the lock is free', async () => {
    const { lock, strangers, stranger, name } = context();
    await lock.lock();
    const waiting = nextEvent(stranger, 'waiting');
    const theirs = strangers.lock();
    expect((await waiting).lockName).toContain(name);
    await sleep(SUBSCRIBED_AFTER_MS);
    const freedAtMs = performance.now();
    await lock.unlock();
    await theirs;
    expect(performance.now() - freedAtMs).toBeLessThan(WOKEN_WITHIN_MS);
    await strangers.unlock();
  });

  it('a waiter gets a lock with lockAtLeastFor when that time is over, long before the lease would have ended', async () => {
    const { lock, strangers, stranger } = context();
    const hold = await lock.acquire({ lockAtLeastFor: 1_000 });
    const waiting = nextEvent(stranger, 'waiting');
    const acquiring = strangers.acquire();
    await waiting;
    await sleep(SUBSCRIBED_AFTER_MS);
    await hold.release();
    await (await inTime(acquiring, 5_000, 'it did not get the lock')).release();
  });

  it.each(['positional', 'object'])(
    'tryLock() takes the lock within `wait` for `lease` (%s)',
    async (form) => {
      const { lock, strangers, client } = context();
      await strangers.lock();
      const waiting = nextEvent(client, 'waiting');
      const mine =
        form === 'object'
          ? lock.tryLock({ wait: 60_000, lease: 60_000 })
          : lock.tryLock(60_000, 60_000);
      await waiting;
      await sleep(SUBSCRIBED_AFTER_MS);
      const freedAtMs = performance.now();
      await strangers.unlock();
      expect(await mine).toBe(true);
      expect(performance.now() - freedAtMs).toBeLessThan(WOKEN_WITHIN_MS);
      // A lock that was handed over gets its lease in the background.
      const ttlMs = await eventually(async () => {
        const leftMs = await lock.remainTimeToLive();
        expect(leftMs).toBeGreaterThan(50_000);
        return leftMs;
      });
      expect(ttlMs).toBeLessThanOrEqual(60_000);
      await lock.unlock();
    },
  );

  it('forceUnlock() wakes waiters', async () => {
    const { client, lock, rival, strangers } = context();
    await strangers.lock(60_000);
    const waiting = nextEvent(client, 'waiting');
    const mine = lock.lock();
    await waiting;
    await sleep(SUBSCRIBED_AFTER_MS);
    const freedAtMs = performance.now();
    await rival.forceUnlock();
    await mine;
    expect(performance.now() - freedAtMs).toBeLessThan(WOKEN_WITHIN_MS);
    await lock.unlock();
    await expect(strangers.unlock()).rejects.toMatchObject({ code: 'LOCK_LOST' });
  });
}
