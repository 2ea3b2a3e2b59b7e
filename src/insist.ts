// Asks Redis until it answers, or patience is over. ioredis repeats nothing by itself; this does, and says so to
// whoever sends, since a repeat may find the work already done.

import { ClosedError, HoldfastError, UnavailableError } from './errors.js';
import { keyConflict, type Conflicting } from './key-conflict.js';
import { NoQuorum } from './quorum/no-quorum.js';
import { failureKind } from './redis/failure.js';
import type { Connection } from './redis/connection.js';
import { PatienceOver, type Patience } from './waiting/patience.js';

const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 500;

export async function insist<T>(
  connection: Pick<Connection, 'isReady' | 'whenReady'>,
  patience: Patience,
  lock: Conflicting,
  send: (isRepeat: boolean) => Promise<T>,
): Promise<T> {
  let isRepeat = false;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
    try {
      patience.assertNotOver();
      if (!connection.isReady) await connection.whenReady(patience);
      patience.mayHaveRun = true;
      const reply = await patience.within(send(isRepeat));
      patience.mayHaveRun = false;
      patience.trouble = undefined;
      return reply;
    } catch (error) {
      if (error instanceof PatienceOver) throw error;
      if (error instanceof HoldfastError)
        throw error.lockName === undefined ? refused(lock.name, error) : error;
      const kind = failureKind(error);
      isRepeat ||= kind === 'unanswered';
      patience.mayHaveRun = isRepeat;
      if (kind === 'conflict') throw await keyConflict(lock, patience, error);
      if (kind === 'denied' || kind === 'defect') throw refused(lock.name, error);
      patience.trouble = error as Error;
    }
    // Callers of one Redlock must not go on trying in step.
    const isSplit = patience.trouble instanceof NoQuorum;
    await patience.pause(isSplit ? pauseMs * 2 * Math.random() : pauseMs);
  }
}

function refused(lockName: string, cause: unknown): HoldfastError {
  if (cause instanceof ClosedError)
    return new ClosedError(`lock "${lockName}": ${cause.message}`, { lockName });
  const why = cause instanceof Error ? cause.message : String(cause);
  return new UnavailableError(`lock "${lockName}": ${why}`, { lockName, cause });
}
