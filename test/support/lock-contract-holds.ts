// The part of the lock contract that is about holds: acquire, tryAcquire, withLock, and what a hold can do.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { LockTimeoutError } from '../../src/index.js';
import { nextEvent, rejectionOf } from './clients.js';
import { eventually } from './eventually.js';
import type { ContractContext } from './lock-contract.js';

export function holdTests(context: () => ContractContext): void {
  it('acquire() waits and hands over a hold that knows its lock and owner', async () => {
    const { client, lock, strangers } = context();
    const theirs = await strangers.acquire();
    const waiting = nextEvent(client, 'waiting');
    const acquiring = lock.acquire();
    await waiting;
    await theirs.release();
    const hold = await acquiring;
    expect(hold.lockName).toBe(lock.name);
    expect(hold.ownerId).toMatch(new RegExp(`^${client.clientId}:\\d+$`));
    expect(hold.signal.aborted).toBe(false);
    await hold.release();
    expect(hold.signal.aborted).toBe(false);
  });

  it('acquire({ wait }) that runs out is a LockTimeoutError that names lock, wait and holder', async () => {
    const { lock, strangers } = context();
    const theirs = await strangers.acquire();
    const error = await rejectionOf(lock.acquire({ wait: 400 }));
    expect(error).toBeInstanceOf(LockTimeoutError);
    expect(error).toMatchObject({
      code: 'LOCK_TIMEOUT',
      lockName: lock.name,
      holder: theirs.ownerId,
    });
    expect((error as Error).message).toContain(`lock "${lock.name}" not acquired within 400 ms`);
    await theirs.release();
  });

  it('tryAcquire() gives undefined instead, at once or after `wait`', async () => {
    const { client, lock, strangers } = context();
    const theirs = await strangers.acquire();
    expect(await lock.tryAcquire()).toBeUndefined();
    expect(await lock.tryAcquire({ wait: 300 })).toBeUndefined();
    const waiting = nextEvent(client, 'waiting');
    const acquiring = lock.tryAcquire({ wait: 60_000, lease: 60_000 });
    await waiting;
    await theirs.release();
    const hold = await acquiring;
    // A lock that was handed over gets its lease in the background.
    await eventually(() => {
      expect(hold?.remaining()).toBeGreaterThan(50_000);
    });
    await hold?.release();
    expect(await (await lock.tryAcquire())?.release()).toBeUndefined();
  });

  it('`await using` releases at the end of the block', async () => {
    const { lock } = context();
    {
      await using hold = await lock.acquire();
      expect(hold.remaining()).toBeGreaterThan(0);
      expect(await lock.isLocked()).toBe(true);
    }
    expect(await lock.isLocked()).toBe(false);
  });

  it('`await using` of a hold that was lost throws LockLostError at the end of the block', async () => {
    const { lock, seen } = context();
    const block = async (): Promise<void> => {
      await using hold = await lock.acquire();
      await seen.forceUnlock();
      expect(hold.lockName).toBe(lock.name);
    };
    await expect(block()).rejects.toMatchObject({ code: 'LOCK_LOST' });
  });

  it('withLock runs fn inside, returns its result, and releases', async () => {
    const { lock, seen } = context();
    const result = await lock.withLock(async (hold) => {
      expect(await seen.isLocked()).toBe(true);
      expect(await lock.isHeldByCurrentOwner()).toBe(true);
      return hold.ownerId;
    });
    expect(result).toMatch(/:\d+$/);
    expect(await lock.isLocked()).toBe(false);
  });

  it('withLock({ wait, lease, signal }, fn) takes the same options as acquire', async () => {
    const { lock, strangers } = context();
    const theirs = await strangers.acquire();
    const never = (): void => expect.fail('fn was called');
    await expect(lock.withLock({ wait: 300 }, never)).rejects.toMatchObject({
      code: 'LOCK_TIMEOUT',
    });
    const aborter = new AbortController();
    setTimeout(() => {
      aborter.abort();
    }, 50);
    await expect(lock.withLock({ signal: aborter.signal }, never)).rejects.toMatchObject({
      code: 'LOCK_ABORTED',
    });
    await theirs.release();
    await lock.withLock({ lease: 60_000 }, async () => {
      expect(await lock.remainTimeToLive()).toBeGreaterThan(50_000);
    });
  });

  it('withLock: fn’s error wins, also over a loss; a fn that succeeded learns of the loss', async () => {
    const { lock, seen } = context();
    const fails = lock.withLock(() => Promise.reject(new Error('mine')));
    await expect(fails).rejects.toThrow('mine');
    expect(await lock.isLocked()).toBe(false);
    const failsAfterLoss = lock.withLock(async () => {
      await seen.forceUnlock();
      throw new Error('mine');
    });
    await expect(failsAfterLoss).rejects.toThrow('mine');
    const succeeds = lock.withLock(() => seen.forceUnlock());
    await expect(succeeds).rejects.toMatchObject({ code: 'LOCK_LOST' });
  });

  it('remaining() counts down, and is 0 once released', async () => {
    const { lock } = context();
    const hold = await lock.acquire({ lease: 5_000 });
    const first = hold.remaining();
    expect(first).toBeGreaterThan(4_000);
    expect(first).toBeLessThan(5_000);
    await sleep(20);
    expect(hold.remaining()).toBeLessThanOrEqual(first - 15);
    await hold.release();
    expect(hold.remaining()).toBe(0);
  });

  it('remaining() is 0 and the signal aborts when a fixed lease ends, before the server frees it', async () => {
    const { client, lock, strangers } = context();
    const hold = await lock.acquire({ lease: 300 });
    const lost = nextEvent(client, 'lost');
    const theirs = strangers.acquire().then((acquired) => {
      expect(hold.signal.aborted).toBe(true);
      return acquired;
    });
    expect(await lost).toMatchObject({ lossReason: 'expired' });
    expect(hold.remaining()).toBe(0);
    await expect(hold.extend(1_000)).rejects.toMatchObject({ code: 'LOCK_LOST' });
    await (await theirs).release();
    await expect(hold.release()).rejects.toMatchObject({ code: 'LOCK_LOST' });
  });

  it('extend(lease) makes it end no earlier than that, and never shortens it', async () => {
    const { lock } = context();
    const hold = await lock.acquire({ lease: 5_000 });
    await hold.extend(20_000);
    expect(hold.remaining()).toBeGreaterThan(15_000);
    expect(await lock.remainTimeToLive()).toBeGreaterThan(15_000);
    await hold.extend(100);
    expect(hold.remaining()).toBeGreaterThan(15_000);
    expect(await lock.remainTimeToLive()).toBeGreaterThan(15_000);
    await hold.release();
    await expect(hold.extend(1_000)).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
  });

  it('a watched hold stays watched after extend, and beyond it', async () => {
    const { client, lock, leaseMs, strangers } = context();
    const hold = await lock.acquire();
    await hold.extend(leaseMs + 500);
    for (let renewal = 0; renewal < 5; renewal++) await nextEvent(client, 'renewed');
    expect(hold.remaining()).toBeGreaterThan(0);
    expect(await strangers.tryLock()).toBe(false);
    await hold.release();
  });

  it('release() twice is harmless; release() after a loss is a LockLostError each time', async () => {
    const { lock, seen } = context();
    const hold = await lock.acquire();
    await hold.release();
    await hold.release();
    const other = await lock.acquire();
    await seen.forceUnlock();
    await expect(other.release()).rejects.toMatchObject({ code: 'LOCK_LOST' });
    await expect(other.release()).rejects.toMatchObject({ code: 'LOCK_LOST' });
  });

  it('hold.run(fn) lets nested calls re-enter from anywhere', async () => {
    const { client, lock, rival } = context();
    const hold = await lock.acquire();
    await client.detach(async () => {
      expect(await rival.tryAcquire()).toBeUndefined();
      await hold.run(() =>
        lock.withLock((nested) => {
          expect(nested.ownerId).toBe(hold.ownerId);
        }),
      );
    });
    await hold.release();
  });

  it('hold.run(fn) gives back what fn does, and does not release', async () => {
    const { lock, seen } = context();
    const hold = await lock.acquire();
    expect(await hold.run(() => 7)).toBe(7);
    await expect(hold.run(() => Promise.reject(new Error('mine')))).rejects.toThrow('mine');
    expect(await seen.isLocked()).toBe(true);
    await hold.release();
    const never = (): void => expect.fail('fn was called');
    await expect(hold.run(never)).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
  });

  it('acquire() in a run is re-entered by what is nested there, and unlock() does not undo it', async () => {
    const { client, lock, seen } = context();
    await client.run(async () => {
      const hold = await lock.acquire();
      expect(await lock.tryLock()).toBe(true);
      await hold.release();
      expect(await seen.isLocked()).toBe(true); // by the tryLock()
      await lock.unlock();
      expect(await seen.isLocked()).toBe(false);
      await using again = await lock.acquire();
      await expect(lock.unlock()).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
      expect(again.remaining()).toBeGreaterThan(0);
    });
  });

  it('in Promise.all inside a holder, withLock bodies never overlap, unless the lock is one that several may have', async () => {
    const { lock, isShared } = context();
    let inside = 0;
    let most = 0;
    await lock.withLock(() =>
      Promise.all(
        [1, 2, 3].map(() =>
          lock.withLock(async () => {
            most = Math.max(most, ++inside);
            await sleep(50);
            inside--;
          }),
        ),
      ),
    );
    expect(most).toBe(isShared ? 3 : 1);
    expect(await lock.isLocked()).toBe(false);
  });
}
