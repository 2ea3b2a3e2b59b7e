// Set-up file of all integration tests: a test that leaves something behind fails.
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, inject } from 'vitest';
import { deleteLeftoverKeys, leftovers, processState, type ProcessState } from './leftovers.js';

let redis: Redis;
let before: ProcessState;
let mayStillBeBusy = false;

beforeAll(async () => {
  redis = new Redis(inject('redisUrl'));
  await redis.ping();
});

beforeEach(({ onTestFailed }) => {
  before = processState();
  // A client that a failed test left open goes on making connections and timers, which no later test can help. This is called also where
  // the test's own clean-up fails, so that ours below is left out.
  onTestFailed(() => {
    mayStillBeBusy = true;
  });
});

afterEach(async ({ task }) => {
  if (task.result?.state === 'fail') mayStillBeBusy = true;
  const found = mayStillBeBusy ? [] : await leftovers(redis, before);
  await deleteLeftoverKeys(redis);
  if (found.length === 0) return;
  mayStillBeBusy = true;
  throw new Error(`the test left behind:\n  ${found.slice(0, 20).join('\n  ')}`);
});

afterAll(() => {
  redis.disconnect();
});
