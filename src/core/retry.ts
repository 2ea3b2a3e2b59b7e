// Asks Redis until it answers, or the wait is over. Nothing below repeats anything by itself; `retry` does, and tells `send` so, since a
// repeat may find the work already done.

import { ClosedError, HoldfastError, KeyConflictError, UnavailableError } from '../api/errors.js';
import { describe, failureKind, NodeGoneError } from '../redis/failure.js';
import type { RedisClient } from '../redis/client.js';
import type { Surroundings } from '../redis/session.js';
import { type BackOff, backOffMs, PROCESS_RANDOM } from '../runtime/clock.js';
import { WaitEnded, WaitLimit } from '../runtime/wait-limit.js';

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
      if (kind === 'conflict') throw await keyConflict(lock, waitLimit, error);
      const isOver = error instanceof NodeGoneError && waitLimit.isSingleAttempt && !isRepeat;
      if (kind === 'denied' || kind === 'defect' || isOver) throw refused(lock.name, error);
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

function refused(lockName: string, cause: unknown): HoldfastError {
  if (cause instanceof ClosedError)
    return new ClosedError(`lock "${lockName}": ${cause.message}`, { lockName });
  const why = cause instanceof Error ? describe(cause) : String(cause);
  return new UnavailableError(`lock "${lockName}": ${why}`, { lockName, cause });
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

/** How long the look may take: the conflict itself is known. */
const LOOK_LIMIT_MS = 1_000;

/** What stands where a key of a lock should be. */
export interface KeyInTheWay {
  readonly key: string;
  /** What should be there, in words: "a lock". */
  readonly expected: string;
  /** As the server's `TYPE` says it. */
  readonly type: string;
  /** What the key may be, or whose, in words. */
  readonly hint?: string | undefined;
  /** The master that has the key, as `host:port`, where there are several. */
  readonly node?: string | undefined;
}

/** A lock that can say what is in its way. */
export interface Conflicting {
  readonly name: string;
  keyInTheWay?(): Promise<KeyInTheWay | undefined>;
}

/** The error for a command that met a key of another kind. Looks, within the caller's limit, which one it is. */
async function keyConflict(
  lock: Conflicting,
  waitLimit: WaitLimit,
  cause: unknown,
): Promise<KeyConflictError> {
  const found = lock.keyInTheWay && (await looked(lock.keyInTheWay(), waitLimit));
  const lockName = lock.name;
  if (!found) {
    const message = `lock "${lockName}": its key, or one beside it, holds something that is not a lock; choose another name or keyPrefix`;
    return new KeyConflictError(message, { lockName, cause });
  }
  const { key, type, node, expected } = found;
  const where = node === undefined ? '' : ` on ${node}`;
  const hint = found.hint === undefined ? '' : ` (${found.hint}, perhaps)`;
  const message = `lock "${lockName}": the key "${key}"${where} is in the way: it is ${inWords(type)}${hint}, and not ${expected}; choose another name or keyPrefix`;
  return new KeyConflictError(message, { lockName, cause, key, keyType: type });
}

/** What the look found; undefined as well when it failed, as for a user who may not call TYPE, or took too long. */
async function looked<T>(look: Promise<T>, waitLimit: WaitLimit): Promise<T | undefined> {
  const limit = new WaitLimit({ clock: waitLimit.clock, limitMs: LOOK_LIMIT_MS });
  try {
    return await waitLimit.within(limit.within(look));
  } catch {
    return undefined;
  } finally {
    limit.dispose();
  }
}

function inWords(type: string): string {
  if (type === 'zset') return 'a sorted set';
  const isOwn = ['string', 'list', 'set', 'hash', 'stream'].includes(type);
  return isOwn ? `a ${type}` : `of type ${type}`;
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
    if (found === type || found === 'none') continue;
    return { key, expected, type: found, hint: index === 0 ? HINTS[found] : undefined };
  }
  const [lock] = keys;
  return lock && types[0] === 'hash' ? await hashOfAnotherKind(connection, lock) : undefined;
}

/** The capacity by which a read-write lock is told from a semaphore. */
const READ_WRITE = String(2 ** 31);

/** Which library's lock a key under the bare name of a lock may be, by the type of the key. */
const HINTS: Readonly<Record<string, string>> = { string: 'redlock’s' };

async function hashOfAnotherKind(
  connection: RedisClient,
  { key, expected }: ExpectedKey,
): Promise<KeyInTheWay | undefined> {
  const [fieldCount, hasMode, capacity] = await Promise.all([
    connection.command('hlen', key),
    connection.command('hexists', key, 'mode'),
    connection.command('hget', key, 'capacity'),
  ]);
  if (fieldCount === 0) return undefined;
  const isLock = fieldCount === 1 && expected !== 'a lock';
  const hint =
    hasMode === 1
      ? 'Redisson’s read-write lock'
      : capacity !== null
        ? capacity === READ_WRITE
          ? 'a read-write lock'
          : 'a semaphore'
        : isLock
          ? 'a lock'
          : undefined;
  return { key, expected, type: 'hash', hint: hint === expected ? undefined : hint };
}
