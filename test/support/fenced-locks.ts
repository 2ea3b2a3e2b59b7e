// Fenced locks of both kinds, and what their tokens must be like.
import type { Redis } from 'ioredis';
import { expect } from 'vitest';
import type { FencedLock, FencedLockOptions, Hold } from '../../src/index.js';
import type { scripts } from '../../src/redis/scripts.generated.js';

export interface FencedKind {
  readonly title: string;
  readonly options: FencedLockOptions;
  /** What takes the lock. */
  readonly script: keyof typeof scripts;
}

export const FENCED_KINDS: readonly FencedKind[] = [
  { title: 'a fenced lock', options: {}, script: 'acquire' },
  { title: 'a fenced fair lock', options: { fair: true }, script: 'join' },
];

/** The key of the last token, for a name without braces. */
export function counterOf(name: string): string {
  return `redisson_lock_token:{${name}}`;
}

/** The server's time in microseconds, which no token is below. */
export async function serverTimeUs(redis: Redis): Promise<bigint> {
  const [seconds = 0, microseconds = 0] = await redis.time();
  return BigInt(seconds) * 1_000_000n + BigInt(microseconds);
}

/** Each is larger than the one before. */
export function expectGrowing(tokens: readonly (bigint | undefined)[]): void {
  const wrong = tokens.flatMap((token, index) => {
    const before = index === 0 ? 0n : tokens[index - 1];
    const isLarger = token !== undefined && before !== undefined && token > before;
    return isLarger ? [] : [`${String(before)} before ${String(token)}`];
  });
  expect(wrong).toEqual([]);
}

/** Takes and releases it; returns the token. */
export async function passThrough(lock: FencedLock): Promise<bigint> {
  return await lock.withLock(({ token }) => token);
}

/** Notes the token of each hold that begins, in order. */
export function noting<L extends Pick<FencedLock, 'acquire' | 'withLock'>>(
  lock: L,
  tokens: (bigint | undefined)[],
): L {
  const note = <H extends Hold>(hold: H): H => {
    tokens.push(hold.token);
    return hold;
  };
  const acquire = async (options: Parameters<L['acquire']>[0]): Promise<Hold> =>
    note(await lock.acquire(options));
  const withLock = (options: object, fn: (hold: Hold) => unknown): Promise<unknown> =>
    lock.withLock(options, (hold) => fn(note(hold)));
  return { acquire, withLock } as unknown as L;
}

/** How long the server remembers the last token of a lock of this client, in milliseconds; -1: for ever. */
export async function memoryMs(redis: Redis, name: string): Promise<number> {
  return await redis.pttl(counterOf(name));
}
