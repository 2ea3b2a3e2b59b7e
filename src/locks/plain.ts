// The reentrant lock on one Redis: the arguments and answers of its scripts. The keys are those of Redisson's RLock.

import {
  type AcquireReply,
  type Granted,
  type HandOverReply,
  type HeldReply,
  isAcquired,
  isKept,
  type KeepableGrant,
  type KeepReply,
  type KeyInTheWay,
  type KeyPlace,
  type LockBackend,
  type LockRequest,
  mayBeKept,
  type NextWaiter,
  stateOf,
  type Transfer,
  type Waiter,
} from '../core/protocol.js';
import type { Server } from '../core/server.js';
import { hashTag, LockKeys } from '../redis/keys.js';
import type { ChannelListener, Subscription } from '../waiting/channels.js';
import {
  type LastAnswer,
  Line,
  type LineEntry,
  Lines,
  FairnessBetweenClients,
} from '../waiting/line.js';
import { type ExpectedKey, keyOfAnotherType } from '../core/retry.js';
import type { Clock, TimeLimit } from '../runtime/clock.js';
import type { RedisClient } from '../redis/client.js';
import { scripts } from '../redis/scripts.generated.js';
import { TokenCounter } from './fenced.js';
import { grantCommand } from '../queue/queue.js';
import { acquireScript, GatheredCalls, type Mark, NO_FENCING } from './gather.js';
import type { Keeper } from './keeper.js';
import { type RenewerRow, sendRenewal } from '../core/watchdog.js';

/** The time to live of a lock that nobody holds. */
const FREE = -2;

const ACQUIRED: AcquireReply = { outcome: 'acquired' };

/** How a client renews the locks that it holds on one Redis: many in one call. */
export const HOLDS: RenewerRow<LockKeys> = {
  kind: 'hold',
  isHold: true,
  script: scripts.renew,
  keysOf: ({ lock, forced }) => [lock, forced],
  keysWhileOpen: ({ lock }) => [lock, lock], // no word that it was forced out is found there
};

/** Settings of one lock object that the other objects of the same lock need not share. */
export interface PlainSettings {
  /** How long a fenced lock's tokens are remembered, in milliseconds; left out: the lock is not fenced. */
  readonly tokenTtlMs?: number;
  /** For how long the lock is kept after its last hold, in milliseconds, and by whom; left out: it is not kept. */
  readonly keep?: { readonly keeper: Keeper; readonly keepMs: number };
}

export class ReentrantLockBackend implements LockBackend {
  readonly name: string;
  readonly id: string;
  readonly keys: LockKeys;
  readonly newOwnerId: () => string;
  /** The source of the holders' tokens, if it is a fenced lock. */
  readonly counter: TokenCounter | undefined;
  readonly #keep: PlainSettings['keep'];
  readonly #server: Server;

  constructor(
    server: Server,
    keyPrefix: string,
    name: string,
    newOwnerId: () => string,
    { tokenTtlMs, keep }: PlainSettings = {},
  ) {
    this.name = name;
    this.#server = server;
    this.keys = new LockKeys(keyPrefix + name);
    this.id = `lock ${server.channelSuffix} ${this.keys.lock}`;
    this.newOwnerId = newOwnerId;
    this.#keep = keep;
    if (tokenTtlMs !== undefined)
      this.counter = new TokenCounter(server.connection, this.keys, tokenTtlMs);
  }

  get kind(): string {
    return this.counter ? 'FencedLock' : 'Lock';
  }

  get isFenced(): boolean {
    return this.counter !== undefined;
  }

  waiter(newOwnerId: () => string, request: LockRequest): Waiter {
    return new ReentrantWaiter(this, newOwnerId, request);
  }

  get keyPlaces(): readonly KeyPlace[] {
    return [{ key: this.keys.lock, connection: this.connection }];
  }

  /** The connection to the lock's server. */
  get connection(): RedisClient {
    return this.#server.connection;
  }

  tryAtOnce(
    ownerId: string,
    request: LockRequest,
    limit: TimeLimit,
  ): Promise<AcquireReply> | undefined {
    return this.connection.isReplicated ? undefined : this.acquire(ownerId, request, limit);
  }

  /** @param limit - how long the caller waits, and so how long replicas may take to acknowledge the lock */
  acquire(ownerId: string, request: LockRequest, limit?: TimeLimit): Promise<AcquireReply> {
    const { connection } = this.#server;
    const { leaseMs } = request;
    this.#idleGrant?.letGo(); // this request may not take it
    const mark = this.#mark(request);
    const read = (reply: unknown): AcquireReply => this.#readAcquire(reply);
    const fencing = this.counter ?? NO_FENCING;
    if (!connection.isReplicated)
      return this.#calls.acquire(this.keys, ownerId, leaseMs, read, limit, fencing, mark);
    const { script, keys, args } = acquireScript(this.keys, ownerId, leaseMs, fencing, mark);
    return connection.runReplicated(script, keys, args, read, isAcquired, limit);
  }

  /** A request that may keep the lock is marked as such on the server; not that of a member of a MultiLock. */
  #mark(request: LockRequest): Mark | undefined {
    const keep = mayBeKept(request) ? this.#keep : undefined;
    if (!keep?.keeper.mayMark(request, this.keys.lock, keep.keepMs)) return undefined;
    return {
      leaseMs: keep.keeper.leaseMs,
      ownListeners: Number(this.#server.channels.isSubscribed(this.keys.channel)),
      publish: this.#server.publishCommand(this.keys),
    };
  }

  #readAcquire(reply: unknown): AcquireReply {
    if (reply === 1) return ACQUIRED;
    if (typeof reply === 'string') return { outcome: 'acquired', token: BigInt(reply) };
    if (reply === 2 && this.#keep) {
      const { keeper, keepMs } = this.#keep;
      return { outcome: 'acquired', keepable: keeper.keepable(this.keys, keepMs) };
    }
    const held = this.#heldReply(reply as HeldAnswer);
    if (this.#keep) this.#keep.keeper.foundHeld(this.keys.lock, held.holder, this.#keep.keepMs);
    return held;
  }

  #heldReply([holder, holderTtlMs, heardBy, unsaid]: HeldAnswer): HeldReply {
    const isAskedFor = this.isAskedFor(holder, heardBy, unsaid);
    const holderState = stateOf(heardBy);
    return { outcome: 'held', holder, holderTtlMs, holderState, isAskedFor };
  }

  /** Whether a holder may let go in a moment. `heardBy`: how many heard our wish for what it keeps; `unsaid`: why nobody could hear it. */
  isAskedFor(holder: string, heardBy?: number, unsaid?: string): boolean {
    if (unsaid !== undefined) this.#server.wishRefused(unsaid);
    // With replicas, a command may overtake a release by this client.
    const latest = this.#local.latestOf(this.keys.lock);
    if (latest?.ownerId === holder && !latest.isHeld && !latest.isIdle) return true;
    // A node of a cluster counts only its own subscribers.
    const mayBeHeard = heardBy !== undefined && heardBy >= Number(!this.connection.isCluster);
    return mayBeHeard && unsaid === undefined;
  }

  /**
   * Replicas must acknowledge a command that extends a lease, too: otherwise a replica that takes over might end the lease earlier than
   * the holder expects.
   */
  reenter(
    ownerId: string,
    holdCount: number,
    leaseMs: number,
    limit?: TimeLimit,
  ): Promise<KeepReply> {
    const { connection } = this.#server;
    const keys = [this.keys.lock, this.keys.forced];
    const args = [ownerId, holdCount, leaseMs];
    const read = (reply: unknown): KeepReply => reply as KeepReply;
    return leaseMs > 0
      ? connection.runReplicated(scripts.reenter, keys, args, read, isKept, limit)
      : connection.run(scripts.reenter, keys, args, read, limit);
  }

  /** `isTold`: whether the waiters are notified. */
  release(ownerId: string, isTold = true): Promise<boolean> {
    const { channel } = this.keys;
    const publish = isTold ? this.#server.publishCommand(this.keys) : '';
    // The callback below notifies this client's own waiters, so the message that comes back to us must not count as another client's.
    const isHeard = isTold && this.#server.channels.isSubscribed(channel);
    this.#turns?.releasing(isHeard);
    return this.#calls.release(this.keys, ownerId, publish, (reply) => {
      this.#turns?.answered();
      if (reply === 0) return false;
      if (typeof reply === 'string') this.#server.publishRefused(channel, reply);
      const listeners = typeof reply === 'number' ? reply - 1 : 0;
      this.#released(listeners - Number(isHeard));
      return true;
    });
  }

  /** `others`: how many other clients were told. */
  #released(others: number): void {
    const { localLine } = this;
    if (localLine) localLine.released(others);
    else if (others > 0)
      this.#local.turnsOf(this.keys.lock, this.#server.schedule.clock).released(others);
  }

  async releaseIn(ownerId: string, inMs: number): Promise<boolean> {
    return isKept(await this.setLease(ownerId, inMs, 'release'));
  }

  /** After a hand-over: sets the lease that was asked for, perhaps a shorter one. As a release: lets the lock expire after `leaseMs`. */
  setLease(ownerId: string, leaseMs: number, when: 'hand-over' | 'release'): Promise<KeepReply> {
    const { lock, forced, line, places, channel, grants } = this.keys;
    const unlock = [channel, this.#server.publishCommand(this.keys)];
    const isRelease = when === 'release';
    const keys = [lock, forced, line, places];
    const told = [...unlock, grants, grantCommand(this.#server)];
    const args = [ownerId, leaseMs, ...told, Number(isRelease)];
    const read = (reply: unknown): KeepReply => reply as KeepReply;
    return isRelease
      ? this.connection.run(scripts.confirm, keys, args, read)
      : this.connection.runReplicated(scripts.confirm, keys, args, read, isKept);
  }

  /** Releases the lock of one owner to a successor: another caller of this client, or one that adopts the hold of another process. */
  handOver(
    ownerId: string,
    successorId: string,
    leaseMs: number,
    limit: TimeLimit | undefined,
  ): Promise<HandOverReply> {
    const fencing = this.counter ?? NO_FENCING;
    const keys = [this.keys.lock, this.keys.forced, ...fencing.keys];
    const args = [ownerId, successorId, leaseMs, ...fencing.args];
    const read = (reply: unknown): HandOverReply => {
      const [outcome, token] = reply as [HandOverReply['outcome'], string?];
      return { outcome, token: token === undefined ? undefined : BigInt(token) };
    };
    const isDone = ({ outcome }: HandOverReply): boolean => outcome === 'done';
    return this.connection.runReplicated(scripts.releaseTo, keys, args, read, isDone, limit);
  }

  get transfer(): Transfer {
    const tokenTtlMs = this.counter?.args[0];
    return {
      terms: { keyPrefix: this.#server.keyPrefix, ...(tokenTtlMs !== undefined && { tokenTtlMs }) },
      at: { key: this.keys.lock, connection: this.connection },
      adopt: (...terms) => this.handOver(...terms),
    };
  }

  /** Renews many locks of this server, each for its owner, as the watchdog does. A lease of 0 only checks them. */
  renewMany(
    locks: readonly ReentrantLockBackend[],
    ownerIds: readonly string[],
    leaseMs: number,
    limit?: TimeLimit,
  ): Promise<readonly (KeepReply | undefined)[]> {
    const keys = locks.flatMap((lock) => HOLDS.keysOf(lock.keys));
    return sendRenewal(this.connection, HOLDS.script, keys, ownerIds, leaseMs, limit);
  }

  /** Identifies the client, and so the server, that the lock belongs to. */
  get clientToken(): string {
    return this.#server.channelSuffix;
  }

  /** Locks with the same batch key may share one call of `renewMany`. */
  get batchKey(): string {
    return this.connection.isSlotted ? hashTag(this.keys.lock) : '';
  }

  forceUnlock(forcedNoteTtlMs: number): Promise<readonly string[]> {
    const { lock, forced, channel } = this.keys;
    const args = [channel, this.#server.publishCommand(this.keys), forcedNoteTtlMs];
    return this.connection.run(scripts.forceUnlock, [lock, forced], args, (reply) => {
      const [holder, refusal] = (reply as [string, string?] | null) ?? [];
      if (refusal !== undefined) this.#server.publishRefused(channel, refusal);
      return holder === undefined ? [] : [holder];
    });
  }

  /** `besides`: further keys of the lock, if another kind of lock is built on it. */
  async keyInTheWay(besides: readonly ExpectedKey[] = []): Promise<KeyInTheWay | undefined> {
    const { lock, forced } = this.keys;
    const noToken = await this.counter?.inTheWay();
    if (noToken) return noToken;
    return await keyOfAnotherType(this.connection, [
      { key: lock, type: 'hash', expected: 'a lock' },
      { key: forced, type: 'string', expected: 'the word for a holder that was forced out' },
      ...besides,
      ...(this.counter ? [this.counter.expectedKey] : []),
    ]);
  }

  /** A lock that this client itself keeps without a hold is free for its callers. */
  async isLocked(): Promise<boolean> {
    const [holder] = await this.#look();
    return holder !== '' && holder !== this.#idleGrant?.ownerId;
  }

  async holdCount(ownerId: string): Promise<number> {
    const { connection } = this.#server;
    const count = Number((await connection.command('hget', this.keys.lock, ownerId)) ?? 0);
    return count < 0 ? (this.localGrant?.holdCount ?? 0) : count; // the server does not count the holds of a lock that may be kept
  }

  async remainTimeToLive(): Promise<number> {
    return (await this.#look())[1];
  }

  #look(): Promise<readonly [holder: string, ttlMs: number]> {
    const read = (reply: unknown): [string, number] =>
      (reply as [string, number] | null) ?? ['', FREE];
    return this.connection.run(scripts.look, [this.keys.lock], [], read);
  }

  // What this client itself knows about the lock: its own grant and its own waiters.

  granted(grant: KeepableGrant): void {
    this.#local.granted(this.keys.lock, grant);
  }

  forget(ownerId: string): void {
    this.#keep?.keeper.used(this.keys.lock);
    this.#local.forget(this.keys.lock, ownerId);
  }

  /** Whether this client keeps the lock, and nobody holds it. */
  get isKeptHere(): boolean {
    return this.#idleGrant !== undefined;
  }

  /** Whether a waiter of this lock object takes a grant that its client has kept. */
  get hasKeep(): boolean {
    return this.#keep !== undefined;
  }

  takeKept(): KeepableGrant | undefined {
    const grant = this.#keep && this.#idleGrant;
    return grant?.take() ? grant : undefined;
  }

  /** Ends the keeping of the lock by this client: another kind of lock of the same name asks the server for it. */
  letGo(): void {
    this.#local.latestOf(this.keys.lock)?.letGo();
  }

  watch(grant: Granted): void {
    this.#server.watchdog.watch(grant, this.keys, this.#server.renewer(HOLDS));
  }

  unwatch(grant: Granted): void {
    this.#server.watchdog.unwatch(grant);
  }

  /** This client's grant of the lock; undefined: it does not hold the lock. */
  get localGrant(): KeepableGrant | undefined {
    return this.#local.grantOf(this.keys.lock);
  }

  get hasWaiters(): boolean {
    return this.localLine !== undefined;
  }

  get isInUseHere(): boolean {
    return this.hasWaiters || this.localGrant !== undefined || this.owesTurns;
  }

  /** Whether this client has just released the lock, and its next caller lets others pass first. */
  get owesTurns(): boolean {
    return this.#turns?.owes ?? false;
  }

  /** None with `replicas`: the release would have to wait for their acknowledgement. */
  get nextWaiter(): NextWaiter | undefined {
    return this.connection.isReplicated ? undefined : this.localLine?.next;
  }

  /** The line of this client's waiters for the lock, if there are any. */
  get localLine(): Line<NextWaiter> | undefined {
    return this.#local.lines.known(this.keys.lock);
  }

  /** The same line, created if there is none. */
  line(): Line<NextWaiter> {
    const { schedule, lockWatchdogTimeoutMs, watchdog } = this.#server;
    const { clock } = schedule;
    const localGrant = (): KeepableGrant | undefined => this.localGrant;
    return this.#local.lines.of(this.keys.lock, (onEmpty) => {
      return new Line({
        clock,
        lookEveryMs: lockWatchdogTimeoutMs / 3,
        turns: this.#local.turnsOf(this.keys.lock, clock),
        get localHolder() {
          return localGrant()?.seen;
        },
        subscribe: (listener) => this.subscribeToUnlocks(listener),
        roundTrip: () => this.connection.command('exists', this.keys.lock),
        verify: () => {
          const grant = localGrant();
          if (!grant) return;
          grant.letGo(); // a grant that is kept is not under the watchdog
          watchdog.renew([grant]);
        },
        onEmpty,
      });
    });
  }

  /** Notifies `listener` of the lock's releases, by any client. */
  subscribeToUnlocks(listener: ChannelListener): Subscription {
    return this.#server.subscribeToUnlocks(this.keys, listener);
  }

  /** This client's grant of the lock, if it is kept without a hold. */
  get #idleGrant(): KeepableGrant | undefined {
    const grant = this.#local.latestOf(this.keys.lock);
    return grant?.isIdle ? grant : undefined;
  }

  get #turns(): FairnessBetweenClients | undefined {
    return this.#local.knownTurns(this.keys.lock);
  }

  get #local(): LocalLocks {
    return this.#server.shared(LocalLocks);
  }

  get #calls(): GatheredCalls {
    return this.#server.shared(GatheredCalls);
  }
}

/**
 * Who holds the lock, and for how long; if its client keeps it, how many heard that we want it, or why nobody could be asked; or the count of
 * an owner that has released or exported it.
 */
type HeldAnswer = readonly [holder: string, ttlMs: number, heardBy?: number, unsaid?: string];

// A waiter that waits in this client's line for the lock between its attempts. One waiter of the line at a time tries, when the lock may be
// free.

const NOW = Promise.resolve();

export abstract class LineWaiter implements Waiter {
  abstract readonly ownerId: string;
  protected readonly request: LockRequest;
  protected entry: LineEntry<NextWaiter> | undefined;
  readonly #line: () => Line<NextWaiter>;

  /** `line`: returns this client's line for the lock, and creates it if there is none. */
  constructor(request: LockRequest, line: () => Line<NextWaiter>) {
    this.request = request;
    this.#line = line;
  }

  abstract try(limit?: TimeLimit): Promise<AcquireReply>;

  /** How a release of this client hands the lock over to this waiter; undefined: it does not. */
  protected get next(): NextWaiter | undefined {
    return undefined;
  }

  wait({ holderTtlMs, retryInMs = holderTtlMs }: HeldReply, triedAtMs: number): void {
    if (this.entry) this.entry.stillHeld(retryInMs);
    else if (this.request.waitMs > 0)
      this.entry = this.#line().join(triedAtMs, retryInMs, this.request, this.next);
  }

  get lastAnswer(): LastAnswer | undefined {
    return this.entry?.lastAnswer;
  }

  look(sinceMs: number): void {
    this.entry?.look(sinceMs);
  }

  get mayTry(): boolean {
    return this.entry?.mayTry ?? true;
  }

  get woken(): Promise<void> {
    return this.entry?.woken ?? NOW;
  }

  /** Returns false: a waiter of this kind has no place on the server, and an attempt answered with "held" leaves nothing there. */
  leave(leaseMs?: number): boolean {
    this.entry?.leave(leaseMs);
    return false;
  }
}

class ReentrantWaiter extends LineWaiter implements NextWaiter {
  readonly #lock: ReentrantLockBackend;
  readonly #newOwnerId: () => string;
  #ownerId: string;
  #wantsNewOwner = false;
  /** The grant that a release of this client has handed over to it. */
  #accepted: Granted | undefined;
  #hasLeft = false;

  constructor(lock: ReentrantLockBackend, newOwnerId: () => string, request: LockRequest) {
    super(request, () => lock.line());
    this.#lock = lock;
    this.#newOwnerId = newOwnerId;
    this.#ownerId = newOwnerId();
  }

  get ownerId(): string {
    return this.#ownerId;
  }

  useNewOwner(): void {
    this.#wantsNewOwner = true;
  }

  /**
   * A valid grant of this client replaces the server's answer. Without one, a call with `waitMs` 0 asks the server; other calls join this
   * client's line, if there is one.
   */
  queue(): HeldReply | undefined {
    if (this.entry) return undefined;
    const { localGrant, localLine, owesTurns } = this.#lock;
    const seen = localGrant && { outcome: 'held' as const, ...localGrant.seen };
    if (this.request.waitMs === 0 || !(seen ?? localLine ?? owesTurns)) return seen;
    const line = localLine ?? this.#lock.line();
    this.entry = line.queue(this.request, this.next);
    if (seen) line.lastAnswer.held(seen, line.clock.nowMs());
    const { holder } = line.lastAnswer;
    const letsPass = !seen && !localLine;
    return { outcome: 'held', holder: this.ownerId, holderTtlMs: -1, letsPass, ...holder };
  }

  try(limit?: TimeLimit): Promise<AcquireReply> {
    if (this.#wantsNewOwner) this.#ownerId = this.#newOwnerId();
    this.#wantsNewOwner = false;
    return this.#lock.acquire(this.#ownerId, this.request, limit);
  }

  override wait(seen: HeldReply, triedAtMs: number): void {
    super.wait(seen, triedAtMs);
    // While this waiter tried, a release handed the lock over to it; or the holder ended and its client, ours, keeps the lock: then no message
    // will wake the line.
    if (this.#accepted) this.entry?.goOn();
    else if (this.#lock.isKeptHere) this.#lock.localLine?.mayBeFree();
  }

  override leave(leaseMs?: number): boolean {
    this.#hasLeft = true;
    super.leave(leaseMs);
    this.#accepted?.decline();
    return false;
  }

  // As the next waiter, to which a release of this client hands the lock over. Not for a member of a MultiLock: all members need one owner.

  protected override get next(): NextWaiter | undefined {
    return this.request.attemptMs === undefined ? this : undefined;
  }

  get leaseMs(): number {
    return this.request.leaseMs;
  }

  get needsAnswer(): boolean {
    return this.#lock.isFenced || this.request.atLeastMs > 0;
  }

  get takesKept(): boolean {
    return mayBeKept(this.request) && this.#lock.hasKeep;
  }

  handOver(ownerId: string, successorId: string, limit: TimeLimit): Promise<HandOverReply> {
    return this.#lock.handOver(ownerId, successorId, this.leaseMs, limit);
  }

  expect(): void {
    this.entry?.reserve();
  }

  accept(grant: Granted): void {
    if (this.#hasLeft) {
      grant.decline();
      return;
    }
    this.#accepted = grant;
    this.entry?.goOn();
  }

  tryItself(): void {
    if (!this.#hasLeft) this.entry?.goOn();
  }

  claim(): Granted | undefined {
    const accepted = this.#accepted;
    this.#accepted = undefined;
    if (!accepted || accepted.isUsable) return accepted;
    accepted.decline();
    return undefined;
  }
}

// What one client itself knows about the locks that it holds or wants on one Redis: its grants and its waiting lines.

/** For how many locks the state of `FairnessBetweenClients` is kept. */
const MAX_REMEMBERED = 1_000;

class LocalLocks {
  readonly lines: Lines<Line<NextWaiter>> = new Lines<Line<NextWaiter>>();
  readonly #grants = new Map<string, KeepableGrant>();
  readonly #turns = new Map<string, FairnessBetweenClients>();

  constructor(connection: RedisClient) {
    connection.listen({
      refused: () => {
        // One waiter after another is woken, so that each gets the error of its own try.
        for (const line of this.lines.all) line.mayBeFree();
      },
    });
  }

  /** The server granted the lock to this client. */
  granted(lock: string, grant: KeepableGrant): void {
    this.#grants.set(lock, grant);
  }

  /** This client no longer holds the lock, or waits for it, as this owner. */
  forget(lock: string, ownerId: string): void {
    if (this.#grants.get(lock)?.ownerId === ownerId) this.#grants.delete(lock);
    this.lines.known(lock)?.free();
  }

  /** This client's grant of the lock, if it may still rely on it. */
  grantOf(lock: string): KeepableGrant | undefined {
    const grant = this.#grants.get(lock);
    return grant && grant.remaining() > 0 ? grant : undefined;
  }

  /** This client's latest grant of the lock, until its release is confirmed: it may be held, kept, or being released. */
  latestOf(lock: string): KeepableGrant | undefined {
    return this.#grants.get(lock);
  }

  knownTurns(lock: string): FairnessBetweenClients | undefined {
    return this.#turns.get(lock);
  }

  turnsOf(lock: string, clock: Clock): FairnessBetweenClients {
    let turns = this.#turns.get(lock);
    if (turns) return turns;
    const [oldest] = this.#turns.keys();
    if (this.#turns.size >= MAX_REMEMBERED && oldest !== undefined) this.#turns.delete(oldest);
    this.#turns.set(lock, (turns = new FairnessBetweenClients(clock)));
    return turns;
  }
}
