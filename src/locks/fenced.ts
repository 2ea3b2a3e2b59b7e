// A fenced lock, on one Redis or on a quorum of them: a lock of one name that gives each grant a token.

import { explainWrongCalls, KINDS } from '../core/wrong-calls.js';
import type { FencedHold, FencedLock, Hold } from '../api/lock.js';
import {
  type AcquireOptions,
  invalid,
  isWholeNumber,
  type LockOptions,
  parseBoolean,
  parseOptions,
} from '../api/options.js';
import type { KeyInTheWay, LockBackend } from '../core/protocol.js';
import type { Session } from '../core/session.js';
import { SingleLock } from './single-lock.js';
import type { ExpectedKey } from '../core/retry.js';
import type { RedisClient } from '../redis/client.js';
import { replyError } from '../redis/failure.js';
import type { LockKeys } from '../redis/keys.js';
import { scripts } from '../redis/scripts.generated.js';
import type { TimeLimit } from '../runtime/clock.js';
import type { Fencing } from './gather.js';

type Tokens = Pick<FencedLock, 'getToken' | 'lockAndGetToken' | 'tryLockAndGetToken'>;

interface TokenGivingBackend extends LockBackend {
  readonly counter?: Pick<TokenCounter, 'last'> | undefined;
}

class FencedSingleLock extends SingleLock<TokenGivingBackend> implements Tokens {
  static {
    explainWrongCalls(FencedSingleLock, KINDS.lock);
  }

  async getToken(): Promise<bigint | undefined> {
    const { session, backend } = this.parts;
    return await session.ask(backend, async () => {
      const token = await backend.counter?.last();
      if (token === undefined) await backend.remainTimeToLive(); // throws if the key holds something else
      return token;
    });
  }

  lockAndGetToken(lease?: number | LockOptions): Promise<bigint> {
    return this.marking(() => this.lockHold('lockAndGetToken()', lease), tokenOf);
  }

  tryLockAndGetToken(wait?: number | AcquireOptions, lease?: number): Promise<bigint | undefined> {
    return this.marking(
      () => this.tryLockHold('tryLockAndGetToken()', wait, lease),
      (hold) => hold && tokenOf(hold),
    );
  }
}

/** The hold's token. Every hold of a fenced lock has one: its grant has a token, or the acquisition was refused. */
function tokenOf(hold: Hold): bigint {
  return (hold as FencedHold).token;
}

/** Every hold that such a lock returns is a {@link FencedHold}, though the types of {@link SingleLock} do not show it. */
export function fencedLockOver(session: Session, backend: TokenGivingBackend): FencedLock {
  return new FencedSingleLock(session, backend) as FencedLock;
}

// Parses the options of `getFencedLock()`.

const DAY_MS = 86_400_000;
const DEFAULT_TOKEN_TTL_MS = 7 * DAY_MS;

/** Returns whether a fenced lock is fair, and for how long its last token is remembered, in milliseconds; 0: for ever. */
export function parseFencedLock(
  lockName: string,
  options: unknown,
): { readonly isFair: boolean; readonly tokenTtlMs: number } {
  const what = 'the options of getFencedLock()';
  const { fair, tokenTtl } = parseOptions(what, options, ['fair', 'tokenTtl'], lockName);
  return {
    isFair: fair === undefined ? false : parseBoolean(fair, 'fair', lockName),
    tokenTtlMs: tokenTtl === undefined ? DEFAULT_TOKEN_TTL_MS : parseTokenTtl(tokenTtl, lockName),
  };
}

function parseTokenTtl(tokenTtl: unknown, lockName: string): number {
  if (tokenTtl === Infinity) return 0;
  if (isWholeNumber(tokenTtl, 1)) return tokenTtl;
  const right = 'a whole number of milliseconds of at least 1, or Infinity';
  throw invalid('tokenTtl', tokenTtl, right, lockName);
}

// The last fencing token of one lock, as stored on the server. The scripts that grant the lock increase it.

const EXPECTED = 'the last fencing token';

/** The largest token that is given out. Scripts count exactly up to 2^53; no clock leads to a token near that before the year 2255. */
const LARGEST_TOKEN: bigint = 2n ** 53n - 2n ** 40n;

/** Makes a lock a fenced one: each grant of the lock increases the counter. */
export class TokenCounter implements Fencing {
  readonly keys: readonly [string];
  readonly args: readonly [number];
  readonly #connection: RedisClient;

  /** `tokenTtlMs`: how long the last token is remembered; 0: for ever. */
  constructor(connection: RedisClient, keys: LockKeys, tokenTtlMs: number) {
    this.#connection = connection;
    this.keys = [keys.counter(connection.isCluster)];
    this.args = [tokenTtlMs];
  }

  /** The last token; undefined: none was given, or it has expired. */
  async last(): Promise<bigint | undefined> {
    const last = await this.#read();
    if (last !== null && !isNumber(last))
      throw replyError(`KEYCONFLICT ${this.key} is not ${EXPECTED}`);
    return last === null ? undefined : BigInt(last);
  }

  /**
   * Stores `token` and returns undefined if it is larger than the last one; otherwise changes nothing and returns the last one. With
   * `replicas`, a token counts only if they have acknowledged it, since a replica that takes over must know it.
   */
  raise(token: bigint, limit?: TimeLimit): Promise<bigint | undefined> {
    const read = (reply: unknown): bigint | undefined =>
      reply === 1 ? undefined : BigInt(reply as string);
    const isRaised = (last: bigint | undefined): boolean => last === undefined;
    const args = [String(token), ...this.args];
    return this.#connection.runReplicated(
      scripts.raiseToken,
      this.keys,
      args,
      read,
      isRaised,
      limit,
    );
  }

  get expectedKey(): ExpectedKey {
    return { key: this.key, type: 'string', expected: EXPECTED };
  }

  /** Reports a string at the counter's key that is not a token. (A value of another type is found by its type.) */
  async inTheWay(): Promise<KeyInTheWay | undefined> {
    const last = await this.#read().catch(() => null);
    const isToken = last === null || (isNumber(last) && BigInt(last) < LARGEST_TOKEN);
    return isToken ? undefined : { key: this.key, expected: EXPECTED, type: 'string' };
  }

  get key(): string {
    return this.keys[0];
  }

  async #read(): Promise<string | null> {
    return (await this.#connection.command('get', this.key)) as string | null;
  }
}

function isNumber(text: string): boolean {
  return /^\d+$/.test(text);
}
