// The last fencing token of one lock, as it stands on the server: the scripts that grant the lock count it up.

import type { KeyInTheWay } from '../../core/key-conflict.js';
import type { ExpectedKey } from '../../core/key-types.js';
import type { RedisClient } from '../../redis/client.js';
import { replyError } from '../../redis/failure.js';
import type { LockKeys } from '../../redis/keys.js';
import { scripts } from '../../redis/scripts.generated.js';
import type { TimeLimit } from '../../runtime/clock.js';
import type { Fencing } from '../reentrant/fencing.js';
import { LARGEST_TOKEN, type LastToken } from '../reentrant/voting.js';

const EXPECTED = 'the last fencing token';

export class TokenCounter implements Fencing, LastToken {
  readonly keys: readonly [string];
  readonly args: readonly [number];
  readonly #connection: RedisClient;

  /** `tokenTtlMs`: how long a token is remembered; 0: for ever. */
  constructor(connection: RedisClient, keys: LockKeys, tokenTtlMs: number) {
    this.#connection = connection;
    this.keys = [keys.counter(connection.isCluster)];
    this.args = [tokenTtlMs];
  }

  /** The last token; undefined: none was given, or it is forgotten. */
  async last(): Promise<bigint | undefined> {
    const last = await this.#read();
    if (last !== null && !isNumber(last))
      throw replyError(`KEYCONFLICT ${this.key} is not ${EXPECTED}`);
    return last === null ? undefined : BigInt(last);
  }

  /** A token counts only if replicas have acknowledged it, too: one that takes over as the master must know it. */
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

  /** A string at the counter's key that is no token, if there is one. (A value of another type is found by its type.) */
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
