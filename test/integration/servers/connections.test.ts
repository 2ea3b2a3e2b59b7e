// Where Redis is: a URL, options, or an instance, which stays the user's; and how its key prefix applies.
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest';
import type { Holdfast, HoldfastOptions, Lock } from '../../../src/index.js';
import { newClient, nextEvent } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { uniqueName } from '../../support/unique-name.js';

let redis: Redis;

beforeEach(async () => {
  redis = new Redis(inject('redisUrl'));
  await redis.ping();
});

afterEach(() => {
  redis.disconnect();
});

/** Acquires, waits and hands over, between two clients made in the same way. */
async function handOver(open: () => Holdfast): Promise<void> {
  await using one = open();
  await using two = open();
  const name = uniqueName();
  const hold = await one.getLock(name).acquire();
  const waiting = nextEvent(two, 'waiting');
  const theirs = two.getLock(name).acquire({ wait: 10_000 });
  await waiting;
  await hold.release();
  await (await theirs).release();
}

describe('`redis` may be', () => {
  const { hostname: host, port } = new URL(inject('redisUrl'));

  it.each<[string, () => Promise<HoldfastOptions['redis']>]>([
    ['a URL', () => Promise.resolve(inject('redisUrl'))],
    ['ioredis options', () => Promise.resolve({ host, port: Number(port) })],
    ['a Redis', () => Promise.resolve(redis)],
    [
      'a Redis that was never connected',
      () => Promise.resolve(new Redis(inject('redisUrl'), { lazyConnect: true })),
    ],
    ['node-redis options', () => Promise.resolve({ socket: { host, port: Number(port) } })],
    [
      'a client of node-redis that was closed',
      async () => {
        const theirs = createClient({ url: inject('redisUrl') });
        await theirs.connect();
        await theirs.close();
        return theirs;
      },
    ],
  ])('%s, which stays unchanged', async (_, make) => {
    const given = await make();
    const stateOf = (): unknown[] => {
      const { status, isOpen } = given as { status?: string; isOpen?: boolean };
      return [status, isOpen];
    };
    const before = stateOf();
    await handOver(() => newClient({ redis: given }));
    expect(stateOf()).toEqual(before);
  });

  it('a Redis instance with a database of its own', async () => {
    const second = new Redis(inject('redisUrl'), { db: 1 });
    await using client = newClient({ redis: second });
    await using hold = await client.getLock(uniqueName()).acquire();
    expect(await second.exists(hold.lockName)).toBe(1);
    expect(await redis.exists(hold.lockName)).toBe(0);
    second.disconnect();
  });
});

describe("an instance stays the user's", () => {
  it('it is not closed, and gets no new listeners and no new commands', async () => {
    const listeners = (): [string | symbol, number][] =>
      redis.eventNames().map((event) => [event, redis.listenerCount(event)]);
    const before = listeners();
    const properties = Object.keys(redis);
    const client = newClient({ redis });
    await client.getLock(uniqueName()).withLock(() => 1);
    expect(listeners()).toEqual(before);
    expect(Object.keys(redis)).toEqual(properties);
    await client.close();
    expect(listeners()).toEqual(before);
    expect(redis.status).toBe('ready');
    expect(await redis.ping()).toBe('PONG');
  });

  it('closing it does not affect the locks', async () => {
    const theirs = new Redis(inject('redisUrl'));
    await theirs.ping();
    await using client = newClient({ redis: theirs });
    await using hold = await client.getLock(uniqueName()).acquire();
    await theirs.quit();
    await nextEvent(client, 'renewed');
    expect(hold.remaining()).toBeGreaterThan(0);
  });

  it('its resend and queue settings do not apply to locks', async () => {
    const theirs = new Redis(inject('redisUrl'), {
      maxRetriesPerRequest: null,
      autoResendUnfulfilledCommands: true,
      enableAutoPipelining: true,
      commandTimeout: 1,
      readOnly: true,
    });
    theirs.on('error', () => undefined); // of their own ready check
    await using client = newClient({ redis: theirs });
    await client.getLock(uniqueName()).withLock(() => 1);
    theirs.disconnect();
  });
});

describe('a key prefix', () => {
  async function keysOf(lock: Lock): Promise<string[]> {
    return await lock.withLock(async () => (await redis.keys(`*${lock.name}*`)).sort());
  }

  it('of the instance precedes every name', async () => {
    const prefixed = new Redis(inject('redisUrl'), { keyPrefix: 'app:' });
    await using client = newClient({ redis: prefixed });
    const lock = client.getLock(uniqueName());
    expect(await keysOf(lock)).toEqual([`app:${lock.name}`]);
    prefixed.disconnect();
  });

  it('of the client follows that of the instance', async () => {
    const prefixed = new Redis(inject('redisUrl'), { keyPrefix: 'app:' });
    await using client = newClient({ redis: prefixed, keyPrefix: 'locks:' });
    const lock = client.getLock(uniqueName());
    expect(await keysOf(lock)).toEqual([`app:locks:${lock.name}`]);
    prefixed.disconnect();
  });

  it.each([
    ['app:', '', (name: string) => `redisson_lock__channel:{app:${name}}`],
    ['{app}:', '', (name: string) => `redisson_lock__channel:{app}:${name}`],
    ['', 'x{y}', (name: string) => `redisson_lock__channel:${name}`],
  ])('%j%j is part of the channel, with its hash tag', async (keyPrefix, suffix, channelOf) => {
    await using client = newClient({ keyPrefix });
    await using other = newClient({ keyPrefix });
    const name = uniqueName() + suffix;
    const hold = await client.getLock(name).acquire();
    const theirs = other.getLock(name).acquire();
    await eventually(async () => {
      const channels = await redis.pubsub('CHANNELS', `*${name}*`);
      expect(channels).toEqual([channelOf(name)]);
    });
    await hold.release();
    await (await theirs).release();
  });

  it('separates clients with different prefixes', async () => {
    await using one = newClient({ keyPrefix: 'one:' });
    await using two = newClient({ keyPrefix: 'two:' });
    const name = uniqueName();
    await one.getLock(name).withLock(() => two.getLock(name).withLock({ wait: 0 }, () => 1));
  });
});
