// The commands that locks send, for proxies to recognise, and what is left of a lease on the server.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { scripts } from '../../src/redis/scripts.generated.js';

/** Matches the command that runs this script on the lock of this name. Load the scripts first. */
export function commandOf(script: keyof typeof scripts, lockName: string): RegExp {
  const name = lockName.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`^EVALSHA ${scripts[script].sha1} (\\S+ )*${name} `, 'i');
}

/** Makes the server know all scripts, so that the first command is not answered by NOSCRIPT. */
export async function loadScripts(url: string): Promise<void> {
  const redis = new Redis(url);
  try {
    await Promise.all(Object.values(scripts).map(({ source }) => redis.script('LOAD', source)));
  } finally {
    redis.disconnect();
  }
}

/** As after a restart: somebody released there (as all do on all masters), and nobody acquired so far. */
export async function knowsOnlyReleases(url: string): Promise<void> {
  const redis = new Redis(url);
  await redis.script('FLUSH');
  for (const { source } of [scripts.release, scripts.handOver]) await redis.script('LOAD', source);
  redis.disconnect();
}

/** Looks at PTTL for so long; returns all that it saw. A lease that nobody renews only falls. */
export async function watchTtl(redis: Redis, lockName: string, ms: number): Promise<number[]> {
  const seen: number[] = [];
  const endMs = performance.now() + ms;
  while (performance.now() < endMs) {
    seen.push(await redis.pttl(lockName));
    await sleep(5);
  }
  return seen;
}

/** Whether any number is higher than the one before it. */
export function rises(numbers: readonly number[]): boolean {
  return numbers.some((number, index) => index > 0 && number > numbers[index - 1]!);
}
