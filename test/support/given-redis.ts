// The Redis that HOLDFAST_REDIS_URL names, or else a throwaway one: for the demo and the benchmarks.
import { startRedis } from './redis-server.js';

export interface GivenRedis extends AsyncDisposable {
  readonly url: string;
}

/** Starts a server that ends with this process at the latest, unless the environment names one, which is left running. */
export async function givenRedis(): Promise<GivenRedis> {
  const url = process.env['HOLDFAST_REDIS_URL'];
  if (!url) return startRedis();
  return { url, [Symbol.asyncDispose]: () => Promise.resolve() };
}
