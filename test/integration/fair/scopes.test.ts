// A fair lock and its callers: a holder re-enters past the line, and a single attempt does not overtake waiters.
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { newClient, sharedConnection } from '../../support/clients.js';
import { twoFairClientsPerTest } from '../../support/fair-line.js';
import { Occupancy } from '../../support/occupancy.js';

const redis = sharedConnection();
const present = twoFairClientsPerTest(redis);

describe('while others wait in line', () => {
  it('nested calls of a holder re-enter', async () => {
    const { line, client, other, lock } = present();
    let waiting: Promise<void> | undefined;
    await client.run(async () => {
      await lock.lock();
      waiting = (await line.join(other, 'other')).done;
      await lock.lock();
      expect(await lock.tryLock()).toBe(true);
      expect(await lock.getHoldCount()).toBe(3);
      await lock.withLock(() => lock.withLock(() => undefined));
      const hold = await lock.acquire({ wait: 0, lease: 1_000 });
      await hold.release();
      await lock.unlock();
      await lock.unlock();
      expect(line.turns).toEqual([]);
      await lock.unlock();
    });
    await waiting;
  });

  it('nested calls of a holder that was handed the lock re-enter', async () => {
    const { line, client, other, lock, others } = present();
    const hold = await others.acquire();
    const first = await line.join(client, 'first', {
      body: async () => {
        await lock.withLock(async () => {
          expect(await lock.getHoldCount()).toBe(2);
        });
      },
    });
    const second = await line.join(other, 'second');
    await hold.release();
    await Promise.all([first.done, second.done]);
    expect(line.turns).toEqual(['first', 'second']);
  });

  it('parallel withLock() calls of one run go one at a time, and each waits in line', async () => {
    const { line, client, other, lock, others } = present();
    const occupancy = new Occupancy();
    const hold = await others.acquire();
    const before = await line.join(other, 'before');
    const running = client.run(() =>
      Promise.all(
        ['a', 'b', 'c'].map((who) => lock.withLock(() => occupancy.inside(who, () => sleep(10)))),
      ),
    );
    await line.hasLength(4);
    const after = await line.join(other, 'after');
    await hold.release();
    await Promise.all([before.done, running, after.done]);
    expect(occupancy.most).toBe(1);
    expect([...occupancy.order].sort()).toEqual(['a', 'b', 'c']);
    expect(line.turns).toEqual(['before', 'after']);
  });
});

describe('a single attempt', () => {
  it('returns false, and does not join', async () => {
    const { line, other, lock, others } = present();
    const hold = await others.acquire();
    const first = await line.join(other, 'first');
    for (const attempt of [() => lock.tryLock(), () => lock.tryAcquire({ wait: 0 })]) {
      expect([false, undefined]).toContain(await attempt());
      expect(await line.owners()).toEqual([first.ownerId]);
    }
    await hold.release();
    await first.done;
    expect(await lock.tryLock()).toBe(true);
    await lock.unlock();
  });

  it('does not overtake waiters, even if the lock is free', async () => {
    const { line, lock, others } = present();
    await using slow = newClient({ lockWatchdogTimeout: 6_000 }); // renews its place, and asks, every 2 s
    await others.lock(60_000);
    const first = await line.join(slow, 'first', { body: () => sleep(50) });
    await redis.del(line.name); // and nobody is notified
    expect(await lock.tryLock()).toBe(false);
    await first.done;
    expect(await lock.tryLock()).toBe(true);
    await lock.unlock();
    await expect(others.unlock()).rejects.toMatchObject({ code: 'LOCK_LOST' });
  });
});
