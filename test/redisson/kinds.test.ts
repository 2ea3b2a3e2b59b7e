// Redisson's other kinds of locks under the name of one of ours, as the README describes it.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Holdfast, Lock } from '../../src/index.js';
import { nextEvent, rejectionOf } from '../support/clients.js';
import { eventually, NEVER, settledWithin } from '../support/time.js';
import {
  redissonUnavailable,
  SharedServers,
  startRedisson,
  type Redisson,
  type RedissonClient,
} from '../support/redisson.js';
import { uniqueName } from '../support/unique-name.js';

/** A waiter tries once more when its subscription is confirmed; only from then on a message has to wake it. */
const SECOND_TRY_MS = 1_000;

describe.skipIf(redissonUnavailable)("other kinds of Redisson's locks, under one name", () => {
  let servers: SharedServers;
  let java: Redisson;
  let redisson: RedissonClient;
  let client: Holdfast;
  let name: string;
  let ours: Lock;

  beforeAll(async () => {
    servers = await SharedServers.start(false);
    java = startRedisson();
    redisson = await java.connect(servers.nodes);
  });

  beforeEach(async () => {
    client = servers.newHoldfast();
    name = uniqueName();
    ours = client.getLock(name);
    await ours.isLocked();
  });

  afterEach(async () => {
    await client.close();
  });

  afterAll(async () => {
    await java.kill();
    await servers[Symbol.asyncDispose]();
  });

  describe.each(['fair', 'spin'] as const)('a %s lock', (kind) => {
    it('excludes ours, and ours excludes it', async () => {
      const theirs = redisson.getLock(name, kind);
      await theirs.lock();
      expect(await ours.tryLock()).toBe(false);
      await theirs.unlock();
      const hold = await ours.acquire();
      expect(await theirs.tryLock()).toBe(false);
      await hold.release();
    });

    it('does not wake us when it is released', async () => {
      const theirs = redisson.getLock(name, kind);
      await theirs.lock();
      const waiting = nextEvent(client, 'waiting');
      const next = ours.acquire();
      await waiting;
      await servers.isListenedFor(name);
      await sleep(SECOND_TRY_MS);
      await theirs.unlock();
      expect(await settledWithin(next, 1_000)).toBe(NEVER);
      expect(await servers.redis.exists(name)).toBe(0);
      await servers.redis.publish(`redisson_lock__channel:{${name}}`, '0');
      await (await next).release();
    });
  });

  it("a fair lock's waiter is not woken by our release: it listens to another channel", async () => {
    const hold = await ours.acquire();
    const theirs = redisson.getLock(name, 'fair');
    const next = theirs.lock();
    const [channel] = await eventually(async () => {
      const channels = await servers.redis.pubsub('CHANNELS', `*${name}*`);
      expect(channels).toHaveLength(1);
      return channels as string[];
    });
    expect(channel).toMatch(new RegExp(`^redisson_lock__channel:{${name}}:${redisson.id}:\\d+$`));
    await sleep(SECOND_TRY_MS);
    await hold.release();
    expect(await settledWithin(next, 1_000)).toBe(NEVER);
    expect(await servers.redis.exists(name)).toBe(0);
    await servers.redis.publish(channel!, '0');
    await next;
    await theirs.unlock();
  });

  it("a spin lock's waiter listens to nothing, and finds the lock free when it polls", async () => {
    const hold = await ours.acquire();
    const theirs = redisson.getLock(name, 'spin');
    const next = theirs.lock();
    expect(await settledWithin(next, 200)).toBe(NEVER);
    expect(await servers.redis.pubsub('CHANNELS', `*${name}*`)).toEqual([]);
    await hold.release();
    await next;
    await theirs.unlock();
  });

  it("a line for our fair lock that never empties shuts out waiters for Redisson's plain lock", async () => {
    const others = [servers.newHoldfast(), servers.newHoldfast()];
    const enough = new AbortController();
    let holds = 0;
    const inLine = others.map(async (other) => {
      const fair = other.getFairLock(name);
      // The holder is in line again before it releases the lock.
      let next = fair.acquire();
      while (!enough.signal.aborted) {
        const hold = await next;
        holds++;
        next = fair.acquire();
        await sleep(5);
        await hold.release();
      }
      await (await next).release();
    });
    await eventually(() => {
      expect(holds).toBeGreaterThan(5);
    });
    const before = holds;
    const theirs = redisson.getLock(name);
    expect(await theirs.tryLock(2_000)).toBe(false);
    expect(holds - before).toBeGreaterThan(20);
    enough.abort();
    await Promise.all(inLine);
    expect(await theirs.tryLock(20_000)).toBe(true);
    await theirs.unlock();
    await Promise.all(others.map((other) => other.close()));
  });

  it.each(['write', 'read'] as const)(
    "a %s lock ignores every plain lock, even Redisson's own",
    async (kind) => {
      const theirs = redisson.getLock(name, kind);
      const hold = await ours.acquire();
      expect(await theirs.tryLock()).toBe(true);
      expect(hold.signal.aborted).toBe(false);
      await hold.extend(60_000);
      // From now on it is not a lock for us.
      await using another = servers.newHoldfast();
      expect(await rejectionOf(another.getLock(name).acquire({ wait: 0 }))).toMatchObject({
        code: 'KEY_CONFLICT',
      });
      await hold.release();
      await servers.redis.del(name);

      await redisson.getLock(name).of('other').lock();
      expect(await theirs.tryLock()).toBe(true);
      await servers.redis.del(name);
    },
  );

  it('a plain lock of ours respects a write lock: it is a KeyConflictError', async () => {
    await redisson.getLock(name, 'write').lock();
    const before = await servers.redis.hgetall(name);
    expect(before['mode']).toBe('write');
    for (const lock of [ours, client.getFairLock(name)])
      expect(await rejectionOf(lock.acquire())).toMatchObject({ code: 'KEY_CONFLICT' });
    expect(await rejectionOf(ours.forceUnlock())).toMatchObject({ code: 'KEY_CONFLICT' });
    expect(await servers.redis.hgetall(name)).toEqual(before);
    await redisson.getLock(name, 'write').unlock();
  });
});
