// A test file's own connection to the shared server, to see and to change there what locks keep.
import { Redis } from 'ioredis';
import { afterAll, beforeAll, inject } from 'vitest';
import { loadScripts } from './lock-commands.js';

/** For the whole file, open before its first test begins; by then the server knows all scripts. */
export function sharedConnection(): Redis {
  const redis = new Redis(inject('redisUrl'), { lazyConnect: true });
  beforeAll(async () => {
    await redis.connect();
    await loadScripts(inject('redisUrl'));
  });
  afterAll(() => {
    redis.disconnect();
  });
  return redis;
}
