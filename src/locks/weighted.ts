// A lock of several permits on one Redis, for one who wants so many of them: what its scripts are sent and what they answer.

import type { HoldfastError } from '../api/errors.js';
import {
  type AcquirableLock,
  type Granted,
  isAcquired,
  type KeepReply,
  type KeyPlace,
  type LockRequest,
  type Renewer,
  type Waiter,
  type Watched,
} from '../core/protocol.js';
import { type KeyInTheWay, keyOfAnotherType } from '../core/retry.js';
import type { Server } from '../core/server.js';
import { hashTag, LockKeys } from '../redis/keys.js';
import { scripts } from '../redis/scripts.generated.js';
import type { TimeLimit } from '../runtime/clock.js';
import { SILENCE, type Subscription } from '../waiting/channels.js';
import { FairPlace } from '../queue/place.js';
import {
  type FairLine,
  Grantees,
  type JoinReply,
  type JoinRequest,
  type LinedLock,
  PlaceRenewer,
  type PlaceScript,
  ServerLine,
} from '../queue/queue.js';
import type { RedisClient } from '../redis/client.js';
import { Lines } from '../waiting/line.js';
import { sendRenewal } from '../core/watchdog.js';

/** How long a capacity that was set is kept after somebody last needed it. */
export const PERMITS_TTL_MS: number = 30 * 86_400_000;

/** As the target weight of an owner: it keeps the weight that it has. */
const AS_IT_IS = -1;

/** What a weighted lock is, and how much of it is wanted. */
interface WeightedTerms {
  readonly name: string;
  /** What it is, in words: "a semaphore". */
  readonly expected: string;
  /** How many permits there are, as far as this client declares it. */
  readonly capacity: number;
  /** How many of them an owner is to have. */
  readonly weight: number;
  /** Makes the error for what the server refused: what was declared, or how much was asked for. */
  readonly refused: (refusal: Refusal) => HoldfastError;
}

export class WeightedBackend implements AcquirableLock, LinedLock {
  readonly name: string;
  readonly id: string;
  readonly isShared: boolean = true;
  readonly isReentrant: boolean = false;
  readonly isFenced = false;
  readonly weight: number;
  readonly newOwnerId: () => string;
  protected readonly server: Server;
  protected readonly keys: LockKeys;
  readonly #terms: WeightedTerms;
  readonly #line: ServerLine;

  constructor(server: Server, newOwnerId: () => string, terms: WeightedTerms) {
    this.name = terms.name;
    this.weight = terms.weight;
    this.newOwnerId = newOwnerId;
    this.server = server;
    this.#terms = terms;
    this.keys = new LockKeys(server.keyPrefix + terms.name);
    this.id = `${server.listensAt} weighted ${this.keys.lock}`;
    this.#line = new ServerLine(server, this.keys, this, () => this.#services);
  }

  get keyPlaces(): readonly KeyPlace[] {
    return [{ key: this.keys.lock, connection: this.server.connection }];
  }

  waiter(newOwnerId: () => string, request: LockRequest): Waiter {
    return new FairPlace(this.#line, this.keys, newOwnerId(), request);
  }

  async join(request: JoinRequest, limit?: TimeLimit): Promise<JoinReply> {
    const { ownerId, leaseMs, mayWait, isFixed, isListening, nonce, ticket } = request;
    const { lock, leases, line, places, permits } = this.keys;
    const placeLeaseMs = mayWait ? this.#line.placeLeaseMs : 0;
    const place = [nonce, ticket, Number(isFixed), Number(isListening), this.server.listensAt];
    const reply = await this.server.connection.runReplicated(
      scripts.weightedJoin,
      [lock, leases, line, places, permits],
      [ownerId, this.weight, this.#terms.capacity, leaseMs, placeLeaseMs, ...place, PERMITS_TTL_MS],
      readWeightedJoin,
      (joined) => 'outcome' in joined && isAcquired(joined),
      limit,
    );
    if ('outcome' in reply) return reply;
    throw this.#terms.refused(reply);
  }

  release(ownerId: string): Promise<boolean> {
    return this.#andHandOn(this.#handOver(ownerId, 0));
  }

  /** Sees to it that permits that nobody holds go to the first in line. Returns when to look again, as in `WeightedHandOver`. */
  async handOn(): Promise<number> {
    for (;;) {
      const { checkInMs } = await this.#handOver('', AS_IT_IS);
      if (checkInMs !== MORE_TO_LET_IN) return checkInMs;
    }
  }

  reenter(
    ownerId: string,
    _holdCount: number,
    leaseMs: number,
    limit?: TimeLimit,
  ): Promise<KeepReply> {
    return this.#keep(ownerId, AS_IT_IS, leaseMs, false, limit);
  }

  /** Has an owner keep no more than this weight, a target; what it gives up goes to those in line. */
  lower(ownerId: string, weight: number, limit?: TimeLimit): Promise<KeepReply> {
    return this.#keep(ownerId, weight, 0, false, limit);
  }

  confirm(ownerId: string, leaseMs: number): Promise<KeepReply> {
    return this.#keep(ownerId, AS_IT_IS, leaseMs, true);
  }

  /** Whether this owner holds permits: 1, or 0. */
  async holdCount(ownerId: string): Promise<number> {
    const weight = await this.server.connection.command('hget', this.keys.lock, ownerId);
    return Number(weight !== null);
  }

  /** Who holds permits, and who waits in line. */
  look(): Promise<WeightedView> {
    const { lock, leases, line, places, permits } = this.keys;
    const keys = [lock, leases, line, places, permits];
    const { connection } = this.server;
    return connection.run(scripts.weightedLook, keys, [this.#terms.capacity], readWeightedView);
  }

  forget(ownerId: string): void {
    this.#line.forget(ownerId);
  }

  watch(grant: Granted): void {
    this.server.watchdog.watch(grant, this.keys, this.#services.holds);
  }

  unwatch(grant: Granted): void {
    this.server.watchdog.unwatch(grant);
  }

  keyInTheWay(): Promise<KeyInTheWay | undefined> {
    const { lock, leases, line, places, permits } = this.keys;
    const { expected } = this.#terms;
    return keyOfAnotherType(this.server.connection, [
      { key: lock, type: 'hash', expected },
      { key: leases, type: 'zset', expected: `the leases of ${expected}` },
      { key: line, type: 'zset', expected: `the line for ${expected}` },
      { key: places, type: 'hash', expected: `the places in the line for ${expected}` },
      { key: permits, type: 'string', expected: `the capacity that was set of ${expected}` },
    ]);
  }

  /** Releases are told to those in line only. */
  subscribeToUnlocks(): Subscription {
    return SILENCE;
  }

  messagesIn(payload: string): readonly string[] {
    return messagesIn(payload);
  }

  get #services(): WeightedServices {
    return this.server.shared(WeightedServices);
  }

  async #keep(
    ownerId: string,
    target: number,
    leaseMs: number,
    isConfirmation: boolean,
    limit?: TimeLimit,
  ): Promise<KeepReply> {
    const asked = this.#handOver(ownerId, target, leaseMs, isConfirmation, limit);
    return (await this.#andHandOn(asked)) ? 'kept' : 'deleted';
  }

  /** Whether the owner was a holder. Whoever could not be let in by the same call is let in by another one, or at its next renewal. */
  async #andHandOn(asked: Promise<WeightedHandOver>): Promise<boolean> {
    const { isHeld, checkInMs } = await asked;
    if (checkInMs === MORE_TO_LET_IN) this.handOn().catch(() => undefined);
    return isHeld;
  }

  #handOver(
    ownerId: string,
    target: number,
    leaseMs = 0,
    isConfirmation = false,
    limit?: TimeLimit,
  ): Promise<WeightedHandOver> {
    const { lock, leases, line, places } = this.keys;
    const keys = [lock, leases, line, places];
    const args = [ownerId, target, leaseMs, Number(isConfirmation), ...this.#line.grantArgs];
    const { connection } = this.server;
    const read = (reply: unknown): WeightedHandOver =>
      this.#handedOver(readWeightedHandOver(reply));
    if (leaseMs === 0) return connection.run(scripts.weightedHandOver, keys, args, read, limit);
    const isEffect = ({ isHeld }: WeightedHandOver): boolean => isHeld;
    return connection.runReplicated(scripts.weightedHandOver, keys, args, read, isEffect, limit);
  }

  #handedOver(handOver: WeightedHandOver): WeightedHandOver {
    const { refused, reason, grants } = handOver;
    if (refused !== undefined) this.server.publishRefused(refused, reason);
    const line = this.#line.knownFairLine();
    for (const grant of grants) line?.offer(grant);
    return handOver;
  }
}

// What the scripts of a weighted lock answer.

/** Why permits can never be had as they were asked for: others declared another capacity, or it is less than what is wanted. */
export interface Refusal {
  readonly why: 'declared' | 'exceeded';
  readonly capacity: number;
}

function readWeightedJoin(reply: unknown): JoinReply | Refusal {
  if (reply === 1) return { outcome: 'acquired' };
  if (reply === 2) return { outcome: 'handed over' };
  const answer = reply as ['declared' | 'exceeded', number] | [string, number, string];
  if (answer.length === 2) return { why: answer[0], capacity: answer[1] };
  const [holder, holderTtlMs, ticket] = answer;
  return { outcome: 'held', holder, holderTtlMs, ticket };
}

/** As `checkInMs`: call again at once; so many were let in or dropped that others had to be left for another call. */
const MORE_TO_LET_IN = -3;

/** What a change of one owner's weight or lease came to. */
export interface WeightedHandOver {
  readonly isHeld: boolean;
  /** When somebody in line has to look again, in milliseconds; -1: nobody is left in line, -2: the same, and nobody was let in. */
  readonly checkInMs: number;
  /** Who was let in, `<nonce> <owner>` each; the messages may come later, or never. */
  readonly grants: readonly string[];
  /** A channel on which publishing was refused; `reason` says why. */
  readonly refused: string | undefined;
  readonly reason: string;
}

function readWeightedHandOver(reply: unknown): WeightedHandOver {
  const [held, checkInMs, grants, refused, reason = ''] = reply as [
    ...[number, number, string[], string?, string?],
  ];
  return { isHeld: held === 1, checkInMs, grants, refused, reason };
}

/** Who holds permits, or waits for them. */
interface Weighed {
  readonly ownerId: string;
  readonly weight: number;
}

/** Who holds permits of a weighted lock, and who waits for them. */
export interface WeightedView {
  readonly capacity: number;
  readonly holders: readonly (Weighed & { readonly endsInMs: number })[];
  readonly waiters: readonly Weighed[];
}

function readWeightedView(reply: unknown): WeightedView {
  const [capacity, holders, waiters] = reply as [number, (string | number)[], string[]];
  return {
    capacity,
    holders: inGroups(holders, 3).map(([ownerId, weight, endsInMs]) => ({
      ownerId: String(ownerId),
      weight: Number(weight),
      endsInMs: Number(endsInMs),
    })),
    waiters: inGroups(waiters, 2).map(([ownerId, weight]) => ({
      ownerId: String(ownerId),
      weight: Number(weight),
    })),
  };
}

function inGroups<T>(flat: readonly T[], size: number): T[][] {
  const groups: T[][] = [];
  for (let i = 0; i < flat.length; i += size) groups.push(flat.slice(i, i + size));
  return groups;
}

/** The messages in what was published for a client, a JSON array of strings; anybody who may publish may say anything. */
function messagesIn(payload: string): readonly string[] {
  try {
    const messages: unknown = JSON.parse(payload);
    return Array.isArray(messages) ? messages.filter((message) => typeof message === 'string') : [];
  } catch {
    return [];
  }
}

// What the weighted locks of one client share on one Redis: their lines, who may be let in, and how leases and places are renewed.

const WEIGHTED: PlaceScript = {
  kind: 'weighted place',
  script: scripts.weightedRenewPlaces,
  keysOf: ({ lock, leases, line, places }) => [lock, leases, line, places],
};

export class WeightedServices {
  readonly grantees: Grantees = new Grantees();
  readonly lines: Lines<FairLine> = new Lines<FairLine>();
  readonly renewer: PlaceRenewer;
  readonly holds: WeightedRenewer;

  constructor(connection: RedisClient) {
    this.renewer = new PlaceRenewer(connection, WEIGHTED);
    this.holds = new WeightedRenewer(connection);
  }
}

// How what a client holds of weighted locks on one Redis is renewed: many in one call.

export class WeightedRenewer implements Renewer<LockKeys> {
  readonly kind = 'weighted hold';
  readonly #connection: RedisClient;

  constructor(connection: RedisClient) {
    this.#connection = connection;
  }

  batchKey({ lock }: LockKeys): string {
    return this.#connection.isSlotted ? hashTag(lock) : '';
  }

  renew(
    batch: readonly Watched<LockKeys>[],
    leaseMs: number,
  ): Promise<readonly (KeepReply | undefined)[]> {
    const keys = batch.flatMap(({ target: { lock, leases, forcedOwners } }) => [
      lock,
      leases,
      forcedOwners,
    ]);
    const ownerIds = batch.map(({ lease }) => lease.ownerId);
    return sendRenewal(this.#connection, scripts.weightedRenew, keys, ownerIds, leaseMs);
  }
}
