// The parts of the lock contract that wait out several leases: they run where time is virtual.
import { expect, it } from 'vitest';
import { elsewhere, nextEvent } from './clients.js';
import { expectWarnings } from './expected-warnings.js';
import type { ContractContext } from './lock-contract-context.js';

export function keepingTests(context: () => ContractContext): void {
  it.each([undefined, -1])('lock(%s) is kept by the watchdog beyond its lease', async (lease) => {
    const { client, lock, strangers } = context();
    await lock.lock(lease);
    for (let renewal = 0; renewal < 4; renewal++) await nextEvent(client, 'renewed');
    expect(await strangers.tryLock()).toBe(false);
    await lock.unlock();
  });

  it('a watched hold stays watched after extend(), and beyond the extension', async () => {
    const { client, lock, leaseMs, strangers } = context();
    const hold = await lock.acquire();
    await hold.extend(leaseMs + 500);
    for (let renewal = 0; renewal < 5; renewal++) await nextEvent(client, 'renewed');
    expect(hold.remaining()).toBeGreaterThan(0);
    expect(await strangers.tryLock()).toBe(false);
    await hold.release();
  });
}

/** For a lock that tells of itself, not by its members. */
export function selfWaitTests(context: () => ContractContext): void {
  expectWarnings(/^lock ".*" has been waited for /);

  it('warning names a call outside all scopes that seems to wait for itself', async () => {
    const { client, lock, rival } = context();
    const warned = nextEvent(client, 'warning');
    await lock.lock();
    const nested = rival.lock();
    const event = await warned;
    expect(event.lockName).toBe(lock.name);
    expect(event.message).toContain('withLock');
    await elsewhere(() => lock.unlock());
    await nested;
    await rival.unlock();
  });
}
