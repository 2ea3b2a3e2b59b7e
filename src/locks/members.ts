// What locks that are made of other locks may be made of.

import { OptionError } from '../api/errors.js';
import { shown } from '../api/shown.js';
import type { LockBackend } from '../core/backend.js';
import { BaseLock } from './base-lock.js';
import { SingleLock } from './single-lock.js';

/** The locks that `what` is to be made of: at least one, each once, and no Redlock beside a lock that it is made of. */
export function parseMembers(
  what: string,
  locks: readonly unknown[],
  right: string,
  isRight: (backend: LockBackend) => boolean,
): SingleLock[] {
  if (locks.length === 0)
    throw new OptionError(`${what} has no members: it needs at least one lock`);
  const members = locks.map((lock, index) => {
    if (isSingleLock(lock) && isRight(lock.parts.backend)) return lock;
    throw new OptionError(
      `member ${String(index + 1)} of ${what} is ${shownMember(lock)}: ${right}`,
    );
  });
  const ids = new Set<string>();
  for (const { name, parts } of members) {
    // Whoever holds one and waits for the other would wait for itself: a Redlock holds the locks that it is made of.
    for (const id of parts.backend.memberIds ?? [parts.backend.id]) {
      if (ids.has(id))
        throw new OptionError(`${what} has "${name}" twice: each member must be another lock`);
      ids.add(id);
    }
  }
  return members;
}

/** A type guard for locks of any backend: `instanceof` alone would narrow to `SingleLock<any>`. */
function isSingleLock(given: unknown): given is SingleLock {
  return given instanceof SingleLock;
}

/** What was given for a member, in words that lead to the mistake. */
export function shownMember(given: unknown): string {
  if (given instanceof BaseLock) return `"${given.name}"`;
  if (has(given, 'readLock')) return 'a read-write lock (was readLock() or writeLock() forgotten?)';
  if (has(given, 'setPermits')) return 'a semaphore';
  if (has(given, 'tryLock') && has(given, 'withLock'))
    return 'a lock of another copy of holdfast (is the package installed twice?)';
  if (has(given, 'getLock')) return 'a client (was getLock() forgotten?)';
  return shown(given);
}

/** A lock of another copy of this package is an instance of another class: only its shape tells. */
function has(given: unknown, method: string): boolean {
  return (
    typeof given === 'object' &&
    given !== null &&
    typeof (given as Record<string, unknown>)[method] === 'function'
  );
}
