// Asks Redis until it answers, or patience is over. ioredis repeats nothing by itself; this does, and says so to
// whoever sends, since a repeat may find the work already done.

import { KeyConflictError, UnavailableError } from './errors.js';
import { failureKind } from './redis/failure.js';
import type { Connection } from './redis/connection.js';
import { PatienceOver, type Patience } from './waiting/patience.js';

const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 500;

export async function insist<T>(
  connection: Pick<Connection, 'isReady' | 'whenReady'>,
  patience: Patience,
  lockName: string,
  send: (isRepeat: boolean) => Promise<T>,
): Promise<T> {
  let isRepeat = false;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
    if (!connection.isReady) await patience.within(connection.whenReady());
    try {
      return await patience.within(send(isRepeat));
    } catch (error) {
      if (error instanceof PatienceOver || error instanceof UnavailableError) throw error;
      const kind = failureKind(error);
      if (kind === 'conflict') throw keyConflict(lockName, error);
      if (kind === 'denied' || kind === 'defect') {
        throw new UnavailableError(`lock "${lockName}": Redis refuses: ${String(error)}`, {
          lockName,
          cause: error,
        });
      }
      isRepeat ||= kind === 'unanswered';
    }
    await patience.pause(pauseMs);
  }
}

function keyConflict(lockName: string, cause: unknown): KeyConflictError {
  return new KeyConflictError(
    `lock "${lockName}": its key holds something that is not a lock; choose another name or keyPrefix`,
    { lockName, cause },
  );
}
