// One owner for all members of a lock of several.

import { UnavailableError } from '../../api/errors.js';

/** What was asked for as the owner that all members shall have is being taken back: it may not be used for more. */
export class OwnerSpentError extends UnavailableError {}

/** For one member: that owner, once. */
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
