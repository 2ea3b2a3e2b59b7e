// Waiting by subscription: no commands while the lock is held, one try per message and client, first come first served.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Holdfast, Lock } from '../../../src/index.js';
import { eventsOf, nextEvent } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { recordCommands, watchedServer } from '../../support/recorded-commands.js';
import { startRedis } from '../../support/redis-server.js';
import { uniqueName } from '../../support/unique-name.js';

const WAITERS = 1_000;

const server = watchedServer(() => startRedis());
let holder: Holdfast;
let waiter: Holdfast;
let held: Lock;
let awaited: Lock;

beforeEach(async () => {
  ({ holder, waiter, held, awaited } = await server.holderAndWaiter());
});

afterEach(async () => {
  await Promise.all([holder.close(), waiter.close()]);
});

describe(`${String(WAITERS)} waiters of one client on one lock`, () => {
  it('share one subscription, send nothing while the lock is held, and pass it from one to the next in order', async () => {
    await held.lock();
    const order: number[] = [];
    const all: Promise<void>[] = [];
    const commands = await server.scripts(awaited, () =>
      server.waiting(waiter, awaited, WAITERS, () => {
        for (let index = 0; index < WAITERS; index++)
          all.push(awaited.withLock(() => void order.push(index)));
      }),
    );
    // One try each, of which all but the first go together; and when the subscription is confirmed, one for all, or two if some had not
    // been answered yet.
    const gathered = Math.ceil((WAITERS - 1) / 64);
    expect(commands).toBeGreaterThan(1 + gathered);
    expect(commands).toBeLessThanOrEqual(1 + gathered + 2);
    expect(await server.subscriptions(awaited)).toEqual([1]);
    expect(await server.subscribers()).toBe(1);

    await sleep(1_500); // from then on the server tells the holder of changes
    const whileHeld = await recordCommands(server.url, () => sleep(1_000));
    // (Now and then the subscriber checks whether its connection is alive.)
    expect(whileHeld.filter(({ name }) => name !== 'PING')).toEqual([]);

    const whileHandedOver = await server.scripts(awaited, async () => {
      await held.unlock();
      await Promise.all(all);
    });
    expect(order).toEqual(Array.from({ length: WAITERS }, (_, index) => index));
    // Most of them get the lock by the release of the previous one, which is one command.
    expect(whileHandedOver).toBeLessThan(2 * WAITERS);
    expect(await server.subscribers()).toBe(1);
  });

  it('all time out, and do not disturb the waiter that continues', async () => {
    await held.lock();
    let last!: Promise<void>;
    const all: Promise<boolean>[] = [];
    await server.waiting(waiter, awaited, WAITERS + 1, () => {
      for (let index = 0; index < WAITERS; index++) all.push(awaited.tryLock(8_000));
      last = awaited.lock();
    });
    expect(new Set(await Promise.all(all))).toEqual(new Set([false]));
    expect(await server.scripts(awaited, () => held.unlock().then(() => last))).toBe(2);
    await awaited.unlock();
  });

  it('try once per TTL for the whole client when no message comes', async () => {
    const leaseMs = 3_000;
    await server.holdSilently(awaited, 60_000);
    const all: Promise<boolean>[] = [];
    await server.waiting(waiter, awaited, WAITERS, () => {
      for (let index = 0; index < WAITERS; index++) all.push(awaited.tryLock(60_000, 60_000));
    });
    await server.redis.pexpire(awaited.name, leaseMs);
    await server.redis.publish(channelOf(awaited), '0'); // a spurious message: a query now sees the short lease
    // As another program's watchdog would, unnoticed by the waiters.
    let leastTtlMs = leaseMs;
    let elapsedMs = 0;
    const tries = await server.scripts(awaited, async () => {
      const startedAt = performance.now();
      while (elapsedMs < 2.5 * leaseMs) {
        leastTtlMs = Math.min(leastTtlMs, await server.redis.pttl(awaited.name));
        await server.redis.pexpire(awaited.name, leaseMs);
        await sleep(50);
        elapsedMs = performance.now() - startedAt;
      }
    });
    expect(tries).toBeGreaterThanOrEqual(1);
    expect(tries).toBeLessThanOrEqual(Math.ceil(elapsedMs / leastTtlMs) + 1);
    await server.redis.del(awaited.name); // and without a message
    const acquired = nextEvent(waiter, 'acquired');
    expect(await server.scripts(awaited, () => acquired)).toBe(1);
    const outcomes = Promise.allSettled(all);
    await waiter.close();
    expect((await outcomes).filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  });
});

describe('on a message', () => {
  it('one waiter per client tries, and the others continue to wait', async () => {
    await using other = await server.client();
    await held.lock();
    const all: Promise<boolean>[] = [];
    const locks = [
      [waiter, awaited],
      [other, other.getLock(awaited.name)],
    ] as const;
    for (const [client, lock] of locks) {
      await server.waiting(client, lock, 20, () => {
        for (let index = 0; index < 20; index++) all.push(lock.tryLock(60_000));
      });
    }
    expect(await server.subscriptions(awaited)).toEqual([2]);
    const tries = await server.scripts(awaited, async () => {
      expect(await server.redis.publish(channelOf(awaited), '0')).toBe(2); // a spurious message
      await sleep(300);
    });
    expect(tries).toBe(2);

    const acquired = Promise.race(locks.map(([client]) => nextEvent(client, 'acquired')));
    const commands = await server.scripts(awaited, async () => {
      await held.unlock();
      await acquired;
      await sleep(300);
    });
    expect(commands).toBe(3); // the release, and one try of each client
    const outcomes = Promise.allSettled(all);
    await Promise.all([waiter.close(), other.close()]);
    expect((await outcomes).filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  });

  it('waiters of different clients all get their turn, one at a time', async () => {
    await using other = await server.client();
    await held.lock();
    let inside = 0;
    const order: string[] = [];
    const all: Promise<void>[] = [];
    const enter = (who: string) => async (): Promise<void> => {
      expect(++inside).toBe(1);
      order.push(who);
      await sleep(1);
      inside--;
    };
    const theirs = other.getLock(awaited.name);
    await server.waiting(waiter, awaited, 10, () => {
      for (let index = 0; index < 10; index++) all.push(awaited.withLock(enter(`a${index}`)));
    });
    await server.waiting(other, theirs, 10, () => {
      for (let index = 0; index < 10; index++) all.push(theirs.withLock(enter(`b${index}`)));
    });
    await held.unlock();
    await Promise.all(all);
    for (const client of ['a', 'b']) {
      const own = order.filter((who) => who.startsWith(client));
      expect(own).toEqual(Array.from({ length: 10 }, (_, index) => `${client}${index}`));
    }
  });
});

describe('a channel', () => {
  it('lingers about 2 s after the last waiter, and is then unsubscribed', async () => {
    await held.lock();
    expect(await awaited.tryLock(200)).toBe(false);
    const leftAt = performance.now();
    await eventually(async () => {
      expect(await server.subscriptions(awaited)).toEqual([]);
    });
    expect(performance.now() - leftAt).toBeGreaterThan(1_900);
    expect(performance.now() - leftAt).toBeLessThan(5_000);
    await held.unlock();
  });

  it('needs no new subscription for a waiter that comes while it lingers', async () => {
    await held.lock();
    expect(await awaited.tryLock(300)).toBe(false);
    const commands = await recordCommands(server.url, () => awaited.tryLock(100));
    const sent = commands.filter(({ byScript }) => !byScript).map(({ name }) => name);
    expect(sent).toEqual(['EVALSHA']); // and no message can have been missed, so there is no second try
    await held.unlock();
  });

  it('shares a connection with many others', async () => {
    const names = Array.from({ length: 100 }, () => uniqueName());
    const waiting = eventsOf(waiter, 'waiting');
    await Promise.all(names.map((name) => holder.getLock(name).lock()));
    const all = names.map((name) => waiter.getLock(name).lock());
    await eventually(async () => {
      expect(waiting).toHaveLength(names.length);
      expect(await server.redis.pubsub('CHANNELS')).toHaveLength(names.length);
    });
    expect(await server.subscribers()).toBe(1);
    await Promise.all(names.map((name) => holder.getLock(name).unlock()));
    await Promise.all(all);
  });
});

function channelOf({ name }: Lock): string {
  return `redisson_lock__channel:{${name}}`;
}
