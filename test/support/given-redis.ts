// The Redis that HOLDFAST_REDIS_URL names, or else a throwaway one: for the demo, the benchmarks and the tests.
import { plainRedis, type PlainRedis } from './plain-redis.js';
import { startRedis } from './redis-server.js';
import { NEVER, settledWithin } from './settled-within.js';

export interface GivenRedis extends AsyncDisposable {
  readonly url: string;
}

/** How long the server that was named may take to answer. */
const ANSWER_LIMIT_MS = 5_000;

/** The server that was named cannot be used: the message says all that there is to say. */
export class UnusableRedisError extends Error {}

/** Starts a server that ends with this process at the latest, unless the environment names one, which is left running. */
export async function givenRedis(): Promise<GivenRedis> {
  const url = process.env['HOLDFAST_REDIS_URL'];
  if (!url) return startRedis();
  await assertUsable(url);
  return { url, [Symbol.asyncDispose]: () => Promise.resolve() };
}

export function withoutPassword(url: string): string {
  return url.replace(/\/\/.*@/, '//');
}

/** @throws {@link UnusableRedisError} it does not answer, or does not let us in */
async function assertUsable(url: string): Promise<void> {
  let trouble: Error | undefined;
  let redis: PlainRedis | undefined;
  try {
    redis = plainRedis(url, (error) => (trouble ??= error));
    const answer = await settledWithin(redis.send('PING'), ANSWER_LIMIT_MS);
    if (answer === NEVER) trouble ??= new Error(`no answer within ${ANSWER_LIMIT_MS} ms`);
  } catch (error) {
    trouble ??= error as Error;
  } finally {
    redis?.disconnect();
  }
  if (!trouble) return;
  throw new UnusableRedisError(
    `the Redis at ${withoutPassword(url)}, which HOLDFAST_REDIS_URL names, cannot be used: ${inPlainWords(trouble)}`,
  );
}

function inPlainWords({ message }: Error): string {
  if (/^(NOAUTH|WRONGPASS|NOPERM)/.test(message))
    return `it wants another user or password (redis://user:password@host:port): ${message}`;
  return message;
}
