// How holdfast and Redisson work together on the same servers, as one suite: each sees, excludes, wakes and outlives the other.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Holdfast, HoldfastOptions, Lock } from '../../src/index.js';
import { nextEvent, rejectionOf } from './clients.js';
import { topologiesUnavailable } from './redis-server.js';
import {
  redissonUnavailable,
  SharedServers,
  startRedisson,
  type Redisson,
  type RedissonClient,
  type RedissonLock,
  type RedissonOptions,
} from './redisson.js';
import { eventually, inTime, NEVER, settledWithin } from './time.js';
import { uniqueName } from './unique-name.js';

/** What the tests of the suite share. Only messages wake waiters: all leases are a minute long. */
interface RedissonContext {
  readonly servers: SharedServers;
  readonly client: Holdfast;
  readonly redisson: RedissonClient;
  readonly name: string;
  /** The lock of that name, as we see it. */
  readonly ours: Lock;
  /** The same, as Redisson sees it. */
  readonly theirs: RedissonLock;
}

interface Setting {
  readonly isCluster: boolean;
  /** Only the part about waking waiters. */
  readonly isAboutWaiting?: boolean;
  readonly ours?: Partial<HoldfastOptions>;
  readonly theirs?: RedissonOptions;
}

/** Runs the suite. */
export function besideRedisson(where: string, setting: Setting): void {
  const unavailable =
    redissonUnavailable ?? (setting.isCluster ? topologiesUnavailable : undefined);
  if (unavailable !== undefined) console.log(`beside Redisson, ${where}: skipped: ${unavailable}`);

  describe.skipIf(unavailable)(`beside Redisson, ${where}`, () => {
    let servers: SharedServers;
    let java: Redisson;
    let redisson: RedissonClient;
    let context: RedissonContext;
    const current = (): RedissonContext => context;

    beforeAll(async () => {
      servers = await SharedServers.start(setting.isCluster);
      java = startRedisson();
      redisson = await java.connect(servers.nodes, setting.theirs);
    });

    beforeEach(async () => {
      const client = servers.newHoldfast(setting.ours);
      const name = uniqueName();
      const ours = client.getLock(name);
      context = { servers, client, redisson, name, ours, theirs: redisson.getLock(name) };
      await ours.isLocked();
    });

    afterEach(async () => {
      await context.client.close();
    });

    afterAll(async () => {
      await java.kill();
      await servers[Symbol.asyncDispose]();
    });

    waitingTests(current, setting);
    if (!setting.isAboutWaiting) endTests(current);
  });
}

// Beside Redisson: each excludes the other, sees the holder of a lock, and is woken by the other's release.

/** Far below the minute of the leases, far above the time of a message. */
const AWAKE_MS = 5_000;

/** Names that are easily parsed wrongly; `%` stands for the part that makes them unique. */
const ODD_NAMES = ['{%}:x', 'ünï ☃ 🔒 %', '%"\'\\\n\t', '%:{a}:{b}', '{{%}}', '%*?[x]'];

/** Names whose channel is in another slot of a cluster than the lock: Redisson cannot unlock them there. */
const SPLIT_NAMES = ['{}%', '%{}', '%}b', '%{b', '}{%'];

function waitingTests(current: () => RedissonContext, { isCluster, ours: options }: Setting): void {
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

  it("each sees the other's holder, and what remains of its lease", async () => {
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

  it('a negative owner number, as of lockAsync(-1), is a holder like any other', async () => {
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

  /** We wait; another caller releases the lock; we have it. */
  async function wakesUs(ours: Lock, free: () => Promise<unknown>): Promise<void> {
    const { servers, client } = current();
    const waiting = nextEvent(client, 'waiting');
    const next = ours.acquire();
    await waiting;
    await servers.isListenedFor(ours.name);
    await free();
    const hold = await inTime(next, AWAKE_MS, 'the release did not wake us');
    await hold.release();
  }

  /** Redisson waits; another caller releases the lock; Redisson has it. */
  async function wakesRedisson(free: () => Promise<unknown>, name = current().name): Promise<void> {
    const { servers, redisson } = current();
    const theirs = redisson.getLock(name).of('waiter');
    const next = theirs.lock();
    await servers.isListenedFor(name);
    await free();
    await inTime(next, AWAKE_MS, 'the release did not wake Redisson');
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

// Beside Redisson: how long each holds a lock against the other, and what ends it.

/** A lease that is short enough to see it renewed, long enough for a busy machine. */
const LEASE_MS = 1_500;

function endTests(current: () => RedissonContext): void {
  it('each holds until its last release, however often it re-entered', async () => {
    const { servers, client, name, ours, theirs } = current();
    const counts = async (): Promise<string[]> => Object.values(await servers.redis.hgetall(name));
    for (const count of [1, 2, 3]) {
      await theirs.lock();
      expect(await counts()).toEqual([String(count)]);
    }
    for (const count of [2, 1, 0]) {
      expect(await ours.tryLock()).toBe(false);
      await theirs.unlock();
      expect(await theirs.getHoldCount()).toBe(count);
    }

    await client.run(async () => {
      for (const count of [1, 2, 3]) {
        await ours.lock();
        expect(await counts()).toEqual([String(count)]);
      }
      expect(await theirs.getHoldCount()).toBe(0);
      for (const count of [2, 1, 0]) {
        expect(await theirs.tryLock()).toBe(false);
        await ours.unlock();
        expect(await ours.getHoldCount()).toBe(count);
      }
    });
    expect(await theirs.tryLock()).toBe(true);
    await theirs.unlock();
  });

  it("each one's watchdog keeps the other out for three leases", async () => {
    const { servers, name, ours, theirs } = current();
    await using java = startRedisson();
    const quick = (await java.connect(servers.nodes, { watchdogMs: LEASE_MS })).getLock(name);
    await quick.lock();
    expect(await ours.remainTimeToLive()).toBeLessThanOrEqual(LEASE_MS);
    expect(await ours.tryLock(3 * LEASE_MS)).toBe(false);
    await quick.unlock();

    await using client = servers.newHoldfast({ lockWatchdogTimeout: LEASE_MS });
    const hold = await client.getLock(name).acquire();
    expect(await theirs.remainTimeToLive()).toBeLessThanOrEqual(LEASE_MS);
    expect(await theirs.tryLock(3 * LEASE_MS)).toBe(false);
    expect(hold.signal.aborted).toBe(false);
    await hold.release();
  });

  it('a Java process that is killed leaves its lock to us when its lease ends', async () => {
    const { servers, client, name, ours } = current();
    await using java = startRedisson();
    const doomed = await java.connect(servers.nodes, { watchdogMs: LEASE_MS });
    await doomed.getLock(name).lock();
    const waiting = nextEvent(client, 'waiting');
    const next = ours.acquire();
    await waiting;
    await java.kill();
    expect(await next).toMatchObject({ lockName: name });
    await ours.forceUnlock();
  });

  it('a Node process that is killed leaves its lock to Redisson when its lease ends', async () => {
    const { servers, name, theirs } = current();
    await using child = servers.startHoldfastChild({ lockWatchdogTimeout: LEASE_MS });
    await child.next('ready');
    child.send({ type: 'acquire', name });
    await child.next('acquired');
    const next = theirs.lock();
    await servers.isListenedFor(name);
    await child.kill();
    await next;
    expect(await theirs.isHeldByCurrentThread()).toBe(true);
    await theirs.unlock();
  });

  it('our forceUnlock() forces out Redisson, which finds that it no longer holds the lock', async () => {
    const { servers, name, ours, theirs } = current();
    await theirs.lock();
    const next = theirs.of('waiter').lock();
    await servers.isListenedFor(name);
    expect(await ours.forceUnlock()).toBe(true);
    expect(await settledWithin(next, 5_000)).not.toBe(NEVER);
    expect(await theirs.isHeldByCurrentThread()).toBe(false);
    await expect(theirs.unlock()).rejects.toMatchObject({ name: 'IllegalMonitorStateException' });
    await theirs.of('waiter').unlock();
  });

  it("Redisson's forceUnlock() forces us out, which the next renewal reports, and wakes waiters", async () => {
    const { servers, name, ours, theirs } = current();
    await using client = servers.newHoldfast({ lockWatchdogTimeout: LEASE_MS });
    const hold = await client.getLock(name).acquire();
    const next = ours.acquire();
    await servers.isListenedFor(name);
    const lost = nextEvent(client, 'lost');
    expect(await theirs.forceUnlock()).toBe(true);
    const taken = await inTime(next, 5_000, 'forceUnlock() of Redisson woke nobody');
    expect(await lost).toMatchObject({ lockName: name, ownerId: hold.ownerId });
    expect(hold.signal.aborted).toBe(true);
    await taken.release();
    await eventually(async () => {
      expect(await ours.isLocked()).toBe(false);
    });
  });
}
