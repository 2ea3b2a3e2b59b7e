// The fair lock on one Redis: first come, first served. It is the reentrant lock plus a queue.

import { explainWrongCalls, KINDS } from '../core/wrong-calls.js';
import type { FairLock } from '../api/lock.js';
import {
  type Granted,
  isAcquired,
  type KeepReply,
  type KeyPlace,
  type LockBackend,
  type LockRequest,
  type Transfer,
  type Waiter,
  type KeepableGrant,
  type KeyInTheWay,
} from '../core/protocol.js';
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
import type { LockKeys } from '../redis/keys.js';
import type { Argument } from '../redis/port.js';
import { scripts } from '../redis/scripts.generated.js';
import type { TimeLimit } from '../runtime/clock.js';
import type { ChannelListener, Subscription } from '../waiting/channels.js';
import type { TokenCounter } from './fenced.js';
import { NO_FENCING } from './gather.js';
import type { ReentrantLockBackend } from './plain.js';
import { SingleLock } from './single-lock.js';

const PLACES = placeRenewals(
  'place',
  scripts.renewPlaces,
  ({ lock, line, places }: LockKeys): readonly string[] => [lock, line, places],
);

export class FairLockBackend implements LockBackend, QueuedLock {
  readonly id: string;
  readonly name: string;
  readonly newOwnerId: () => string;
  readonly server: Server;
  readonly keys: LockKeys;
  readonly keyPlaces: readonly KeyPlace[];
  readonly placeRenewals: RenewerRow<QueuedPlace> = PLACES;
  readonly #plain: ReentrantLockBackend;

  constructor(server: Server, plain: ReentrantLockBackend) {
    this.server = server;
    this.#plain = plain;
    this.id = plain.id;
    this.name = plain.name;
    this.newOwnerId = plain.newOwnerId;
    this.keys = plain.keys;
    this.keyPlaces = plain.keyPlaces;
  }

  get kind(): string {
    return this.isFenced ? 'FencedFairLock' : 'FairLock';
  }

  get counter(): TokenCounter | undefined {
    return this.#plain.counter;
  }

  get isFenced(): boolean {
    return this.#plain.isFenced;
  }

  waiter(newOwnerId: () => string, request: LockRequest): Waiter {
    return new Place(this, newOwnerId, request);
  }

  join(
    ownerId: string,
    leaseMs: number,
    place: readonly Argument[],
    limit?: TimeLimit,
  ): Promise<JoinReply> {
    const { lock, line, places } = this.keys;
    const { connection } = this.server;
    this.#plain.letGo();
    const fencing = this.counter ?? NO_FENCING;
    const keys = [lock, line, places, ...fencing.keys];
    const args = [ownerId, leaseMs, ...place, ...fencing.args];
    const plain = this.#plain;
    const read = (reply: unknown): JoinReply =>
      readJoin(reply, (...answer) => plain.isAskedFor(...answer));
    return connection.runReplicated(scripts.join, keys, args, read, isAcquired, limit);
  }

  handOver(ownerId: string): Promise<HandOver> {
    const { lock, line, places, channel } = this.keys;
    return this.server.connection.run(
      scripts.handOver,
      [lock, line, places, ...(this.counter?.keys ?? [])],
      [ownerId, channel, this.server.publishCommand(this.keys), ...grantArgs(this)],
      (reply) => {
        const [held, grant, lookInMs, ...refusal] = reply as [number, string, number, ...string[]];
        return handedOver(this, held, lookInMs, grant === '' ? [] : [grant], refusal);
      },
    );
  }

  confirm(ownerId: string, leaseMs: number): Promise<KeepReply> {
    return this.#plain.setLease(ownerId, leaseMs, 'hand-over');
  }

  releaseIn(ownerId: string, inMs: number): Promise<boolean> {
    return this.#plain.releaseIn(ownerId, inMs);
  }

  release(ownerId: string): Promise<boolean> {
    return whetherHeld(this, this.handOver(ownerId));
  }

  async forceUnlock(forcedNoteTtlMs: number): Promise<readonly string[]> {
    const forced = this.#plain.forceUnlock(forcedNoteTtlMs);
    // Sent right behind the script that forces; callers that come in between join the queue. If it fails, the next renewal of a place
    // grants the lock.
    grantNext(this).catch(() => undefined);
    return await forced;
  }

  /** The owners in the queue, in order. */
  waiters(): Promise<string[]> {
    const { lock, line, places } = this.keys;
    const { connection } = this.server;
    return connection.run(
      scripts.waiters,
      [lock, line, places],
      [],
      (owners) => owners as string[],
    );
  }

  keyInTheWay(): Promise<KeyInTheWay | undefined> {
    const { line, places } = this.keys;
    return this.#plain.keyInTheWay([
      { key: line, type: 'zset', expected: 'the line for the lock' },
      { key: places, type: 'hash', expected: 'the places in the line for the lock' },
    ]);
  }

  // The lock itself is the reentrant lock.

  get transfer(): Transfer {
    return this.#plain.transfer;
  }

  reenter(...request: Parameters<ReentrantLockBackend['reenter']>): Promise<KeepReply> {
    return this.#plain.reenter(...request);
  }

  isLocked(): Promise<boolean> {
    return this.#plain.isLocked();
  }

  holdCount(ownerId: string): Promise<number> {
    return this.#plain.holdCount(ownerId);
  }

  remainTimeToLive(): Promise<number> {
    return this.#plain.remainTimeToLive();
  }

  subscribeToUnlocks(listener: ChannelListener): Subscription {
    return this.#plain.subscribeToUnlocks(listener);
  }

  watch(grant: Granted): void {
    this.#plain.watch(grant);
  }

  unwatch(grant: Granted): void {
    this.#plain.unwatch(grant);
  }

  granted(grant: KeepableGrant): void {
    this.#plain.granted(grant);
  }

  forget(ownerId: string): void {
    queueOf(this).forget(ownerId);
    this.#plain.forget(ownerId);
  }
}

export class FairSingleLock extends SingleLock<FairLockBackend> implements FairLock {
  static {
    explainWrongCalls(FairSingleLock, KINDS.lock);
  }

  async getQueueLength(): Promise<number> {
    return (await this.getWaiters()).length;
  }

  async getWaiters(): Promise<string[]> {
    const { session, backend } = this.parts;
    return await session.ask(backend, () => backend.waiters());
  }
}
