// Beside Redisson: each excludes the other, sees who holds a lock, and is woken by the other's release.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import type { Lock } from '../../src/index.js';
import { nextEvent, rejectionOf } from './clients.js';
import type { RedissonContext, Setting } from './redisson-contract.js';
import { NEVER, settledWithin } from './settled-within.js';
import { uniqueName } from './unique-name.js';

/** Far below the minute of the leases, far above what a message takes. */
const AWAKE_MS = 5_000;

/** Names that are easily taken apart wrongly; `%` stands for what makes them unique. */
const ODD_NAMES = ['{%}:x', 'ünï ☃ 🔒 %', '%"\'\\\n\t', '%:{a}:{b}', '{{%}}', '%*?[x]'];

/** Names whose channel is in another slot of a cluster than the lock: Redisson cannot unlock them there. */
const SPLIT_NAMES = ['{}%', '%{}', '%}b', '%{b', '}{%'];

export function waitingTests(
  current: () => RedissonContext,
  { isCluster, ours: options }: Setting,
): void {
  it('a counter that both read, wait for and write loses nothing', async () => {
    const { servers, name, theirs } = current();
    const counter = uniqueName('counter');
    const others = [servers.newHoldfast(options), servers.newHoldfast(options)];
    const rounds = 50;
    await Promise.all([
      theirs.of('a').count(counter, rounds),
      theirs.of('b').count(counter, rounds),
      ...others.map((other) => countUp(other.getLock(name), counter, rounds)),
    ]);
    expect(await servers.redis.get(counter)).toBe(String(4 * rounds));
    await servers.redis.del(counter);
    await Promise.all(others.map((other) => other.close()));
  });

  it('each wakes the other, again and again', async () => {
    const { ours, theirs } = current();
    for (let i = 0; i < 10; i++) {
      await theirs.lock();
      await wakesUs(ours, () => theirs.unlock());
      const hold = await ours.acquire();
      await wakesRedisson(() => hold.release());
    }
  });

  it.each(isCluster ? ODD_NAMES : [...ODD_NAMES, ...SPLIT_NAMES])(
    'each excludes and wakes the other under a name like %j',
    async (shape) => {
      await excludeAndWake(shape.replace('%', uniqueName()));
    },
  );

  if (isCluster) splitNameTests(current);

  it('each sees the other’s holder, and what is left of its lease', async () => {
    const { redisson, ours, theirs } = current();
    await theirs.lock(30_000);
    expect(await ours.isLocked()).toBe(true);
    expect(await ours.isHeldByCurrentOwner()).toBe(false);
    expect(await ours.remainTimeToLive()).toBeGreaterThan(20_000);
    expect(await ours.tryLock()).toBe(false);
    expect(await rejectionOf(ours.acquire({ wait: 0 }))).toMatchObject({
      code: 'LOCK_TIMEOUT',
      holder: expect.stringMatching(new RegExp(`^${redisson.id}:\\d+$`)) as unknown,
    });
    await theirs.unlock();

    const hold = await ours.acquire({ lease: 30_000 });
    expect(await theirs.isLocked()).toBe(true);
    expect(await theirs.isHeldByCurrentThread()).toBe(false);
    expect(await theirs.remainTimeToLive()).toBeGreaterThan(20_000);
    expect(await theirs.tryLock()).toBe(false);
    await hold.release();
  });

  it('a negative owner number, as lockAsync(-1) has it, is a holder like any other', async () => {
    const { client, redisson, name, ours, theirs } = current();
    await theirs.lockAs(-1);
    const holder = `${redisson.id}:-1`;
    expect(await rejectionOf(ours.acquire({ wait: 0 }))).toMatchObject({ holder });
    const inLine = client.getFairLock(name).acquire({ wait: 50 });
    expect(await rejectionOf(inLine)).toMatchObject({ holder });
    await wakesUs(ours, () => theirs.unlockAs(-1));
    await theirs.lockAs(-7);
    expect(await ours.forceUnlock()).toBe(true);
    expect(await ours.isLocked()).toBe(false);
  });

  async function countUp(lock: Lock, counter: string, rounds: number): Promise<void> {
    const { redis } = current().servers;
    for (let round = 0; round < rounds; round++) {
      await lock.withLock(async () => {
        const value = Number(await redis.get(counter));
        await sleep(Math.random() * 3);
        await redis.set(counter, value + 1);
      });
    }
  }

  async function excludeAndWake(name: string): Promise<void> {
    const { client, redisson } = current();
    const ours = client.getLock(name);
    const theirs = redisson.getLock(name);
    await theirs.lock();
    expect(await ours.tryLock()).toBe(false);
    await wakesUs(ours, () => theirs.unlock());
    const hold = await ours.acquire();
    expect(await theirs.tryLock()).toBe(false);
    await wakesRedisson(() => hold.release(), name);
  }

  /** We wait; somebody frees it; we have it. */
  async function wakesUs(ours: Lock, free: () => Promise<unknown>): Promise<void> {
    const { servers, client } = current();
    const waiting = nextEvent(client, 'waiting');
    const next = ours.acquire();
    await waiting;
    await servers.isListenedFor(ours.name);
    await free();
    const hold = await settledWithin(next, AWAKE_MS);
    if (hold === NEVER) throw new Error('the release did not wake us');
    await hold.release();
  }

  /** Redisson waits; somebody frees it; Redisson has it. */
  async function wakesRedisson(free: () => Promise<unknown>, name = current().name): Promise<void> {
    const { servers, redisson } = current();
    const theirs = redisson.getLock(name).of('waiter');
    const next = theirs.lock();
    await servers.isListenedFor(name);
    await free();
    if ((await settledWithin(next, AWAKE_MS)) === NEVER)
      throw new Error('the release did not wake Redisson');
    await theirs.unlock();
  }
}

function splitNameTests(current: () => RedissonContext): void {
  it.each(SPLIT_NAMES)(
    'each excludes the other under a name like %j, but Redisson cannot unlock it',
    async (shape) => {
      const { servers, client, redisson } = current();
      const name = shape.replace('%', uniqueName());
      const theirs = redisson.getLock(name);
      const hold = await client.getLock(name).acquire();
      expect(await theirs.tryLock()).toBe(false);
      await hold.release();
      await theirs.lock();
      expect(await client.getLock(name).tryLock()).toBe(false);
      expect(await rejectionOf(theirs.unlock())).toMatchObject({
        message: expect.stringContaining('CROSSSLOT') as unknown,
      });
      await servers.redis.del(name);
    },
  );
}
