// The shortest way through everything public: what is run against each supported ioredis.
import { Cluster, Redis } from 'ioredis';
import { describe, expect, inject, it } from 'vitest';
import { Holdfast } from '../../src/index.js';
import { startChild } from '../support/child.js';
import { topologiesUnavailable } from '../support/redis-server.js';
import { startCluster, startSentinel } from '../support/redis-topologies.js';
import { uniqueName } from '../support/unique-name.js';

describe('a lock', () => {
  it('excludes, wakes the waiter, and leaves nothing', async () => {
    await using first = new Holdfast({ redis: inject('redisUrl') });
    await using second = new Holdfast({ redis: inject('redisUrl') });
    await worksBetween(first, second);
  });

  it('works on the connection settings of a Redis instance, which stays open', async () => {
    const redis = new Redis(inject('redisUrl'), { keyPrefix: `${uniqueName('prefix')}:` });
    try {
      await using first = new Holdfast({ redis });
      await using second = new Holdfast({ redis });
      await worksBetween(first, second);
      expect(await redis.ping()).toBe('PONG');
    } finally {
      redis.disconnect();
    }
  });

  it('moves on when its holder is killed, and a client that closes lets its process end', async () => {
    await using first = startChild('lock-user.ts');
    await using second = startChild('lock-user.ts');
    const name = uniqueName();
    first.send({ type: 'acquire', name, lease: 1_000 });
    await first.next('acquired');
    second.send({ type: 'acquire', name, wait: 10_000 });
    await first.kill('SIGKILL');
    await second.next('acquired');
    second.send({ type: 'close' });
    await second.next('closed');
    expect(await second.exited()).toEqual({ code: 0, signal: null });
  });
});

describe.skipIf(topologiesUnavailable)('a lock', () => {
  it('works on Sentinel', async () => {
    await using setup = await startSentinel();
    const redis = { name: setup.name, sentinels: setup.sentinels };
    await using first = new Holdfast({ redis });
    await using second = new Holdfast({ redis });
    await worksBetween(first, second);
  });

  it('works on a cluster', async () => {
    await using setup = await startCluster();
    const redis = new Cluster(setup.nodes);
    try {
      await using first = new Holdfast({ redis });
      await using second = new Holdfast({ redis });
      for (let i = 0; i < 5; i++) await worksBetween(first, second);
    } finally {
      redis.disconnect();
    }
  });
});

async function worksBetween(first: Holdfast, second: Holdfast): Promise<void> {
  const name = uniqueName();
  const hold = await first.getLock(name).acquire();
  expect(await second.getLock(name).tryLock()).toBe(false);
  const waiting = second.getLock(name).withLock({ wait: 10_000 }, () => performance.now());
  await new Promise((resolve) => setTimeout(resolve, 100));
  const releasedAt = performance.now();
  await hold.release();
  expect((await waiting) - releasedAt).toBeLessThan(2_000);
  expect(await first.getLock(name).isLocked()).toBe(false);
}
