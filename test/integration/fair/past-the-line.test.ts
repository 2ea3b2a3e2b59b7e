// Ways past the line of a fair lock: the reentrant lock of the same name, and forceUnlock().
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { Hold } from '../../../src/index.js';
import { eventsOf, newClient, nextEvent, sharedConnection } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { twoFairClientsPerTest } from '../../support/fair-line.js';
import { Occupancy } from '../../support/occupancy.js';

/** The most that a wake-up takes on a busy machine. A lost one takes a third of the lease: 10 s. */
const SOON_MS = 5_000;

const redis = sharedConnection();
const present = twoFairClientsPerTest(redis);

describe('the reentrant lock of the same name', () => {
  it('and the fair one exclude each other', async () => {
    const { line, other, lock } = present();
    const plain = other.getLock(line.name);
    await lock.lock();
    expect(await plain.tryLock()).toBe(false);
    await lock.unlock();
    await plain.lock();
    expect(await lock.tryLock()).toBe(false);
    await plain.unlock();
  });

  it('wakes the first in line when it is released', async () => {
    const { line, client, other } = present();
    const plain = await other.getLock(line.name).acquire();
    const first = await line.join(client, 'first');
    const second = await line.join(other, 'second');
    await soon(Promise.all([plain.release(), first.done, second.done]));
    expect(line.turns).toEqual(['first', 'second']);
  });

  it('is woken by the release of the fair one when the line is empty', async () => {
    const { line, client, other, lock } = present();
    const hold = await lock.acquire();
    const waiting = nextEvent(other, 'waiting');
    const plain = other.getLock(line.name).acquire();
    await waiting;
    const first = await line.join(client, 'first');
    await soon(Promise.all([hold.release(), first.done, plain.then((held) => held.release())]));
  });

  it('and the fair one have one holder at a time, in whatever way callers come', async () => {
    const { line, client, other } = present();
    const occupancy = new Occupancy();
    const enter = (index: number): Promise<unknown> => {
      const from = index % 2 === 0 ? client : other;
      const used = index % 3 === 0 ? from.getLock(line.name) : from.getFairLock(line.name);
      return used.withLock(() => occupancy.inside(String(index), () => sleep(1)));
    };
    await Promise.all(Array.from({ length: 120 }, (_, index) => enter(index)));
    expect(occupancy.most).toBe(1);
    expect(occupancy.order).toHaveLength(120);
  });
});

describe('forceUnlock()', () => {
  it('hands the lock to the first in line, and the holder learns that it was forced out', async () => {
    const { line, client, other, others } = present();
    const lost = eventsOf(other, 'lost');
    await using third = newClient();
    const hold: Hold = await others.acquire({ lease: 60_000 });
    const first = await line.join(client, 'first', { body: () => sleep(20) });
    const second = await line.join(third, 'second');
    await soon(
      line
        .lockOf(third)
        .forceUnlock()
        .then((wasHeld) => {
          expect(wasHeld).toBe(true);
          return Promise.all([first.done, second.done]);
        }),
    );
    expect(line.turns).toEqual(['first', 'second']);
    await expect(hold.extend(70_000)).rejects.toMatchObject({ lossReason: 'forced' });
    await eventually(() => {
      expect(lost).toMatchObject([{ lossReason: 'forced' }]);
    });
  });

  it('of a lock that was handed over hands it on', async () => {
    const { line, other, lock, others } = present();
    const hold = await others.acquire();
    const acquiring = lock.acquire();
    await line.hasLength(1);
    const second = await line.join(other, 'second');
    await hold.release();
    const handedOver = await acquiring;
    expect(await others.forceUnlock()).toBe(true);
    await soon(second.done);
    await expect(handedOver.extend(60_000)).rejects.toMatchObject({ lossReason: 'forced' });
  });
});

async function soon<T>(promise: Promise<T>): Promise<T> {
  const startedAt = performance.now();
  const result = await promise;
  expect(performance.now() - startedAt).toBeLessThan(SOON_MS);
  return result;
}
