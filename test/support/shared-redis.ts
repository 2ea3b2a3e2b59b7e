// vitest's global set-up for integration tests: one shared Redis server, whose URL the tests and their children learn, and the sources as the
// children run them.
import type { TestProject } from 'vitest/node';
import { compileSources } from './compiled.js';
import { givenRedis } from './given-redis.js';

declare module 'vitest' {
  interface ProvidedContext {
    redisUrl: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  // A run that watches files would start stale copies of them.
  if (!project.config.watch) await compileSources();
  const server = await givenRedis();
  const { url } = server;
  project.provide('redisUrl', url);
  process.env['HOLDFAST_TEST_REDIS_URL'] = url;
  return async () => {
    await server[Symbol.asyncDispose]();
  };
}
