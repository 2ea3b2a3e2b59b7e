// The part of the lock contract that is about who wakes those who wait: whoever frees the lock, long before they would look for themselves.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { nextEvent } from './clients.js';
import { eventually } from './eventually.js';
import type { ContractContext } from './lock-contract.js';

/** Of both clients: who waits looks for itself after a third of that. */
export const WAKING_LEASE_MS = 30_000;

/** Generous for a busy machine, and half of what looking for itself takes. */
const WOKEN_WITHIN_MS = WAKING_LEASE_MS / 6;

/** Who waits has subscribed by then, and looked once more: from now on it hears, or sleeps. */
const SUBSCRIBED_AFTER_MS = 300;

export function wakingTests(context: () => ContractContext): void {
  it('lock() waits until it is free', async () => {
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

  it.each(['positional', 'object'])(
    'tryLock takes it within `wait` for `lease` (%s)',
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

  it('forceUnlock() wakes those who wait', async () => {
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
