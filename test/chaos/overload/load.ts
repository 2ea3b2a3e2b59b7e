// One way to have far too much to do, and what came of it.
import { runInNewContext } from 'node:vm';
import { setFlagsFromString } from 'node:v8';
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisServer } from '../../support/redis-server.js';

export interface Load {
  readonly name: string;
  readonly what: string;
  /** Returns figures, each with its unit. @throws Error that says what was lost or left */
  run(server: RedisServer): Promise<Record<string, string>>;
}

/** Milliseconds for `work`. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const startMs = performance.now();
  await work();
  return performance.now() - startMs;
}

/** What is on the heap when the garbage is gone, in MB. */
export function heapMb(): number {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  return process.memoryUsage().heapUsed / 1e6;
}

/** @throws Error that names what is left on the server when all clients are closed */
export async function assertNothingLeft({ url }: RedisServer): Promise<void> {
  const redis = new Redis(url);
  try {
    for (let tries = 50; ; tries--) {
      const keys = await redis.keys('*');
      const channels = (await redis.pubsub('CHANNELS')) as string[];
      const clients =
        String(await redis.client('LIST'))
          .trim()
          .split('\n').length - 1;
      if (keys.length + channels.length + clients === 0) return;
      if (tries === 0)
        throw new Error(
          `left: ${keys.length} keys, ${channels.length} channels, ${clients} connections: ${keys.slice(0, 5).join(', ')}`,
        );
      await sleep(100);
    }
  } finally {
    redis.disconnect();
  }
}

/** @throws Error unless it holds */
export function assert(isTrue: boolean, what: string): void {
  if (!isTrue) throw new Error(what);
}
