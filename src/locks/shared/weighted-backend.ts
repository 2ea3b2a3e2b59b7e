// A lock of several permits on one Redis, for one who wants so many of them: what its scripts are sent and what they answer.

import type { HoldfastError } from '../../api/holdfast-error.js';
import type { AcquirableLock, KeyPlace } from '../../core/backend.js';
import type { Granted } from '../../core/granted-lock.js';
import type { KeyInTheWay } from '../../core/key-conflict.js';
import { keyOfAnotherType } from '../../core/key-types.js';
import { isAcquired, type KeepReply } from '../../core/replies.js';
import type { LockRequest } from '../../core/request.js';
import type { Server } from '../../core/server.js';
import type { Waiter } from '../../core/waiter.js';
import { LockKeys } from '../../redis/keys.js';
import { scripts } from '../../redis/scripts.generated.js';
import type { TimeLimit } from '../../runtime/clock.js';
import { SILENCE, type Subscription } from '../../waiting/channels.js';
import { FairPlace } from '../fair/fair-place.js';
import type { JoinReply, JoinRequest } from '../fair/place-lock.js';
import { ServerLine, type LinedLock } from '../fair/server-line.js';
import {
  messagesIn,
  MORE_TO_LET_IN,
  readWeightedHandOver,
  readWeightedJoin,
  readWeightedView,
  type Refusal,
  type WeightedHandOver,
  type WeightedView,
} from './weighted-replies.js';
import { WeightedServices } from './weighted-services.js';

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
