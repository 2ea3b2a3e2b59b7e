// The part of the lock contract that is about looking at a lock, and about forceUnlock.
import { expect, it } from 'vitest';
import { nextEvent } from './clients.js';
import type { ContractContext } from './lock-contract.js';

export function lookingTests(context: () => ContractContext): void {
  it('isLocked, remainTimeToLive, isHeldByCurrentOwner and getHoldCount follow it', async () => {
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

  it('inside withLock and hold.run the caller holds it, outside of them nobody does', async () => {
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

  it('remainTimeToLive() is at most the lease, and -2 once it is free', async () => {
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

  it('forceUnlock() frees it whoever holds it, and says whether it was held', async () => {
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

  it('forceUnlock() by the holder’s own client tells the holder at once', async () => {
    const { lock } = context();
    const hold = await lock.acquire({ lease: 1_500 }); // nobody needs the word that is left for the holder: it ends with the lease
    expect(await lock.forceUnlock()).toBe(true);
    expect(hold.signal.aborted).toBe(true);
    expect(hold.signal.reason).toMatchObject({ lossReason: 'forced' });
  });
}
