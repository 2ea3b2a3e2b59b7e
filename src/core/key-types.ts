// What the keys of a lock should be, and a look at what they are.

import type { KeyInTheWay } from './key-conflict.js';
import type { RedisClient } from '../redis/client.js';

/** A key of a lock. */
export interface ExpectedKey {
  readonly key: string;
  readonly type: 'hash' | 'string' | 'zset';
  /** What should be there, in words. */
  readonly expected: string;
}

/** The first key that is not what it should be; undefined: there is none (any more). The first of `keys` is the lock's own. */
export async function keyOfAnotherType(
  connection: RedisClient,
  keys: readonly ExpectedKey[],
): Promise<KeyInTheWay | undefined> {
  const types = await Promise.all(
    keys.map(({ key }) => connection.command('type', key) as Promise<string>),
  );
  for (const [index, { key, type, expected }] of keys.entries()) {
    const found = types[index] ?? 'none';
    if (found === type || found === 'none') continue;
    return { key, expected, type: found, hint: index === 0 ? HINTS[found] : undefined };
  }
  const [lock] = keys;
  return lock && types[0] === 'hash' ? await hashOfAnotherKind(connection, lock) : undefined;
}

/** The capacity by which a read-write lock is told from a semaphore. */
const READ_WRITE = String(2 ** 31);

/** Which library's lock a key under the bare name of a lock may be, by the type of the key. */
const HINTS: Readonly<Record<string, string>> = { string: 'redlock’s' };

async function hashOfAnotherKind(
  connection: RedisClient,
  { key, expected }: ExpectedKey,
): Promise<KeyInTheWay | undefined> {
  const [fieldCount, hasMode, capacity] = await Promise.all([
    connection.command('hlen', key),
    connection.command('hexists', key, 'mode'),
    connection.command('hget', key, 'capacity'),
  ]);
  if (fieldCount === 0) return undefined;
  const isLock = fieldCount === 1 && expected !== 'a lock';
  const hint =
    hasMode === 1
      ? 'Redisson’s read-write lock'
      : capacity !== null
        ? capacity === READ_WRITE
          ? 'a read-write lock'
          : 'a semaphore'
        : isLock
          ? 'a lock'
          : undefined;
  return { key, expected, type: 'hash', hint: hint === expected ? undefined : hint };
}
