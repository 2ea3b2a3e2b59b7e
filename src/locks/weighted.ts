// A lock with several permits on one Redis, for one number of wanted permits: semaphores, and the two halves of read-write locks.

import type { HoldfastError } from '../api/errors.js';
import {
  type AcquirableLock,
  EXPORTED_COUNT,
  type Granted,
  type HandOverReply,
  isAcquired,
  type KeepReply,
  type KeyPlace,
  type LockRequest,
  type Transfer,
  type TransferTerms,
  type Waiter,
  type KeyInTheWay,
} from '../core/protocol.js';
import { keyOfAnotherType } from '../core/retry.js';
import type { Server } from '../core/server.js';
import type { RenewerRow } from '../core/watchdog.js';
import { Place } from '../queue/place.js';
import {
  grantArgs,
  grantNext,
  handedOver,
  type HandOver,
  type JoinReply,
  placeRenewals,
  type QueuedLock,
  type QueuedPlace,
  queueOf,
  readJoin,
  whetherHeld,
} from '../queue/queue.js';
import { LockKeys } from '../redis/keys.js';
import type { Argument } from '../redis/port.js';
import { scripts } from '../redis/scripts.generated.js';
import type { TimeLimit } from '../runtime/clock.js';

/** How long a capacity set by `setPermits()` is kept after its last use, in milliseconds. */
export const PERMITS_TTL_MS: number = 30 * 86_400_000;

/** As the target weight of an owner: its weight stays as it is. */
export const AS_IT_IS = -1;

const PLACES = placeRenewals(
  'weighted place',
  scripts.weightedRenewPlaces,
  ({ lock, leases, line, places }: LockKeys): readonly string[] => [lock, leases, line, places],
);

const HOLDS: RenewerRow<LockKeys> = {
  kind: 'weighted hold',
  isHold: true,
  script: scripts.weightedRenew,
  keysOf: ({ lock, leases, forcedOwners }) => [lock, leases, forcedOwners],
};

/**
 * When a command that sets a lease makes it shorter; `always`: the owner gives the lock up, and no lease becomes longer; `exported`: never, and
 * the owner waits to be adopted.
 */
const SHORTENS = { never: 0, 'if handed over': 1, always: 2, exported: 3 } as const;

/** The terms of a weighted lock: its kind and capacity, and the wanted weight. */
interface WeightedTerms {
  readonly name: string;
  /** Which kinds are one lock: both halves of a read-write lock, to enter one inside the other, but never a semaphore. */
  readonly family: 'read-write' | 'semaphore';
  /** The kind, in words: "a semaphore". */
  readonly expected: string;
  /** The total number of permits that this client declares. */
  readonly capacity: number;
  /** How many of them an owner wants. */
  readonly weight: number;
}

/** Why a request can never be granted: other clients have declared another capacity, or the request exceeds it. */
export interface Refusal {
  readonly why: 'declared' | 'exceeded';
  readonly capacity: number;
}

/** An owner that holds permits, or waits for them, and how many. */
interface Weighed {
  readonly ownerId: string;
  readonly weight: number;
}

/** The holders of a weighted lock's permits, and the waiters. */
export interface WeightedView {
  readonly capacity: number;
  readonly holders: readonly Weighed[];
  readonly waiters: readonly Weighed[];
}

export abstract class WeightedBackend implements AcquirableLock, QueuedLock {
  abstract readonly kind: string;
  readonly name: string;
  readonly id: string;
  readonly isShared: boolean = true;
  readonly isReentrant: boolean = false;
  readonly isFenced = false;
  readonly weight: number;
  readonly newOwnerId: () => string;
  readonly server: Server;
  readonly keys: LockKeys;
  readonly placeRenewals: RenewerRow<QueuedPlace> = PLACES;
  protected readonly terms: WeightedTerms;

  constructor(server: Server, newOwnerId: () => string, terms: WeightedTerms) {
    this.name = terms.name;
    this.weight = terms.weight;
    this.newOwnerId = newOwnerId;
    this.server = server;
    this.terms = terms;
    this.keys = new LockKeys(server.keyPrefix + terms.name);
    this.id = `${terms.family} ${server.channelSuffix} ${this.keys.lock}`;
  }

  /** The error for a refusal by the server. */
  protected abstract refused(refusal: Refusal): HoldfastError;

  get keyPlaces(): readonly KeyPlace[] {
    return [{ key: this.keys.lock, connection: this.server.connection }];
  }

  get transfer(): Transfer {
    return this.transferOf();
  }

  protected transferOf(terms: Partial<TransferTerms> = {}): Transfer {
    const { keyPrefix, connection } = this.server;
    const { lock, leases, forcedOwners } = this.keys;
    const keys = [lock, leases, forcedOwners];
    return {
      terms: { keyPrefix, ...terms },
      at: { key: lock, connection },
      adopt: (exportedId, ownerId, leaseMs, limit) => {
        const args = [exportedId, ownerId, leaseMs];
        const read = (reply: unknown): HandOverReply => ({
          outcome: reply as HandOverReply['outcome'],
        });
        const isDone = ({ outcome }: HandOverReply): boolean => outcome === 'done';
        return connection.runReplicated(scripts.weightedAdopt, keys, args, read, isDone, limit);
      },
    };
  }

  waiter(newOwnerId: () => string, request: LockRequest): Waiter {
    return new Place(this, newOwnerId, request);
  }

  async join(
    ownerId: string,
    leaseMs: number,
    place: readonly Argument[],
    limit?: TimeLimit,
  ): Promise<JoinReply> {
    const { lock, leases, line, places, permits } = this.keys;
    const reply = await this.server.connection.runReplicated(
      scripts.weightedJoin,
      [lock, leases, line, places, permits],
      [ownerId, this.weight, this.terms.capacity, leaseMs, ...place, PERMITS_TTL_MS],
      readWeightedJoin,
      (joined) => 'outcome' in joined && isAcquired(joined),
      limit,
    );
    if ('why' in reply) throw this.refused(reply);
    return reply;
  }

  handOver(ownerId: string): Promise<HandOver> {
    return this.#change(ownerId, ownerId === '' ? AS_IT_IS : 0);
  }

  release(ownerId: string): Promise<boolean> {
    return whetherHeld(this, this.handOver(ownerId));
  }

  /** Frees what an owner has, for somebody else: also if it has released it, and it stays taken. Leaves the owner a note for so long. */
  async free(ownerId: string, forcedNoteTtlMs: number): Promise<boolean> {
    const forced = await this.force(1, Number.MAX_SAFE_INTEGER, forcedNoteTtlMs, ownerId);
    return forced.length > 0;
  }

  /** Puts out the owners that have so many permits, or only one of them, and lets in the next in line. */
  protected async force(...args: readonly Argument[]): Promise<readonly string[]> {
    const { lock, leases, line, forcedOwners } = this.keys;
    const forced = await this.server.connection.run(
      scripts.weightedForce,
      [lock, leases, line, forcedOwners],
      args,
      (reply) => reply as string[],
    );
    // Not before the answer: a server that does not know the script is sent it a second time, after other commands. If this fails, the next
    // renewal of a place grants the lock to the next in the queue.
    grantNext(this).catch(() => undefined);
    return forced;
  }

  /** The server keeps no hold count, but is told of an export. */
  reenter(ownerId: string, count: number, leaseMs: number, limit?: TimeLimit): Promise<KeepReply> {
    return this.keep(ownerId, AS_IT_IS, leaseMs, shortensFor(count), limit);
  }

  confirm(ownerId: string, leaseMs: number): Promise<KeepReply> {
    return this.keep(ownerId, AS_IT_IS, leaseMs, 'if handed over');
  }

  async releaseIn(ownerId: string, inMs: number): Promise<boolean> {
    return await whetherHeld(this, this.#change(ownerId, AS_IT_IS, inMs, 'always'));
  }

  /** Whether this owner holds permits: 1, or 0. */
  async holdCount(ownerId: string): Promise<number> {
    const weight = await this.server.connection.command('hget', this.keys.lock, ownerId);
    return Number(weight !== null);
  }

  look(): Promise<WeightedView> {
    const { lock, leases, line, places, permits } = this.keys;
    const keys = [lock, leases, line, places, permits];
    return this.server.connection.run(
      scripts.weightedLook,
      keys,
      [this.terms.capacity],
      (reply) => {
        type Reply = [number, (string | number)[], (string | number)[]];
        const [capacity, holders, waiters] = reply as Reply;
        return { capacity, holders: weighedIn(holders, 3), waiters: weighedIn(waiters, 2) };
      },
    );
  }

  forget(ownerId: string): void {
    queueOf(this).forget(ownerId);
  }

  watch(grant: Granted): void {
    this.server.watchdog.watch(grant, this.keys, this.server.renewer(HOLDS));
  }

  unwatch(grant: Granted): void {
    this.server.watchdog.unwatch(grant);
  }

  keyInTheWay(): Promise<KeyInTheWay | undefined> {
    const { lock, leases, line, places, permits } = this.keys;
    const { expected } = this.terms;
    return keyOfAnotherType(this.server.connection, [
      { key: lock, type: 'hash', expected },
      { key: leases, type: 'zset', expected: `the leases of ${expected}` },
      { key: line, type: 'zset', expected: `the line for ${expected}` },
      { key: places, type: 'hash', expected: `the places in the line for ${expected}` },
      { key: permits, type: 'string', expected: `the capacity that was set of ${expected}` },
    ]);
  }

  /** Lowers an owner's permits to at most `weight`, and sets its lease to `leaseMs` from now (0: its lease stays as it is). */
  protected async keep(
    ownerId: string,
    weight: number,
    leaseMs: number,
    shortens: keyof typeof SHORTENS,
    limit?: TimeLimit,
  ): Promise<KeepReply> {
    const asked = this.#change(ownerId, weight, leaseMs, shortens, limit);
    if (await whetherHeld(this, asked)) return 'kept';
    try {
      // Whoever forced it out left a note.
      const removed = await this.server.connection.command('hdel', this.keys.forcedOwners, ownerId);
      return removed === 1 ? 'forced' : 'deleted';
    } catch {
      return 'deleted'; // the owner is known to be gone, even if the note cannot be read
    }
  }

  #change(
    ownerId: string,
    weight: number,
    leaseMs = 0,
    shortens: keyof typeof SHORTENS = 'never',
    limit?: TimeLimit,
  ): Promise<HandOver> {
    const { lock, leases, line, places } = this.keys;
    const keys = [lock, leases, line, places];
    const args = [ownerId, weight, leaseMs, SHORTENS[shortens], ...grantArgs(this)];
    const { connection } = this.server;
    const read = (reply: unknown): HandOver => {
      const [held, lookInMs, grants, ...refusal] = reply as [number, number, string[], ...string[]];
      return handedOver(this, held, lookInMs, grants, refusal);
    };
    if (leaseMs === 0 || shortens === 'always')
      return connection.run(scripts.weightedHandOver, keys, args, read, limit);
    const isEffect = ({ isHeld }: HandOver): boolean => isHeld;
    return connection.runReplicated(scripts.weightedHandOver, keys, args, read, isEffect, limit);
  }
}

/** For a command that sets this hold count. */
export function shortensFor(holdCount: number): 'never' | 'exported' {
  return holdCount === EXPORTED_COUNT ? 'exported' : 'never';
}

function readWeightedJoin(reply: unknown): JoinReply | Refusal {
  if (!Array.isArray(reply) || reply.length !== 2) return readJoin(reply);
  const [why, capacity] = reply as [Refusal['why'], number];
  return { why, capacity };
}

/** Owners and their weights, from a flat list in which each has `size` entries. */
function weighedIn(flat: readonly (string | number)[], size: number): Weighed[] {
  return flat.flatMap((ownerId, at) =>
    at % size === 0 ? [{ ownerId: String(ownerId), weight: Number(flat[at + 1]) }] : [],
  );
}
