// What a lock of several may be made of: real locks, each once, each of one name.

import { parseMembers } from '../members.js';
import type { SingleLock } from '../single-lock.js';

export function parseMultiMembers(locks: readonly unknown[]): SingleLock[] {
  const right = 'it must be a lock of getLock(), getFairLock() or getRedLock()';
  return parseMembers('a MultiLock', locks, right, () => true);
}
