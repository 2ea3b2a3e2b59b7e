// Whether leases are renewed, of locks and of places in line; and a server that has no memory left, which refuses that.
import type { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import type { Holdfast } from '../../src/index.js';
import { eventsOf, rejectionOf, type EventOf } from './clients.js';
import { eventually } from './time.js';

/** At three renewals a lease, over two leases. */
const RENEWALS = 7;

/** What a client renews and loses from now on. */
export class KeptLeases {
  readonly lost: readonly EventOf<'lost'>[];
  readonly #renewed: readonly EventOf<'renewed'>[];

  constructor(client: Holdfast) {
    this.lost = eventsOf(client, 'lost');
    this.#renewed = eventsOf(client, 'renewed');
  }

  /** Resolves when those of these locks were renewed over two leases; fails if one of them is lost. */
  async areRenewed(names: readonly string[]): Promise<void> {
    const isRenewed = (name: string): boolean =>
      this.#renewed.filter(({ lockName }) => lockName === name).length >= RENEWALS;
    const isLost = (): boolean => this.lost.some(({ lockName }) => names.includes(lockName));
    await eventually(() => {
      expect(isLost() || names.every(isRenewed)).toBe(true);
    }, 25_000);
    expect(isLost()).toBe(false);
  }
}

/** Resolves when somebody, the only one, stands in line. */
export async function standsInLine(redis: Redis, name: string): Promise<void> {
  await eventually(async () => {
    expect(await redis.hlen(`holdfast_places:{${name}}`)).toBe(1);
  });
}

/** Resolves when the only place in line was renewed so often; fails if it is gone before. */
export async function isKeptInLine(
  redis: Redis,
  name: string,
  renewals: number = RENEWALS,
): Promise<void> {
  const nonces = new Set<string>();
  while (nonces.size < renewals) {
    const [place = 'gone'] = await redis.hvals(`holdfast_places:{${name}}`);
    const [, nonce] = /^(?:w\d+ )?(\d+) /.exec(place) ?? [];
    expect(nonce, `${name}: ${place}`).toBeDefined();
    nonces.add(nonce!);
    await sleep(20);
  }
}

// A server whose memory is full, and that evicts nothing.

/** What a server says that refuses what takes memory. */
export const FULL = /OOM command not allowed/;

export async function fill(redis: Redis): Promise<void> {
  await redis.config('SET', 'maxmemory-policy', 'noeviction');
  await redis.config('SET', 'maxmemory', '1mb');
  await redis.config('SET', 'maxmemory', '1');
  expect(await rejectionOf(redis.set('more', 'x'))).toMatchObject({
    message: expect.stringMatching(/^OOM/) as string,
  });
}

export async function empty(redis: Redis): Promise<void> {
  await redis.config('SET', 'maxmemory', '0');
}
