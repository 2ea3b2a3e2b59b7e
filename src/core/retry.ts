// Asks Redis until it answers, or the wait is over. Nothing below repeats anything by itself; `retry` does, and tells `send` so, since a
// repeat may find the work already done.

import type { KeyInTheWay } from './protocol.js';
import { HoldfastError } from '../api/errors.js';
import { failureKind, NodeGoneError } from '../redis/failure.js';
import type { RedisClient } from '../redis/client.js';
import type { Surroundings } from '../redis/session.js';
import { type BackOff, backOffMs, PROCESS_RANDOM } from '../runtime/clock.js';
import { WaitEnded, type WaitLimit } from '../runtime/wait-limit.js';
import { keyConflict, refused } from './messages.js';

/** Between attempts at what a caller waits for. */
export const REPEATING: BackOff = { firstMs: 20, longestMs: 500, jitter: 0 };
/** Callers between whom the servers could not decide must not go on asking in step. */
const UNDECIDED: BackOff = { ...REPEATING, jitter: 1 };

/** One server, or several, each of which is told by itself what it has refused. */
type Asked = Pick<RedisClient, 'isReady' | 'whenReady'> &
  Partial<Pick<RedisClient, 'refusals'>> & { readonly surroundings?: Pick<Surroundings, 'random'> };

/**
 * @param send - `isRepeat`: an earlier attempt may have run; `lastError`: why the latest one failed
 * @throws WaitEnded with the error of the latest attempt
 */
export async function retry<T>(
  connection: Asked,
  waitLimit: WaitLimit,
  lock: Conflicting,
  send: (isRepeat: boolean, lastError?: Error) => Promise<T>,
): Promise<T> {
  let isRepeat = false;
  let lastError: Error | undefined;
  for (let attempt = 0; ; attempt++) {
    try {
      if (lastError) await waitLimit.pause(pauseMs(attempt, lastError, connection));
      waitLimit.assertNotOver();
      if (!connection.isReady) await connection.whenReady(waitLimit);
      return await waitLimit.attempt(() => send(isRepeat, lastError));
    } catch (error) {
      if (error instanceof WaitEnded) throw new WaitEnded(error.ending, lastError);
      if (error instanceof HoldfastError)
        throw error.lockName === undefined ? refused(lock.name, error) : error;
      isRepeat ||= mayHaveRun(error);
      const kind = failureKind(error);
      if (kind === 'conflict') {
        // (A user who may not call TYPE is told less.)
        const look = lock.keyInTheWay?.();
        const found = look && (await waitLimit.within(look).catch(() => undefined));
        throw keyConflict(lock.name, found, error);
      }
      const isGone = error instanceof NodeGoneError && waitLimit.isSingleAttempt && !isRepeat;
      if (kind === 'denied' || kind === 'defect' || isGone) throw refused(lock.name, error);
      lastError = error as Error;
      connection.refusals?.heard(error);
    }
  }
}

function pauseMs(attempt: number, lastError: Error, { surroundings }: Asked): number {
  const { random = PROCESS_RANDOM } = surroundings ?? {};
  return backOffMs(attempt, random, lastError instanceof Undecided ? UNDECIDED : REPEATING);
}

/** Whether a command that failed may have run. */
export function mayHaveRun(error: unknown): boolean {
  return error instanceof Undecided ? error.mayHaveRun : failureKind(error) === 'unanswered';
}

// Several servers were asked, and what they answered decides nothing: asked again a little later, they may decide.

export class Undecided extends Error {
  /** What the caller is told when nobody asks again. */
  readonly told: HoldfastError;
  /** Whether one of the servers may have done what it was asked to do: asked again, it may find that done. */
  readonly mayHaveRun: boolean;

  constructor(told: HoldfastError, mayHaveRun: boolean) {
    super(told.message);
    this.told = told;
    this.mayHaveRun = mayHaveRun;
  }
}

// A key that is in the way of a lock: which one, and what it is, looked for once a command has met it.

/** A lock that can say what is in its way. */
export interface Conflicting {
  readonly name: string;
  keyInTheWay?(): Promise<KeyInTheWay | undefined>;
}

// What the keys of a lock should be, and a look at what they are.

/** A key of a lock. */
export interface ExpectedKey {
  readonly key: string;
  readonly type: 'hash' | 'string' | 'zset';
  /** What should be there, in words. */
  readonly expected: string;
}

/** The first key that is not what it should be; undefined: there is none (any more). The first of `keys` is the lock's own. */
export async function keyOfAnotherType(
  connection: RedisClient,
  keys: readonly ExpectedKey[],
): Promise<KeyInTheWay | undefined> {
  const types = await Promise.all(
    keys.map(({ key }) => connection.command('type', key) as Promise<string>),
  );
  for (const [index, { key, type, expected }] of keys.entries()) {
    const found = types[index] ?? 'none';
    if (found !== type && found !== 'none') return { key, expected, type: found };
  }
  // All are of the right types: what the lock's own key holds is not.
  const [lock] = keys;
  return lock && types[0] === 'hash' ? { ...lock, type: 'hash' } : undefined;
}
