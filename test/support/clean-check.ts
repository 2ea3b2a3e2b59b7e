// Set-up file of all integration tests: a test that leaves something behind fails.
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, inject } from 'vitest';
import { deleteLeftoverKeys, leftovers, processState, type ProcessState } from './leftovers.js';

let redis: Redis;
let before: ProcessState;

beforeAll(async () => {
  redis = new Redis(inject('redisUrl'));
  await redis.ping();
});

beforeEach(() => {
  before = processState();
});

afterEach(async ({ task }) => {
  const found = task.result?.state === 'fail' ? [] : await leftovers(redis, before);
  await deleteLeftoverKeys(redis);
  if (found.length > 0)
    throw new Error(`the test left behind:\n  ${found.slice(0, 20).join('\n  ')}`);
});

afterAll(() => {
  redis.disconnect();
});
