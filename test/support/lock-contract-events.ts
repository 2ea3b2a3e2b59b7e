// The part of the lock contract that is about events, and about closing the client.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { LockLostError } from '../../src/index.js';
import { eventsOf, nextEvent } from './clients.js';
import { expectWarnings } from './expected-warnings.js';
import type { ContractContext } from './lock-contract.js';

export function eventTests(context: () => ContractContext): void {
  // What the events of the same name tell.
  expectWarnings(/^(a run ended while it still held lock |lock ".*" has been waited for )/);

  it('acquired, waiting and released tell who, what and how often', async () => {
    const { client, stranger, lock, strangers, leaseMs } = context();
    const acquired = eventsOf(client, 'acquired');
    const released = eventsOf(client, 'released');
    const waiting = nextEvent(stranger, 'waiting');
    // Of a Redlock it may come first: a master that is slow to answer keeps nobody else from a majority.
    const theirRelease = nextEvent(stranger, 'released');
    await lock.withLock(async ({ ownerId }) => {
      const theirs = strangers.tryLock(60_000);
      const event = await waiting;
      expect(event).toMatchObject({ lockName: lock.name, holder: ownerId });
      expect(event.ownerId).toMatch(new RegExp(`^${stranger.clientId}:\\d+$`));
      expect(event.holderTtlMs).toBeGreaterThan(0);
      expect(event.holderTtlMs).toBeLessThanOrEqual(leaseMs);
      expect(Object.keys(event).sort()).toEqual(['holder', 'holderTtlMs', 'lockName', 'ownerId']);
      await lock.withLock({ lease: 5_000 }, () => undefined);
      const about = { lockName: lock.name, ownerId };
      expect(acquired).toMatchObject([
        { ...about, holdCount: 1, leaseMs, watched: true },
        { ...about, holdCount: 2, leaseMs: 5_000, watched: false },
      ]);
      expect(released).toMatchObject([{ ...about, holdCount: 1 }]);
      void theirs.then(() => strangers.unlock());
      await sleep(1); // a server in memory takes no time
    });
    expect(released).toMatchObject([{ holdCount: 1 }, { holdCount: 0 }]);
    expect(released[1]!.heldForMs).toBeGreaterThan(0);
    await theirRelease;
  });

  it('renewed tells whose lease was renewed, and by how much', async () => {
    const { client, lock, leaseMs } = context();
    await lock.withLock(async ({ ownerId }) => {
      const event = await nextEvent(client, 'renewed');
      expect(event).toEqual({ lockName: lock.name, ownerId, leaseMs });
    });
  });

  it('lost tells how, and how long it was held, and carries the error of the signal', async () => {
    const { client, lock, seen } = context();
    const before = Date.now();
    const hold = await lock.acquire();
    const lost = eventsOf(client, 'lost');
    const first = nextEvent(client, 'lost');
    await seen.forceUnlock();
    const event = await first;
    expect(event).toMatchObject({
      lockName: lock.name,
      ownerId: hold.ownerId,
      lossReason: 'forced',
    });
    expect(event.error).toBe(hold.signal.reason);
    expect(event.error).toBeInstanceOf(LockLostError);
    expect(event.heldSince.getTime()).toBeGreaterThanOrEqual(before);
    expect(event.heldSince.getTime()).toBeLessThanOrEqual(Date.now());
    expect(event.heldForMs).toBeGreaterThan(0);
    await expect(hold.release()).rejects.toBe(event.error);
    expect(lost).toHaveLength(1);
  });

  it('warning names a lock that a run forgot, which is released', async () => {
    const { client, lock, seen } = context();
    const warned = nextEvent(client, 'warning');
    await client.run(() => lock.lock());
    const event = await warned;
    expect(event.lockName).toBe(lock.name);
    expect(event.ownerId).toMatch(new RegExp(`^${client.clientId}:\\d+$`));
    expect(event.message).toContain(`"${lock.name}"`);
    expect(await seen.isLocked()).toBe(false);
  });

  it('warning names a call outside all scopes that seems to wait for itself', async () => {
    const { client, lock, rival } = context();
    const warned = nextEvent(client, 'warning');
    await lock.lock();
    const nested = rival.lock();
    const event = await warned;
    expect(event.lockName).toBe(lock.name);
    expect(event.message).toContain('withLock');
    await lock.unlock();
    await nested;
    await rival.unlock();
  });

  it('listeners run outside all scopes, and one that was removed is not called', async () => {
    const { client, lock } = context();
    const removed = (): void => expect.fail('it was removed');
    client.on('acquired', removed);
    client.off('acquired', removed);
    const looked = new Promise<boolean>((resolve) => {
      client.once('acquired', () => {
        void lock.isHeldByCurrentOwner().then(resolve);
      });
    });
    await lock.withLock(async () => {
      expect(await looked).toBe(false);
    });
  });

  it('close() ends waits, takes back holds and frees the lock', async () => {
    const { client, lock, strangers, stranger, newThird } = context();
    const { third, thirds } = newThird();
    await thirds.isLocked(); // connected
    const hold = await lock.acquire();
    const waiting = nextEvent(stranger, 'waiting');
    const theirs = strangers.lock();
    const refused = expect(theirs).rejects.toMatchObject({ code: 'CLIENT_CLOSED' });
    await waiting;
    await stranger.close();
    await refused;
    await client.close();
    expect(await thirds.tryLock()).toBe(true);
    await third.close();
    await client.close();
    expect(hold.signal.reason).toMatchObject({ code: 'LOCK_LOST', lossReason: 'closed' });
    await expect(lock.lock()).rejects.toMatchObject({ code: 'CLIENT_CLOSED' });
  });
}
