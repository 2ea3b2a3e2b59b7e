// The shortest way through the whole public interface, which runs against each supported ioredis.
import { Redis } from 'ioredis';
import { describe, expect, inject, it } from 'vitest';
import { Holdfast } from '../../../src/index.js';
import { startChild } from '../../support/child.js';
import { uniqueName } from '../../support/unique-name.js';
import { worksBetween } from '../../support/clients.js';

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

  it('passes on when its holder is killed, and a client that closes lets its process end', async () => {
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
