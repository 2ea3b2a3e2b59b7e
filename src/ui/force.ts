// Frees a lock for somebody who watches: whoever holds it, and whatever kind of lock it is.

import { OptionError } from '../api/errors.js';
import type { Inspection } from '../api/inspection.js';
import type { Holdfast } from '../holdfast.js';

/** @throws OptionError it is a semaphore, whose permits cannot be forced out */
export async function forceUnlock(
  holdfast: Pick<Holdfast, 'getLock' | 'getReadWriteLock'>,
  { name, kind, holders }: Inspection,
): Promise<boolean> {
  if (kind === 'semaphore') {
    const leftMs = Math.max(0, ...holders.map(({ leaseLeftMs }) => leaseLeftMs));
    throw new OptionError(
      `"${name}" is a semaphore: its permits cannot be forced out; each is free when its lease ends, at the latest in ${String(Math.ceil(leftMs / 1_000))} s unless it is renewed`,
      { lockName: name },
    );
  }
  if (kind === 'lock') return await holdfast.getLock(name).forceUnlock();
  const lock = holdfast.getReadWriteLock(name);
  const wrote = await lock.writeLock().forceUnlock();
  const read = await lock.readLock().forceUnlock();
  return wrote || read;
}
