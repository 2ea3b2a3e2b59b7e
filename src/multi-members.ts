// What a lock of several may be made of: real locks, each once, each of one name.

import { OptionError } from './errors.js';
import { Lock } from './lock.js';
import { RedLockBackend } from './quorum/red-lock.js';
import { shown } from './shown.js';
import { SingleLock } from './single-lock.js';

/** The locks that something is to be made of: at least one, each once, none of several itself. */
export function parseMembers(what: string, locks: readonly unknown[]): SingleLock[] {
  if (locks.length === 0)
    throw new OptionError(`${what} has no members: it needs at least one lock`);
  const members = locks.map((lock, index) => {
    if (lock instanceof SingleLock && !(lock.parts.backend instanceof RedLockBackend)) return lock;
    const right = 'it must be a lock of getLock() or getFairLock()';
    throw new OptionError(
      `member ${String(index + 1)} of ${what} is ${shownMember(lock)}: ${right}`,
    );
  });
  const ids = new Set<string>();
  for (const { id, name } of members) {
    if (ids.has(id))
      throw new OptionError(`${what} has "${name}" twice: each member must be another lock`);
    ids.add(id);
  }
  return members;
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
