// What a lock of several may be made of: real locks, each once, each of one name.

import type { LockBackend } from '../../core/backend.js';
import { OptionError } from '../../api/errors.js';
import { Lock } from '../../api/lock.js';
import { RedLockBackend } from '../red/red-backend.js';
import { shown } from '../../api/shown.js';
import { SingleLock } from '../single-lock.js';

/** The locks that a MultiLock is to be made of: at least one, each once, none of several names itself. */
export function parseMultiMembers(locks: readonly unknown[]): SingleLock[] {
  const right = 'it must be a lock of getLock(), getFairLock() or getRedLock()';
  return parseMembers('a MultiLock', locks, right, () => true);
}

/** The locks that a Redlock is to be made of. */
export function parseRedMembers(locks: readonly unknown[]): SingleLock[] {
  const right = 'it must be a lock of getLock()';
  return parseMembers('a Redlock', locks, right, (backend) => !(backend instanceof RedLockBackend));
}

function parseMembers(
  what: string,
  locks: readonly unknown[],
  right: string,
  isRight: (backend: LockBackend) => boolean,
): SingleLock[] {
  if (locks.length === 0)
    throw new OptionError(`${what} has no members: it needs at least one lock`);
  const members = locks.map((lock, index) => {
    if (lock instanceof SingleLock && isRight(lock.parts.backend)) return lock;
    throw new OptionError(
      `member ${String(index + 1)} of ${what} is ${shownMember(lock)}: ${right}`,
    );
  });
  const ids = new Set<string>();
  for (const { name, parts } of members) {
    for (const id of idsOnServers(parts.backend)) {
      if (ids.has(id))
        throw new OptionError(`${what} has "${name}" twice: each member must be another lock`);
      ids.add(id);
    }
  }
  return members;
}

/** Who waits for one of these while holding another would wait for itself: a Redlock is in the way of the locks it is made of. */
function idsOnServers(backend: LockBackend): string[] {
  return backend instanceof RedLockBackend
    ? backend.masters.map(({ lock }) => lock.id)
    : [backend.id];
}

/** What was given for a member, in words that lead to the mistake. */
export function shownMember(given: unknown): string {
  if (given instanceof Lock) return `"${given.name}"`;
  if (has(given, 'tryLock') && has(given, 'withLock'))
    return 'a lock of another copy of holdfast (is the package installed twice?)';
  if (has(given, 'getLock')) return 'a client (was getLock() forgotten?)';
  return shown(given);
}

/** A lock of another copy is an instance of another class: only its shape tells. */
function has(given: unknown, method: string): boolean {
  return (
    typeof given === 'object' &&
    given !== null &&
    typeof (given as Record<string, unknown>)[method] === 'function'
  );
}
