// One owner for all members of a lock of several.

import { UnavailableError } from '../../api/errors.js';

/**
 * A member was to be tried once more as the owner that all members share. What was asked for as that owner before is being taken back, so
 * it may not be used again.
 */
export class OwnerSpentError extends UnavailableError {}

/** Gives one member the common owner, once; asked for it again, throws OwnerSpentError. */
export function commonOwner(ownerId: string, lockName: string): () => string {
  let isUsed = false;
  return () => {
    if (isUsed) {
      const message = `lock "${lockName}" not acquired: what was asked for as ${ownerId} is being taken back`;
      throw new OwnerSpentError(message, { lockName });
    }
    isUsed = true;
    return ownerId;
  };
}
