// What the keys of a lock should be, and a look at what they are.

import type { KeyInTheWay } from './key-conflict.js';
import type { Connection } from '../redis/connection.js';

/** A key of a lock. */
export interface ExpectedKey {
  readonly key: string;
  readonly type: 'hash' | 'string' | 'zset';
  /** What should be there, in words. */
  readonly expected: string;
}

/** The first key that is something else; undefined: there is none (any more). The first of them all is the lock. */
export async function keyOfAnotherType(
  connection: Connection,
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

/** Who makes keys of such a type under the bare name of a lock. */
const HINTS: Readonly<Record<string, string>> = { string: 'redlock’s' };

async function hashOfAnotherKind(
  connection: Connection,
  { key, expected }: ExpectedKey,
): Promise<KeyInTheWay | undefined> {
  const [fieldCount, hasMode, hasCapacity] = await Promise.all([
    connection.command('hlen', key),
    connection.command('hexists', key, 'mode'),
    connection.command('hexists', key, 'capacity'),
  ]);
  if (fieldCount === 0) return undefined;
  const isLock = fieldCount === 1 && expected !== 'a lock';
  const hint =
    hasMode === 1
      ? 'Redisson’s read-write lock'
      : hasCapacity === 1
        ? 'a semaphore or read-write lock'
        : isLock
          ? 'a lock'
          : undefined;
  return { key, expected, type: 'hash', hint };
}
