// The accounts, as plain keys in Redis, and beside them a ledger that cannot go wrong: transfers only add to it, in the same transaction
// that writes the balances. Where balance and ledger differ, money was lost.

import { plainRedis, type PlainRedis } from '../../test/support/given-redis.js';

const ACCOUNTS = ['Anna', 'Ben', 'Clara', 'David'] as const;
const OPENING_CENTS = 1_000_00;
const LARGEST_TRANSFER_CENTS = 10_00;

/** The total of all accounts, whatever is transferred. */
export const TOTAL_CENTS = ACCOUNTS.length * OPENING_CENTS;

/** The write of a transfer, refused if a larger token has written. */
const GUARDED = `
local token, from, to, fromLedger, toLedger, count = unpack(KEYS)
local seen = tonumber(redis.call('GET', token) or '0')
if seen > tonumber(ARGV[1]) then return false end
redis.call('MSET', token, ARGV[1], from, ARGV[2], to, ARGV[3])
redis.call('DECRBY', fromLedger, ARGV[4])
redis.call('INCRBY', toLedger, ARGV[4])
return redis.call('INCR', count)`;

export interface Account {
  readonly name: string;
  readonly balanceCents: number;
  /** The balance according to the ledger. */
  readonly rightCents: number;
}

export class Bank {
  readonly #redis: PlainRedis;
  readonly #prefix: string;

  constructor(url: string, prefix: string) {
    this.#redis = plainRedis(url);
    this.#prefix = prefix;
  }

  /** Resets every account, and forgets all tokens. */
  async open(): Promise<void> {
    const entries = ACCOUNTS.flatMap((name) => [
      [this.#balance(name), OPENING_CENTS],
      [this.#ledger(name), OPENING_CENTS],
    ]);
    await this.#redis.send('MSET', ...entries.flat());
    await this.#redis.send('DEL', this.#transferCount, this.#token);
  }

  /**
   * Moves some money between two accounts the plain way: read, think, write. Other workers can interfere during `think`. Returns the number
   * of this transfer among all; undefined: it was refused, since a larger token had written. Without a token no write is refused.
   */
  async transfer(think: () => Promise<void>, token?: string): Promise<number | undefined> {
    const [from, to] = twoOf(ACCOUNTS);
    const cents = 1 + Math.floor(Math.random() * LARGEST_TRANSFER_CENTS);

    const balances = await this.#get(this.#balance(from), this.#balance(to));
    await think();
    const [fromCents, toCents] = [Number(balances[0]) - cents, Number(balances[1]) + cents];
    if (token !== undefined) {
      const keys = [this.#token, this.#balance(from), this.#balance(to)];
      keys.push(this.#ledger(from), this.#ledger(to), this.#transferCount);
      const args = [token, fromCents, toCents, cents];
      const reply = await this.#redis.send('EVAL', GUARDED, keys.length, ...keys, ...args);
      return (reply as number | null) ?? undefined;
    }
    const replies = await this.#redis.transaction(
      ['MSET', this.#balance(from), fromCents, this.#balance(to), toCents],
      ['DECRBY', this.#ledger(from), cents],
      ['INCRBY', this.#ledger(to), cents],
      ['INCR', this.#transferCount],
    );
    return replies.at(-1) as number;
  }

  /**
   * Moves some money in two steps: in between it has left one account and not yet reached the other. `think` runs before the first step,
   * `linger` between the two. Returns the number of this transfer among all.
   */
  async transferInSteps(think: () => Promise<void>, linger: () => Promise<void>): Promise<number> {
    const [from, to] = twoOf(ACCOUNTS);
    const cents = 1 + Math.floor(Math.random() * LARGEST_TRANSFER_CENTS);

    const balances = await this.#get(this.#balance(from), this.#balance(to));
    await think();
    const [fromCents, toCents] = [Number(balances[0]) - cents, Number(balances[1]) + cents];
    await this.#redis.transaction(
      ['SET', this.#balance(from), fromCents],
      ['DECRBY', this.#ledger(from), cents],
    );
    await linger();
    const replies = await this.#redis.transaction(
      ['SET', this.#balance(to), toCents],
      ['INCRBY', this.#ledger(to), cents],
      ['INCR', this.#transferCount],
    );
    return replies.at(-1) as number;
  }

  /** Adds up all balances, in cents, one after the other; `linger` runs before each. */
  async sum(linger: () => Promise<void>): Promise<number> {
    let sumCents = 0;
    for (const name of ACCOUNTS) {
      await linger();
      const [balance] = await this.#get(this.#balance(name));
      sumCents += Number(balance);
    }
    return sumCents;
  }

  /** The largest token that has written. */
  async largestToken(): Promise<string | undefined> {
    const [token] = await this.#get(this.#token);
    return token ?? undefined;
  }

  async accounts(): Promise<Account[]> {
    const keys = ACCOUNTS.flatMap((name) => [this.#balance(name), this.#ledger(name)]);
    const values = await this.#get(...keys);
    return ACCOUNTS.map((name, index) => ({
      name,
      balanceCents: Number(values[2 * index]),
      rightCents: Number(values[2 * index + 1]),
    }));
  }

  /** Removes all its keys from Redis. */
  async clear(): Promise<void> {
    const keys = ACCOUNTS.flatMap((name) => [this.#balance(name), this.#ledger(name)]);
    const ours = [this.#transferCount, this.#token, this.#lastToken];
    await this.#redis.send('DEL', ...keys, ...ours);
  }

  disconnect(): void {
    this.#redis.disconnect();
  }

  async #get(...keys: string[]): Promise<(string | null)[]> {
    return (await this.#redis.send('MGET', ...keys)) as (string | null)[];
  }

  #balance(name: string): string {
    return `${this.#prefix}balance:${name}`;
  }

  #ledger(name: string): string {
    return `${this.#prefix}ledger:${name}`;
  }

  get #transferCount(): string {
    return `${this.#prefix}transfers`;
  }

  get #token(): string {
    return `${this.#prefix}token`;
  }

  /** The counter of this bank's fenced lock, which lasts for seven days. */
  get #lastToken(): string {
    return `redisson_lock_token:{${this.#prefix}bank}`;
  }
}

/** The sum of the differences between balances and ledger, in cents. */
export function lostCents(accounts: readonly Account[]): number {
  return accounts.reduce(
    (sum, { balanceCents, rightCents }) => sum + Math.abs(balanceCents - rightCents),
    0,
  );
}

function twoOf<T>(items: readonly T[]): [T, T] {
  const first = Math.floor(Math.random() * items.length);
  const second = (first + 1 + Math.floor(Math.random() * (items.length - 1))) % items.length;
  return [items[first]!, items[second]!];
}
