// vitest's global set-up for integration tests: one shared Redis server, whose URL the tests and their children learn.
import type { TestProject } from 'vitest/node';
import { startRedis } from './redis-server.js';

declare module 'vitest' {
  interface ProvidedContext {
    redisUrl: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const given = process.env['HOLDFAST_REDIS_URL'];
  const server = given ? undefined : await startRedis();
  const url = given ?? server!.url;
  project.provide('redisUrl', url);
  process.env['HOLDFAST_TEST_REDIS_URL'] = url;
  return async () => {
    await server?.[Symbol.asyncDispose]();
  };
}
