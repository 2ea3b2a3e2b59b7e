// A MultiLock of three locks for each test, as two clients see it, and what the server keeps of it.
import type { Redis } from 'ioredis';
import { afterEach, beforeEach } from 'vitest';
import type { Holdfast, Lock } from '../../src/index.js';
import { newClient } from './clients.js';
import { uniqueName } from './unique-name.js';

export interface MultiMembers {
  readonly client: Holdfast;
  readonly other: Holdfast;
  /** Of the members, which are the first client's. */
  readonly multi: Lock;
  readonly names: readonly string[];
  readonly a: Lock;
  /** The only fair one. */
  readonly b: Lock;
  readonly c: Lock;
  /** The same locks, as the other client sees them. */
  readonly others: { readonly multi: Lock; readonly a: Lock; readonly b: Lock; readonly c: Lock };
}

/** A new one for each test of the file; returns the present test's. Leases are 30 s, so that nothing ends by itself. */
export function membersPerTest(): () => MultiMembers {
  let current: MultiMembers;
  beforeEach(() => {
    const options = { lockWatchdogTimeout: 30_000 };
    const [client, other] = [newClient(options), newClient(options)];
    const names = ['a', 'b', 'c'].map((label) => uniqueName(label));
    const mine = locksOf(client, names);
    current = { client, other, names, ...mine, others: locksOf(other, names) };
  });
  afterEach(async () => {
    await Promise.all([current.client.close(), current.other.close()]);
  });
  return () => current;
}

/** For each name, the owner of the lock and its hold count; {} where it is free. */
export async function heldOnServer(
  redis: Redis,
  names: readonly string[],
): Promise<Record<string, string>[]> {
  return await Promise.all(names.map((name) => redis.hgetall(name)));
}

function locksOf(
  client: Holdfast,
  [first, second, third]: readonly string[],
): MultiMembers['others'] {
  const [a, b, c] = [client.getLock(first!), client.getFairLock(second!), client.getLock(third!)];
  return { a, b, c, multi: client.getMultiLock(a, b, c) };
}
