// The check that tests leave nothing behind: each kind of leftover is found, and found only while it exists.
import { Redis } from 'ioredis';
import { createServer } from 'node:net';
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest';
import { startChild } from '../../support/child.js';
import { hasShardedChannels } from '../../support/cluster.js';
import { leftovers, processState, type ProcessState } from '../../support/leftovers.js';
import { uniqueName } from '../../support/unique-name.js';

let redis: Redis;
let before: ProcessState;

beforeEach(async () => {
  redis = new Redis(inject('redisUrl'));
  await redis.ping();
  before = processState();
});

afterEach(() => {
  redis.disconnect();
});

describe('a test that leaves', () => {
  it('nothing passes', async () => {
    expect(await found()).toEqual([]);
  });

  it('a key fails', async () => {
    const name = uniqueName();
    await redis.set(`prefix:{${name}}`, '1', 'EX', 10);
    expect(await found()).toEqual([`key prefix:{${name}}`]);
    await redis.del(`prefix:{${name}}`);
    expect(await found()).toEqual([]);
  });

  it.each([
    ['there for ever', '1763000000000001', -1],
    ['text', 'text', 10_000],
    ['no time', '17', 10_000],
  ])('a counter of fencing tokens that is %s fails', async (_what, last, ttlMs) => {
    const name = `redisson_lock_token:{${uniqueName()}}`;
    await redis.set(name, last);
    if (ttlMs > 0) await redis.pexpire(name, ttlMs);
    expect(await found()).toEqual([`key ${name}`]);
    await redis.del(name);
  });

  it('the last fencing token of a lock, which expires in time, passes', async () => {
    const name = `redisson_lock_token:{${uniqueName()}}`;
    await redis.set(name, '1763000000000001', 'PX', 10_000);
    expect(await found()).toEqual([]);
  });

  it('subscriptions and their connection fails', async () => {
    const name = uniqueName();
    const subscriber = new Redis(inject('redisUrl'));
    const isSharded = await hasShardedChannels(subscriber);
    await subscriber.subscribe(`channel:{${name}}`);
    if (isSharded) await subscriber.ssubscribe(`sharded:{${name}}`);
    expect(await found()).toEqual([
      `subscription to channel:{${name}}`,
      ...(isSharded ? [`subscription to sharded:{${name}}`] : []),
      expect.stringContaining('open connection to'),
    ]);
    subscriber.disconnect();
    expect(await found(1_000)).toEqual([]);
  });

  it('a timer fails', async () => {
    const timer = setTimeout(() => undefined, 60_000).unref();
    expect(await found()).toEqual([expect.stringMatching(/^timer set at .*leftovers\.test\.ts/)]);
    clearTimeout(timer);
    expect(await found()).toEqual([]);
  });

  it('a server socket fails', async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    expect(await found()).toEqual(['1 more active TCPServerWrap']);
    await new Promise((resolve) => server.close(resolve));
    expect(await found()).toEqual([]);
  });

  it('a child process fails', async () => {
    const child = startChild('redis-starter.ts');
    expect(await found()).toEqual(['1 more active ProcessWrap']);
    await child.kill();
    expect(await found()).toEqual([]);
  });
});

function found(graceMs = 50): Promise<string[]> {
  return leftovers(redis, before, graceMs);
}
