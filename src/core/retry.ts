// Sends a command to Redis until it answers, or the wait is over. No lower layer repeats commands; `retry` does, and tells `send` so, since
// a repeat may find the work already done.

import type { KeyInTheWay } from './protocol.js';
import { HoldfastError } from '../api/errors.js';
import {
  failureKind,
  isLasting,
  isOutcomeUnknown,
  NodeGoneError,
  UnwantedError,
} from '../redis/failure.js';
import type { RedisClient } from '../redis/client.js';
import type { Surroundings } from '../redis/session.js';
import { type BackOff, backOffMs, PROCESS_RANDOM } from '../runtime/clock.js';
import { WaitEnded, type WaitLimit } from '../runtime/wait-limit.js';
import { keyConflict, refused } from './messages.js';

/** The pauses between attempts. */
export const REPEATING: BackOff = { firstMs: 20, longestMs: 500, jitter: 0 };
/** With jitter: callers between which the masters could not decide must not retry in step. */
const UNDECIDED: BackOff = { ...REPEATING, jitter: 1 };

/** The connection to one server; for several masters there are no `refusals` here, since each master records its own. */
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
      if (attempt > 0) await waitLimit.pause(pauseMs(attempt, lastError, connection));
      waitLimit.assertNotOver();
      if (!connection.isReady) await connection.whenReady(waitLimit);
      return await waitLimit.attempt(() => send(isRepeat, lastError));
    } catch (error) {
      if (error instanceof WaitEnded) throw new WaitEnded(error.ending, lastError);
      if (error instanceof HoldfastError)
        throw error.lockName === undefined ? refused(lock.name, error) : error;
      isRepeat ||= mayHaveRun(error);
      if (failureKind(error) === 'conflict') {
        // (Without permission for TYPE the error says less.)
        const look = lock.keyInTheWay?.();
        const found = look && (await waitLimit.within(look).catch(() => undefined));
        throw keyConflict(lock.name ?? '', found, error);
      }
      const isGone = error instanceof NodeGoneError && waitLimit.isSingleAttempt && !isRepeat;
      if (isLasting(error) || isGone) throw refused(lock.name, error);
      // What was dropped unsent when the time was over says nothing of Redis.
      if (!(error instanceof UnwantedError)) lastError = error as Error;
      connection.refusals?.heard(error);
    }
  }
}

function pauseMs(attempt: number, lastError: Error | undefined, { surroundings }: Asked): number {
  const { random = PROCESS_RANDOM } = surroundings ?? {};
  return backOffMs(attempt, random, lastError instanceof Undecided ? UNDECIDED : REPEATING);
}

/** Whether a command that failed may have run. */
export function mayHaveRun(error: unknown): boolean {
  return error instanceof Undecided ? error.mayHaveRun : isOutcomeUnknown(error);
}

// The answers of several servers allow no decision; a later attempt may.

export class Undecided extends Error {
  /** The error for the caller if there is no further attempt. */
  readonly told: HoldfastError;
  /** Whether one of the servers may have executed the command, so that a repeat may find the work done. */
  readonly mayHaveRun: boolean;

  constructor(told: HoldfastError, mayHaveRun: boolean) {
    super(told.message);
    this.told = told;
    this.mayHaveRun = mayHaveRun;
  }
}

// A key of another kind in the way of a lock: found out after a command has met it.

/** A lock that can find out which key is in its way. */
export interface Conflicting {
  /** undefined: the question is for all locks. */
  readonly name: string | undefined;
  keyInTheWay?(): Promise<KeyInTheWay | undefined>;
}

/** A key of a lock, and the type that it should have. */
export interface ExpectedKey {
  readonly key: string;
  readonly type: 'hash' | 'string' | 'zset';
  /** What the key should hold, in words. */
  readonly expected: string;
}

/** The first key of another type than it should have; undefined: there is none (any more). The first of `keys` is the lock's own. */
export async function keyOfAnotherType(
  connection: RedisClient,
  keys: readonly ExpectedKey[],
): Promise<KeyInTheWay | undefined> {
  const types = await Promise.all(
    keys.map(({ key }) => connection.command('type', key) as Promise<string>),
  );
  for (const [index, { key, type, expected }] of keys.entries()) {
    const found = types[index] ?? 'none';
    if (found === type || found === 'none') continue;
    return { key, expected, type: found, what: index === 0 ? OTHERS[found] : undefined };
  }
  // All types are right: the content of the lock's own key is wrong.
  const [lock] = keys;
  if (!lock || types[0] !== 'hash') return undefined;
  const what = await kindOfHash(connection, lock.key).catch(() => undefined);
  return { ...lock, type: 'hash', what };
}

/** What other libraries store under the name of a lock, by its type. */
const OTHERS: Readonly<Record<string, string>> = {
  string: 'a string, as redlock and SET NX write',
  zset: 'a sorted set, as a semaphore of redis-semaphore is',
};

/** The permits of a read-write lock, all of which a writer takes. */
const READ_WRITE_CAPACITY = '2147483648';

/** A hash with more fields is not read: it may be huge, and is no lock. */
const MOST_FIELDS = 4;

/** Which kind of lock a hash is, in words; undefined: none that is known. */
async function kindOfHash(connection: RedisClient, key: string): Promise<string | undefined> {
  const [capacity, mode] = (await connection.command('hmget', key, 'capacity', 'mode')) as (
    string | null
  )[];
  if (capacity === READ_WRITE_CAPACITY) return 'a read-write lock of holdfast';
  if (/^\d+$/.test(capacity ?? '')) return 'a semaphore of holdfast';
  if (mode === 'read' || mode === 'write') return 'a read-write lock of Redisson';
  if (Number(await connection.command('hlen', key)) > MOST_FIELDS) return undefined;
  // (ioredis makes an object of it.)
  const fields = (await connection.command('hgetall', key)) as string[] | Record<string, string>;
  const texts = Array.isArray(fields) ? fields : Object.entries(fields).flat();
  const isLock = texts.every((text, index) => (index % 2 === 0 ? OWNER : COUNT).test(text));
  return isLock ? 'a lock of holdfast or Redisson' : undefined;
}

const OWNER = /^.+:-?\d+$/s;
/** Also the marks of an owner that keeps (-1), has released (-2) or has exported (-3) its hold. */
const COUNT = /^(\d+|-[123])$/;
