// Frees a lock of any kind for an operator, who was shown the holders first.

import { OptionError } from '../api/errors.js';
import type { Holdfast } from '../holdfast.js';

export type Forced =
  | { readonly outcome: 'forced' }
  /** Nobody held it by then. */
  | { readonly outcome: 'free' }
  /** Somebody else holds it by now: nothing was changed. */
  | { readonly outcome: 'changed'; readonly ownerId: string };

/**
 * @param shown - the owner ids that the operator saw: if another owner holds the lock by now, nothing is changed; undefined: frees it whoever
 *   holds it. An owner that gets the lock after this check and before the release is still freed: these are two commands.
 * @throws OptionError it is a semaphore, whose permits cannot be forced out
 */
export async function forceUnlock(
  holdfast: Pick<Holdfast, 'getLock' | 'getReadWriteLock' | 'inspect'>,
  name: string,
  shown?: readonly string[],
): Promise<Forced> {
  const { kind = 'lock', holders = [] } = (await holdfast.inspect(name)) ?? {};
  if (holders.length === 0) return { outcome: 'free' };
  if (kind === 'semaphore') {
    const leftMs = Math.max(0, ...holders.map(({ leaseLeftMs }) => leaseLeftMs));
    throw new OptionError(
      `"${name}" is a semaphore: its permits cannot be forced out; each is free when its lease ends, at the latest in ${String(Math.ceil(leftMs / 1_000))} s unless it is renewed`,
      { lockName: name },
    );
  }
  const other = shown && holders.find(({ ownerId }) => !shown.includes(ownerId));
  if (other) return { outcome: 'changed', ownerId: other.ownerId };
  if (kind === 'lock')
    return { outcome: (await holdfast.getLock(name).forceUnlock()) ? 'forced' : 'free' };
  // Only the half that was seen: when a writer is forced out, the next readers in line are let in.
  const lock = holdfast.getReadWriteLock(name);
  const isWritten = holders.some(({ mode }) => mode === 'write');
  const half = isWritten ? lock.writeLock() : lock.readLock();
  return { outcome: (await half.forceUnlock()) ? 'forced' : 'free' };
}
