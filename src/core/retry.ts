// Asks Redis until it answers, or the wait is over. Nothing below repeats anything by itself; `retry` does, and tells `send` so, since a
// repeat may find the work already done.

import { ClosedError, UnavailableError } from '../api/errors.js';
import { HoldfastError } from '../api/holdfast-error.js';
import { keyConflict, type Conflicting } from './key-conflict.js';
import { describe, failureKind, NodeGoneError } from '../redis/failure.js';
import type { RedisClient } from '../redis/client.js';
import type { Surroundings } from '../redis/session.js';
import { PROCESS_RANDOM } from '../runtime/clock.js';
import { WaitEnded, type WaitLimit } from '../runtime/wait-limit.js';
import { Undecided } from './undecided.js';

/** The pause before the first repeat; each pause after it is twice as long. */
export const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 500;

/** One server, or several, each of which is told by itself what it has refused. */
type Asked = Pick<RedisClient, 'isReady' | 'whenReady'> &
  Partial<Pick<RedisClient, 'refusals'>> & { readonly surroundings?: Pick<Surroundings, 'random'> };

export async function retry<T>(
  connection: Asked,
  waitLimit: WaitLimit,
  lock: Conflicting,
  send: (isRepeat: boolean) => Promise<T>,
): Promise<T> {
  let isRepeat = false;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
    try {
      waitLimit.assertNotOver();
      if (!connection.isReady) await connection.whenReady(waitLimit);
      waitLimit.mayHaveRun = true;
      const reply = await waitLimit.attempt(() => send(isRepeat));
      waitLimit.mayHaveRun = false;
      waitLimit.trouble = undefined;
      return reply;
    } catch (error) {
      if (error instanceof WaitEnded) throw error;
      if (error instanceof HoldfastError)
        throw error.lockName === undefined ? refused(lock.name, error) : error;
      const kind = failureKind(error);
      isRepeat ||= error instanceof Undecided ? error.mayHaveRun : kind === 'unanswered';
      waitLimit.mayHaveRun = isRepeat;
      if (kind === 'conflict') throw await keyConflict(lock, waitLimit, error);
      if (kind === 'denied' || kind === 'defect') throw refused(lock.name, error);
      waitLimit.trouble = error as Error;
      if (error instanceof NodeGoneError && waitLimit.isSingleAttempt && !isRepeat)
        throw refused(lock.name, error);
      connection.refusals?.heard(error);
    }
    // Callers between whom the servers could not decide must not go on asking in step.
    const isUndecided = waitLimit.trouble instanceof Undecided;
    const { random = PROCESS_RANDOM } = connection.surroundings ?? {};
    await waitLimit.pause(isUndecided ? pauseMs * 2 * random() : pauseMs);
  }
}

function refused(lockName: string, cause: unknown): HoldfastError {
  if (cause instanceof ClosedError)
    return new ClosedError(`lock "${lockName}": ${cause.message}`, { lockName });
  const why = cause instanceof Error ? describe(cause) : String(cause);
  return new UnavailableError(`lock "${lockName}": ${why}`, { lockName, cause });
}
