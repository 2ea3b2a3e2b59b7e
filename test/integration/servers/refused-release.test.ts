// A server refuses a release: the error names the lock and the server's reason, what happens to the lock, and what the caller may do.
import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import { connectedClient, eventsOf, rejectionOf } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { uniqueName } from '../../support/unique-name.js';

let server: RedisServer;
let redis: Redis;
let client: Holdfast;

beforeEach(async () => {
  server = await startRedis();
  redis = new Redis(server.url);
  await redis.acl('SETUSER', 'app', 'on', '>secret', '~*', '&*', '+@all');
  const url = server.url.replace('redis://', 'redis://app:secret@');
  client = await connectedClient({ redis: url, lockWatchdogTimeout: 3_000, commandTimeout: 500 });
});

afterEach(async () => {
  await client.close();
  redis.disconnect();
  await server[Symbol.asyncDispose]();
});

async function isGone(name: string): Promise<void> {
  await eventually(async () => {
    expect(await redis.exists(name)).toBe(0);
  });
}

/** In the words of Redis 7, and of 7.2 or newer. */
const NO_PERMISSION = /: (NOPERM |ERR ACL failure in script: User app has no permissions )/;

describe('a release that is refused for good, since the user may not run a command,', () => {
  const remedy = 'To free it earlier, remedy that and call hold.release()';

  it('makes release() throw, which may be repeated when it is permitted', async () => {
    const name = uniqueName();
    const hold = await client.getLock(name).acquire();
    await redis.acl('SETUSER', 'app', '-hdel');
    const error = await rejectionOf(hold.release());
    expect(error).toMatchObject({ code: 'REDIS_UNAVAILABLE', lockName: name });
    expect(String(error)).toContain(`lock "${name}" not released: `);
    expect(String(error)).toMatch(NO_PERMISSION);
    expect(String(error)).toContain('The client no longer renews it, so it ends with its lease');
    expect(String(error)).toContain(remedy);
    await redis.acl('SETUSER', 'app', '+hdel');
    await hold.release();
    expect(await redis.exists(name)).toBe(0);
  });

  it('makes unlock() throw, which may be repeated, and the lock ends with its lease', async () => {
    const lock = client.getLock(uniqueName());
    await lock.lock();
    await redis.acl('SETUSER', 'app', '-hdel');
    const error = await rejectionOf(lock.unlock());
    expect(String(error)).toContain(`lock "${lock.name}" not released: `);
    expect(String(error)).toMatch(NO_PERMISSION);
    expect(String(error)).toContain('or unlock() in the code that called lock() outside a run');
    await isGone(lock.name);
    await redis.acl('SETUSER', 'app', '+hdel');
    await lock.unlock();
    await expect(lock.unlock()).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
  });

  it('makes withLock() emit an error event and return the result of the work', async () => {
    const name = uniqueName();
    const errors = eventsOf(client, 'error');
    const done = client.getLock(name).withLock(async () => {
      await redis.acl('SETUSER', 'app', '-hdel');
      return 'done';
    });
    expect(await done).toBe('done');
    const [told] = errors.filter(({ lockName }) => lockName === name);
    expect(String(told?.error)).toContain(`lock "${name}" not released: `);
    expect(String(told?.error)).toMatch(NO_PERMISSION);
  });

  it('of a nested hold says nothing about the lock, which is still held', async () => {
    const lock = client.getLock(uniqueName());
    await client.run(async () => {
      await lock.lock();
      await lock.lock();
      await redis.acl('SETUSER', 'app', '-hset');
      const error = await rejectionOf(lock.unlock());
      expect(String(error)).toMatch(NO_PERMISSION);
      expect(String(error)).not.toContain('no longer renews');
      await redis.acl('SETUSER', 'app', '+hset');
      await lock.unlock();
    });
    await isGone(lock.name);
  });
});

it('a release that is refused for now, by a replica, is retried until it releases the lock', async () => {
  const name = uniqueName();
  const hold = await client.getLock(name).acquire({ lease: 600_000 });
  await redis.replicaof('127.0.0.1', '1');
  const error = await rejectionOf(hold.release());
  expect(error).toMatchObject({ code: 'REDIS_UNAVAILABLE', lockName: name });
  expect(String(error)).toMatch(/not known to be released: Redis refused for 500 ms .*READONLY/);
  expect(String(error)).toContain(
    'ends with its lease; until then the client keeps trying to release it',
  );
  await redis.replicaof('NO', 'ONE');
  await isGone(name);
});
