// The reentrant lock on one Redis: what its scripts are sent and what they answer. The data is Redisson's RLock.

import {
  type AcquireReply,
  type Granted,
  type Heir,
  type HeldReply,
  isAcquired,
  isKept,
  type KeepReply,
  type KeyPlace,
  type LockBackend,
  type LockRequest,
  type Renewer,
  type Waiter,
  type Watched,
} from '../core/protocol.js';
import type { Server } from '../core/server.js';
import { hashTag, LockKeys } from '../redis/keys.js';
import type { ChannelListener, Subscription } from '../waiting/channels.js';
import {
  type Findings,
  Line,
  type LineHost,
  Lines,
  type Sleeper,
  TurnTaking,
} from '../waiting/line.js';
import { type ExpectedKey, type KeyInTheWay, keyOfAnotherType } from '../core/retry.js';
import type { Clock, TimeLimit } from '../runtime/clock.js';
import type { RedisClient } from '../redis/client.js';
import { scripts } from '../redis/scripts.generated.js';
import { TokenCounter } from './fenced.js';
import { acquireScript, GatheredCalls, NO_FENCING, type Publish } from './gather.js';
import type { SeenHolder } from '../api/errors.js';
import { sendRenewal } from '../core/watchdog.js';

// The part of a backend in which the callers of one client meet over one lock on one Redis: their grant, which is watched, and the line in
// which they wait.

abstract class ContestedBackend {
  readonly name: string;
  readonly id: string;
  protected readonly server: Server;
  readonly keys: LockKeys;

  constructor(server: Server, key: string, name: string) {
    this.name = name;
    this.server = server;
    this.keys = new LockKeys(key);
    this.id = `${server.listensAt} ${this.keys.lock}`;
  }

  get keyPlaces(): readonly KeyPlace[] {
    return [{ key: this.keys.lock, connection: this.server.connection }];
  }

  /** Tells `listener` of the lock's releases, whoever released it. */
  subscribeToUnlocks(listener: ChannelListener): Subscription {
    return this.server.subscribeToUnlocks(this.keys, listener);
  }

  watch(grant: Granted): void {
    this.server.watchdog.watch(grant, this.keys, this.server.shared(HoldRenewer));
  }

  unwatch(grant: Granted): void {
    this.server.watchdog.unwatch(grant);
  }

  line(): Line<Heir> {
    return this.#contests.line(this.keys.lock, {
      clock: this.server.schedule.clock,
      lookEveryMs: this.server.lockWatchdogTimeoutMs / 3,
      subscribe: (listener) => this.subscribeToUnlocks(listener),
      roundTrip: () => this.server.connection.command('exists', this.keys.lock),
      verify: (grant) => {
        this.server.watchdog.renew([grant]);
      },
    });
  }

  get localLine(): Line<Heir> | undefined {
    return this.#contests.known(this.keys.lock);
  }

  get heldHere(): Granted | undefined {
    return this.#contests.heldHere(this.keys.lock);
  }

  get isBusyHere(): boolean {
    return this.#contests.isBusy(this.keys.lock);
  }

  granted(grant: Granted): void {
    this.#contests.granted(this.keys.lock, grant);
  }

  forget(ownerId: string): void {
    this.#contests.forget(this.keys.lock, ownerId);
  }

  get #contests(): Contests {
    return this.server.shared(Contests);
  }
}

/** The time to live of a lock that nobody holds. */
const FREE = -2;

const ACQUIRED: AcquireReply = { outcome: 'acquired' };

export class ReentrantLockBackend extends ContestedBackend implements LockBackend {
  readonly newOwnerId: () => string;
  /** What gives each holder its token, if it is a fenced lock. */
  readonly counter: TokenCounter | undefined;

  constructor(
    server: Server,
    keyPrefix: string,
    name: string,
    newOwnerId: () => string,
    tokenTtlMs?: number,
  ) {
    super(server, keyPrefix + name, name);
    this.newOwnerId = newOwnerId;
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
    return new ReentrantWaiter(this, newOwnerId(), request);
  }

  tryAtOnce(ownerId: string, leaseMs: number, limit: TimeLimit): Promise<AcquireReply> | undefined {
    return this.server.connection.isReplicated ? undefined : this.acquire(ownerId, leaseMs, limit);
  }

  /** @param limit - how long the caller will wait, and so how long replicas may take to acknowledge it */
  acquire(ownerId: string, leaseMs: number, limit?: TimeLimit): Promise<AcquireReply> {
    const { connection } = this.server;
    if (!connection.isReplicated)
      return this.#calls.acquire(this.keys, ownerId, leaseMs, readAcquire, limit, this.counter);
    const fencing = this.counter ?? NO_FENCING;
    const { script, keys, args } = acquireScript(this.keys, ownerId, leaseMs, fencing);
    return connection.runReplicated(script, keys, args, readAcquire, isAcquired, limit);
  }

  /**
   * A command that prolongs a lease must be acknowledged by replicas, too: one that takes over would let others in earlier than we expect.
   */
  reenter(
    ownerId: string,
    holdCount: number,
    leaseMs: number,
    limit?: TimeLimit,
  ): Promise<KeepReply> {
    const { connection } = this.server;
    const keys = [this.keys.lock, this.keys.forced];
    const args = [ownerId, holdCount, leaseMs];
    const read = (reply: unknown): KeepReply => reply as KeepReply;
    return leaseMs > 0
      ? connection.runReplicated(scripts.reenter, keys, args, read, isKept, limit)
      : connection.run(scripts.reenter, keys, args, read, limit);
  }

  /** `isTold`: whether those who wait are told. */
  release(ownerId: string, isTold = true): Promise<boolean> {
    return this.#release(ownerId, isTold ? this.server.publishCommand(this.keys) : '');
  }

  /** Renews many locks of this node, each for its owner, as the watchdog does; with a lease of 0 only looks. */
  renewMany(
    locks: readonly ReentrantLockBackend[],
    ownerIds: readonly string[],
    leaseMs: number,
    limit?: TimeLimit,
  ): Promise<readonly (KeepReply | undefined)[]> {
    const keys = locks.map((lock) => lock.keys);
    return this.server.shared(HoldRenewer).send(keys, ownerIds, leaseMs, limit);
  }

  /** Which client, and so which server, it belongs to. */
  get clientToken(): string {
    return this.server.listensAt;
  }

  /** What may go into one call of `renewMany` has the same batch key. */
  get batchKey(): string {
    return this.server.shared(HoldRenewer).batchKey(this.keys);
  }

  /** The connection to the lock's server. */
  get connection(): RedisClient {
    return this.server.connection;
  }

  forceUnlock(wordMs: number): Promise<readonly string[]> {
    const { lock, forced, channel } = this.keys;
    const args = [channel, this.server.publishCommand(this.keys), wordMs];
    return this.server.connection.run(scripts.forceUnlock, [lock, forced], args, (reply) => {
      const [holder, refusal] = (reply as [string, string?] | null) ?? [];
      if (refusal !== undefined) this.server.publishRefused(channel, refusal);
      return holder === undefined ? [] : [holder];
    });
  }

  /** `besides`: the keys that the lock has besides, if it is also of another kind. */
  async keyInTheWay(besides: readonly ExpectedKey[] = []): Promise<KeyInTheWay | undefined> {
    const { lock, forced } = this.keys;
    const noToken = await this.counter?.inTheWay();
    if (noToken) return noToken;
    return await keyOfAnotherType(this.server.connection, [
      { key: lock, type: 'hash', expected: 'a lock' },
      { key: forced, type: 'string', expected: 'the word for a holder that was forced out' },
      ...besides,
      ...(this.counter ? [this.counter.expectedKey] : []),
    ]);
  }

  async isLocked(): Promise<boolean> {
    return (await this.remainTimeToLive()) !== FREE;
  }

  async holdCount(ownerId: string): Promise<number> {
    const { connection } = this.server;
    return Number((await connection.command('hget', this.keys.lock, ownerId)) ?? 0);
  }

  remainTimeToLive(): Promise<number> {
    return this.server.connection.run(scripts.look, [this.keys.lock], [], (reply) => {
      const [, ttlMs] = (reply as [string, number] | null) ?? ['', FREE];
      return ttlMs;
    });
  }

  get #calls(): GatheredCalls {
    return this.server.shared(GatheredCalls);
  }

  #release(ownerId: string, publish: Publish): Promise<boolean> {
    // This client's waiters are told of the release below, so the message that comes back to us must not count as another client's.
    const isHeard = publish !== '' && this.server.channels.isSubscribed(this.keys.channel);
    if (isHeard) this.localLine?.releasing();
    return this.#calls.release(this.keys, ownerId, publish, (reply) => {
      if (reply === 0) return false;
      if (typeof reply === 'string') this.server.publishRefused(this.keys.channel, reply);
      const listeners = typeof reply === 'number' ? reply - 1 : 0;
      this.localLine?.released(listeners - Number(isHeard));
      return true;
    });
  }
}

function readAcquire(reply: unknown): AcquireReply {
  if (reply === 1) return ACQUIRED;
  return typeof reply === 'string'
    ? { outcome: 'acquired', token: BigInt(reply) }
    : held(reply as [string, number]);
}

function held([holder, holderTtlMs]: [string, number]): AcquireReply {
  return { outcome: 'held', holder, holderTtlMs };
}

// A waiter that stands in this client's line for the lock between its tries: one of the line at a time tries, when the lock may be
// free, or takes over the grant of another caller of this client.

const NOW = Promise.resolve();

export abstract class LineWaiter implements Waiter, Heir {
  abstract readonly ownerId: string;
  /** As an heir it wants the lease of the grant that it takes over to be renewed. */
  readonly isWatched = true;
  /** Whether it may be an heir: not where each holder needs something of its own from the server, such as a token. */
  protected readonly mayInherit: boolean = true;
  protected readonly request: LockRequest;
  readonly #line: () => Line<Heir>;
  #sleeper: Sleeper<Heir> | undefined;
  #inherited: Granted | undefined;

  /** `line` gives this client's line for the lock, and makes it if there is none. */
  constructor(request: LockRequest, line: () => Line<Heir>) {
    this.request = request;
    this.#line = line;
  }

  abstract try(limit?: TimeLimit): Promise<AcquireReply>;

  wait({ holderTtlMs, retryInMs = holderTtlMs }: HeldReply, triedAtMs: number): void {
    if (this.#sleeper) this.#sleeper.stillHeld(retryInMs);
    else if (this.request.waitMs > 0)
      this.#sleeper = this.#line().join(triedAtMs, retryInMs, this.request, this.#heir);
  }

  get findings(): Findings | undefined {
    return this.#sleeper?.findings;
  }

  look(sinceMs: number): void {
    this.#sleeper?.look(sinceMs);
  }

  get mayTry(): boolean {
    return this.#sleeper?.mayTry ?? true;
  }

  get woken(): Promise<void> {
    return this.#sleeper?.woken ?? NOW;
  }

  inherit(grant: Granted): void {
    this.#inherited = grant;
    this.#sleeper?.takeTurn();
  }

  /** The grant that it was to take over was lost before it did. */
  lost(): void {
    this.#inherited = undefined;
  }

  claim(): Granted | undefined {
    const inherited = this.#inherited?.isHeld ? this.#inherited : undefined;
    this.#inherited = undefined;
    return inherited;
  }

  /** Returns false: a waiter of this kind has no place on the server, and a try that was answered with "held" left nothing there. */
  leave(leaseMs?: number): boolean {
    const inherited = this.#inherited;
    this.#inherited = undefined;
    this.#sleeper?.leave(leaseMs);
    inherited?.decline();
    return false;
  }

  /** Joins the line without a try. */
  protected queueIn(line: Line<Heir>): void {
    this.#sleeper = line.queue(this.request, this.#heir);
  }

  /** Whether it stands in line already: if it is asked to try then, its turn has come. */
  protected get isInLine(): boolean {
    return this.#sleeper !== undefined;
  }

  /** This waiter, if it may be an heir: a member of a MultiLock needs the owner of all members, and a fixed lease has to be asked for. */
  get #heir(): Heir | undefined {
    const { isWatched, attemptMs } = this.request;
    return this.mayInherit && isWatched && attemptMs === undefined ? this : undefined;
  }
}

// A caller who wants a reentrant lock.

/** What such a waiter needs of its lock. */
export interface ContestedLock {
  readonly isFenced: boolean;
  acquire(ownerId: string, leaseMs: number, limit?: TimeLimit): Promise<AcquireReply>;
  /** The grant by which this client holds the lock; undefined: it does not. */
  readonly heldHere: Granted | undefined;
  /** The line of this client's waiters for the lock, if anybody waits. */
  readonly localLine: Line<Heir> | undefined;
  line(): Line<Heir>;
}

export class ReentrantWaiter extends LineWaiter {
  readonly ownerId: string;
  protected override readonly mayInherit: boolean;
  readonly #lock: ContestedLock;

  constructor(lock: ContestedLock, ownerId: string, request: LockRequest) {
    super(request, () => lock.line());
    this.#lock = lock;
    this.ownerId = ownerId;
    this.mayInherit = !lock.isFenced;
  }

  /**
   * A valid grant of this client is as good as the server's answer. Without one, a call with `waitMs` 0 asks the server; others join this
   * client's line, if there is one.
   */
  queue(): HeldReply | undefined {
    if (this.isInLine) return undefined;
    const { heldHere: grant, localLine } = this.#lock;
    const seen = grant && { outcome: 'held' as const, ...grant.seen };
    if (this.request.waitMs === 0 || (!seen && !localLine)) return seen;
    const line = localLine ?? this.#lock.line();
    this.queueIn(line);
    if (seen) line.findings.held(seen, line.clock.nowMs());
    const { holder } = line.findings;
    return { outcome: 'held', holder: this.ownerId, holderTtlMs: -1, ...holder };
  }

  try(limit?: TimeLimit): Promise<AcquireReply> {
    return this.#lock.acquire(this.ownerId, this.request.leaseMs, limit);
  }
}

// What one client knows by itself of the locks that it holds or wants on one Redis: its grant of each, and who waits in line for it.

/** What the line for a lock needs of the lock. */
interface Contested extends Required<
  Pick<LineHost, 'clock' | 'lookEveryMs' | 'subscribe' | 'roundTrip'>
> {
  verify(grant: Granted): void;
}

/** For how many locks it is remembered how their clients take turns. */
const MAX_REMEMBERED = 1_000;

export class Contests {
  readonly #grants = new Map<string, Granted>();
  readonly #lines = new Lines<Line<Heir>>();
  readonly #turns = new Map<string, TurnTaking>();

  /** The server gave the lock to this client. */
  granted(lock: string, grant: Granted): void {
    this.#grants.set(lock, grant);
  }

  /** Nobody of this client holds the lock as this owner any more, nor waits for it as this owner. */
  forget(lock: string, ownerId: string): void {
    if (this.#grants.get(lock)?.ownerId === ownerId) this.#grants.delete(lock);
    this.#lines.known(lock)?.free();
  }

  /** The grant by which this client holds the lock, as far as it may rely on that. */
  heldHere(lock: string): Granted | undefined {
    const grant = this.#grants.get(lock);
    return grant && grant.remaining() > 0 ? grant : undefined;
  }

  /** Whether this client has the lock, or somebody of it waits. */
  isBusy(lock: string): boolean {
    return this.#lines.known(lock) !== undefined || this.heldHere(lock) !== undefined;
  }

  /** The line of those who wait, if anybody does. */
  known(lock: string): Line<Heir> | undefined {
    return this.#lines.known(lock);
  }

  /** The line in which all of this client wait for the lock. */
  line(lock: string, host: Contested): Line<Heir> {
    return this.#lines.of(lock, (onEmpty) => {
      const seenHere = (): SeenHolder | undefined => this.heldHere(lock)?.seen;
      return new Line({
        clock: host.clock,
        lookEveryMs: host.lookEveryMs,
        turns: this.#turnsOf(lock, host.clock),
        get seenHere() {
          return seenHere();
        },
        subscribe: (listener) => host.subscribe(listener),
        roundTrip: host.roundTrip,
        verify: () => {
          const grant = this.heldHere(lock);
          if (grant) host.verify(grant);
        },
        onEmpty,
      });
    });
  }

  #turnsOf(lock: string, clock: Clock): TurnTaking {
    let turns = this.#turns.get(lock);
    if (turns) return turns;
    const [oldest] = this.#turns.keys();
    if (this.#turns.size >= MAX_REMEMBERED && oldest !== undefined) this.#turns.delete(oldest);
    this.#turns.set(lock, (turns = new TurnTaking(clock)));
    return turns;
  }
}

// How the locks that a client holds on one Redis are renewed: many in one call.

class HoldRenewer implements Renewer<LockKeys> {
  readonly kind = 'hold';
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
    const locks = batch.map(({ target }) => target);
    const ownerIds = batch.map(({ lease }) => lease.ownerId);
    return this.send(locks, ownerIds, leaseMs);
  }

  /**
   * Renews many locks in one call, each for its owner. An answer is undefined where the lock is kept, but not acknowledged by as many
   * replicas as must know.
   *
   * @param limit - how long replicas may take to acknowledge it, besides `commandTimeout`
   */
  send(
    locks: readonly LockKeys[],
    ownerIds: readonly string[],
    leaseMs: number,
    limit?: TimeLimit,
  ): Promise<readonly (KeepReply | undefined)[]> {
    const keys: string[] = [];
    for (const { lock, forced } of locks) keys.push(lock, forced);
    return sendRenewal(this.#connection, scripts.renew, keys, ownerIds, leaseMs, limit);
  }
}
