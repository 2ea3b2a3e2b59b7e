// The accounts, as plain keys in Redis, and beside them a ledger that cannot go wrong: it is only ever added to,
// in the same transaction that writes the balances. Where balance and ledger differ, money went astray.

import { Redis } from 'ioredis';

const ACCOUNTS = ['Anna', 'Ben', 'Clara', 'David'] as const;
const OPENING_CENTS = 1_000_00;
const LARGEST_TRANSFER_CENTS = 10_00;

export interface Account {
  readonly name: string;
  readonly balanceCents: number;
  /** What the ledger says. */
  readonly rightCents: number;
}

export class Bank {
  readonly #redis: Redis;
  readonly #prefix: string;

  constructor(url: string, prefix: string) {
    // A server that is gone was ours, and will not come back.
    this.#redis = new Redis(url, { retryStrategy: () => null });
    this.#redis.on('error', () => undefined); // whoever waits for an answer learns it
    this.#prefix = prefix;
  }

  /** Every account back to the start. */
  async open(): Promise<void> {
    const entries = ACCOUNTS.flatMap((name) => [
      [this.#balance(name), OPENING_CENTS],
      [this.#ledger(name), OPENING_CENTS],
    ]);
    await this.#redis.mset(...entries.flat());
    await this.#redis.del(this.#transferCount);
  }

  /**
   * Moves some money between two accounts the plain way: read, think, write. `think` is where others get in between.
   * Returns the number of this transfer among all.
   */
  async transfer(think: () => Promise<void>): Promise<number> {
    const [from, to] = twoOf(ACCOUNTS);
    const cents = 1 + Math.floor(Math.random() * LARGEST_TRANSFER_CENTS);

    const balances = await this.#redis.mget(this.#balance(from), this.#balance(to));
    await think();
    const replies = await this.#redis
      .multi()
      .mset(
        this.#balance(from),
        Number(balances[0]) - cents,
        this.#balance(to),
        Number(balances[1]) + cents,
      )
      .decrby(this.#ledger(from), cents)
      .incrby(this.#ledger(to), cents)
      .incr(this.#transferCount)
      .exec();
    return replies!.at(-1)![1] as number;
  }

  async accounts(): Promise<Account[]> {
    const keys = ACCOUNTS.flatMap((name) => [this.#balance(name), this.#ledger(name)]);
    const values = await this.#redis.mget(...keys);
    return ACCOUNTS.map((name, index) => ({
      name,
      balanceCents: Number(values[2 * index]),
      rightCents: Number(values[2 * index + 1]),
    }));
  }

  /** Removes all that it left in Redis. */
  async clear(): Promise<void> {
    const keys = ACCOUNTS.flatMap((name) => [this.#balance(name), this.#ledger(name)]);
    await this.#redis.del(...keys, this.#transferCount);
  }

  disconnect(): void {
    // Once more would keep the process for as long as ioredis waits for the end of a connection: 2 s.
    if (this.#redis.status !== 'end') this.#redis.disconnect();
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
}

/** How many cents are not where the ledger says. */
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
