// The Redlock: one lock on several independent masters. An owner holds it if a majority of them says so.

import {
  type AcquireReply,
  type Granted,
  idOf,
  type KeepReply,
  type KeyPlace,
  type LockBackend,
  type LockRequest,
  type NextWaiter,
  type Waiter,
  type KeyInTheWay,
} from '../../core/protocol.js';
import type { Events } from '../../api/events.js';
import { ClosedError, type NodeAnswer, OptionError } from '../../api/errors.js';
import { Undecided } from '../../core/retry.js';
import { renewalFailed } from '../../core/messages.js';
import { type Reachable, Session } from '../../core/session.js';
import { Watchdog } from '../../core/watchdog.js';
import type { RedisClient } from '../../redis/client.js';
import { UnwantedError } from '../../redis/failure.js';
import { type Clock, now, type Timer } from '../../runtime/clock.js';
import { WaitLimit } from '../../runtime/wait-limit.js';
import type { ChannelListener, Subscription } from '../../waiting/channels.js';
import { Line, Lines } from '../../waiting/line.js';
import { LineWaiter, type ReentrantLockBackend } from '../plain.js';
import {
  type Answer,
  elect,
  type ElectionResult,
  largest,
  mayHaveRun,
  mostNamed,
  poll,
  quorumError,
  refusalOfMany,
  saidBy,
  valueOf,
  values,
} from './election.js';
import type { Master } from './master.js';
import type { RedLockParts } from './parts.js';
import { extensionLimit, kept, RedRenewer, repairOn } from './renewal.js';
import type { RestartGuard } from './restart-guard.js';

export class RedLockBackend implements LockBackend {
  readonly kind: string;
  readonly isFenced: boolean;
  readonly name: string;
  readonly id: string;
  /** A lost lock may leave its owner on a minority of the masters, which has to be removed. */
  readonly leavesRemains = true;
  readonly masters: readonly Master[];
  readonly quorum: number;
  readonly clock: Clock;
  readonly nodeTimeoutMs: number;
  readonly newOwnerId: () => string;
  /**
   * The largest token among the answers of a majority: every majority includes a master that had the last holder's token. But that master
   * may have restarted since, however long ago, so no guard by uptime would help. For information only: elections do not rely on it.
   */
  readonly counter = {
    last: async (): Promise<bigint | undefined> =>
      largest(await this.#all('not looked at', async ({ counter }) => await counter?.last())),
  };
  readonly #services: QuorumServices;
  readonly #makeGuard: RedLockParts['guard'];
  readonly #maxExtensions: number;

  constructor(parts: RedLockParts, services: QuorumServices) {
    const { name, masters, isFenced } = parts;
    this.kind = isFenced ? 'FencedRedLock' : 'RedLock';
    this.isFenced = isFenced;
    this.name = name;
    this.masters = masters;
    this.quorum = Math.floor(masters.length / 2) + 1;
    this.clock = services.session.clock;
    this.nodeTimeoutMs = parts.nodeTimeoutMs;
    this.id = idOf('red', ...[...this.memberIds].sort());
    this.newOwnerId = services.session.newOwnerId;
    this.#makeGuard = parts.guard;
    this.#maxExtensions = parts.maxExtensions;
    this.#services = services;
    services.listenTo(masters);
  }

  get memberIds(): string[] {
    return this.masters.map(({ lock }) => lock.id);
  }

  get keyPlaces(): KeyPlace[] {
    return this.masters.flatMap(({ lock }) => lock.keyPlaces);
  }

  /** Locks with the same batch key may be renewed together, in one call for each master. */
  get batchKey(): string {
    return idOf(...this.masters.flatMap(({ lock }) => [lock.clientToken, lock.batchKey]));
  }

  waiter(newOwnerId: () => string, request: LockRequest): Waiter {
    return new RedWaiter(this, newOwnerId, request);
  }

  line(): Line<NextWaiter> {
    const { clock, masters } = this;
    return this.#services.lines.of(this.id, (onEmpty) => {
      const lookEveryMs = this.#services.session.lockWatchdogTimeoutMs / 3;
      const subscribe = (listener: ChannelListener): Subscription =>
        subscribeToAll(masters, clock, listener);
      return new Line({ clock, lookEveryMs, subscribe, onEmpty });
    });
  }

  elect(ownerId: string, leaseMs: number): Promise<ElectionResult> {
    const { clock, masters, quorum, nodeTimeoutMs } = this;
    const { random } = this.#services.session;
    this.#services.noteLease(leaseMs);
    const guard = this.#guard;
    return elect({ clock, random, masters, quorum, guard, ownerId, leaseMs, nodeTimeoutMs });
  }

  reenter(ownerId: string, holdCount: number, leaseMs: number): Promise<KeepReply> {
    this.#services.noteLease(leaseMs);
    const limit = { leftMs: this.nodeTimeoutMs };
    const ask = (master: Master): Promise<KeepReply> =>
      master.keep(ownerId, holdCount, leaseMs, limit);
    return this.#poll('not confirmed', ask, (answers) => kept(answers.map(valueOf), this.quorum));
  }

  /** Releases the lock also on masters that did not vote for this owner: their votes may only be late. */
  release(ownerId: string): Promise<boolean> {
    return this.#release((master) => master.release(ownerId));
  }

  releaseIn(ownerId: string, inMs: number): Promise<boolean> {
    return this.#release((master) => master.release(ownerId, inMs));
  }

  #release(send: (master: Master) => Promise<boolean>): Promise<boolean> {
    // While a majority is still connecting, the release is sent to the connected masters at once. (Whether the lock was lost, only a
    // majority can tell.)
    const isThere = ({ connection }: Master): boolean => connection.isReady;
    const there = this.#isSettled ? [] : this.masters.filter(isThere);
    const asked = new Map(there.map((master) => [master, send(master)]));
    const ask = (master: Master): Promise<boolean> => asked.get(master) ?? send(master);
    return this.#poll('not known to be released', ask, this.#mostSay);
  }

  watch(grant: Granted): void {
    const { session, watchdog, renewer } = this.#services;
    const { lockWatchdogTimeoutMs: leaseMs } = session;
    if (this.#maxExtensions < Infinity)
      grant.renewalLimit ??= extensionLimit(
        this.#maxExtensions,
        leaseMs,
        grant.ageMs(),
        this.clock,
      );
    watchdog.watch(grant, { lock: this, grant }, renewer);
  }

  unwatch(grant: Granted): void {
    this.#services.watchdog.unwatch(grant);
  }

  readonly remembersAll = ({ connection }: Master): boolean =>
    connection.server.ageMs >= this.#guard.mostMs;

  async forceUnlock(forcedNoteTtlMs: number): Promise<readonly string[]> {
    // From a master that is left out, the holder's renewals would restore the lock on the others.
    await this.#until(() => this.#areAllSettled, this.nodeTimeoutMs);
    const forced = await this.#all('not known to be forced', (lock) =>
      lock.forceUnlock(forcedNoteTtlMs),
    );
    // Other candidates may have left single votes: the holder is the owner on most masters.
    const [owner] = mostNamed(forced.flat()) ?? [];
    return owner === undefined ? [] : [owner];
  }

  /** The key in the way on the first master that reports one. */
  async keyInTheWay(): Promise<KeyInTheWay | undefined> {
    const looks = this.masters.map(async ({ name, lock }) => {
      const found = await lock.keyInTheWay();
      if (!found) throw new Error('nothing is in the way there');
      return { ...found, node: name };
    });
    return await Promise.any(looks).catch(() => undefined);
  }

  /**
   * While a master does not answer, the others may be too few to decide, since the holder may have its vote. A query counts all answers,
   * even of masters that restarted and may have forgotten a holder: the restart guard is for elections only.
   */
  isLocked(): Promise<boolean> {
    return this.#poll('not looked at', ({ lock }) => lock.isLocked(), this.#mostSay, true);
  }

  async holdCount(ownerId: string): Promise<number> {
    return this.#agreed(await this.#all('not looked at', (lock) => lock.holdCount(ownerId)), 0);
  }

  /** How long a majority of the masters keeps the lock. */
  async remainTimeToLive(): Promise<number> {
    const leftMs = await this.#all('not looked at', (lock) => lock.remainTimeToLive());
    const agreed = this.#agreed(
      leftMs.map((ms) => (ms === -1 ? Infinity : ms)),
      -2,
    );
    return agreed === Infinity ? -1 : agreed;
  }

  /** The largest number that a majority reaches. */
  #agreed(numbers: readonly number[], none: number): number {
    return [...numbers].sort((one, other) => other - one)[this.quorum - 1] ?? none;
  }

  /** True or false once so many masters agree that the others do not matter; undefined before. */
  readonly #mostSay = (answers: readonly Answer<boolean>[]): boolean | undefined => {
    const given = values(answers);
    const yes = given.filter(Boolean).length;
    if (yes >= this.quorum) return true;
    return given.length - yes > this.masters.length - this.quorum ? false : undefined;
  };

  /** The answers of at least a majority. */
  #all<T>(what: string, ask: (lock: ReentrantLockBackend) => Promise<T>): Promise<T[]> {
    const enough = (answers: readonly Answer<T>[], isFinal: boolean): T[] | undefined =>
      isFinal && values(answers).length >= this.quorum ? values(answers) : undefined;
    return this.#poll(what, ({ lock }) => ask(lock), enough, true);
  }

  /** Asks all masters; rejects if their answers allow no decision. Queries (`isLook`) are not repeated while a majority is down. */
  async #poll<T, Decision>(
    what: string,
    ask: (master: Master) => Promise<T>,
    decide: (answers: readonly Answer<T>[], isFinal: boolean) => Decision | undefined,
    isLook = false,
  ): Promise<Decision> {
    const { clock, masters, nodeTimeoutMs } = this;
    await this.whenSettled(this.#services.session.commandTimeoutMs);
    return await poll<T, Decision>(clock, masters, ask, nodeTimeoutMs, (answers, isFinal) => {
      const decision = decide(answers, isFinal);
      if (decision !== undefined || !isFinal) return decision;
      const refusal = refusalOfMany(answers, masters.length - this.quorum);
      if (refusal) return refusal;
      const nodes = masters.flatMap(
        (master, index) => saidBy(master, answers[index], inWords) ?? [],
      );
      const isLast = isLook && !this.isReachable;
      return this.undecided(what, nodes, answers.some(mayHaveRun), isLast);
    });
  }

  /** The error if the masters' answers allow no decision. `Undecided`, which is retried, unless `isLast` or retries cannot help. */
  undecided(what: string, nodes: readonly NodeAnswer[], hasRun: boolean, isLast: boolean): Error {
    const error = quorumError(this.name, what, this.quorum, nodes);
    const refused = this.#count(({ connection }) => connection.refusal !== undefined);
    const isHopeless = refused > this.masters.length - this.quorum;
    return isLast || isHopeless ? error : new Undecided(error, hasRun);
  }

  /** Whether a majority is connected. */
  get isReachable(): boolean {
    return this.#count(({ connection }) => connection.isReady) >= this.quorum;
  }

  /** Resolves when a majority is connected, or no master is still connecting; or after `limitMs`. */
  async whenSettled(limitMs?: number): Promise<void> {
    await this.#until(() => this.#isSettled, limitMs ?? Infinity);
  }

  /** Resolves when `isSo`, checked whenever a master's connection changes; or after `limitMs`, to go on with the connected masters. */
  async #until(isSo: () => boolean, limitMs: number): Promise<void> {
    if (isSo()) return;
    const limit = new WaitLimit({ clock: this.clock, limitMs });
    let stopListening: (() => void)[] = [];
    const come = new Promise<void>((resolve) => {
      const look = (): void => {
        if (isSo()) resolve();
      };
      const listener = { ready: look, failed: look };
      stopListening = this.masters.map(({ connection }) => connection.listen(listener));
    });
    await limit.within(come).catch(() => undefined);
    for (const stop of stopListening) stop();
    limit.dispose();
  }

  get #areAllSettled(): boolean {
    return !this.masters.some(({ isConnecting }) => isConnecting);
  }

  get #isSettled(): boolean {
    return this.isReachable || this.#areAllSettled;
  }

  get #guard(): RestartGuard {
    return this.#makeGuard(this.#services.longestLeaseMs);
  }

  #count(is: (master: Master) => boolean): number {
    return this.masters.filter(is).length;
  }
}

/** The answers of a master that does not have the lock, or this owner of it: to a command, and to a query (-2 is its time to live). */
const GONE: readonly unknown[] = [false, 'deleted', 'taken', 'forced', 0, -2, undefined];

/** A master's answer as it appears in errors. */
function inWords(value: unknown, node: string): NodeAnswer {
  const isGone = GONE.includes(value) || (Array.isArray(value) && value.length === 0);
  return { node, answer: isGone ? 'gone' : 'acquired' };
}

/** Throws if two masters are the same server, which would have two votes. Works only for masters that are connected. */
function assertDistinct(lockName: string, masters: readonly Master[]): void {
  const byServer = new Map<string, Master>();
  for (const master of masters) {
    const { id } = master.connection.server;
    const twin = id === undefined ? undefined : byServer.get(id);
    if (id !== undefined) byServer.set(id, master);
    if (!twin) continue;
    throw new OptionError(
      `lock "${lockName}": the masters ${twin.name} and ${master.name} of the Redlock are the same server (run_id ${String(id)}): each must be a server of its own`,
      { lockName },
    );
  }
}

// The waiter of a Redlock. Each try is an election with a new owner, since a failed election takes its votes back by commands that may
// arrive late.

class RedWaiter extends LineWaiter {
  readonly #lock: RedLockBackend;
  readonly #newOwnerId: () => string;
  #ownerId: string | undefined;
  #isOwnerUsed = false;
  #hasLeft = false;
  /** The masters that the won election did not reach. */
  #unreached: readonly Master[] = [];

  constructor(lock: RedLockBackend, newOwnerId: () => string, request: LockRequest) {
    super(request, () => lock.line());
    this.#lock = lock;
    this.#newOwnerId = newOwnerId;
  }

  get ownerId(): string {
    return (this.#ownerId ??= this.#newOwnerId());
  }

  override leave(leaseMs?: number): boolean {
    this.#hasLeft = true;
    return super.leave(leaseMs);
  }

  /**
   * Gives the owner to masters that the election did not reach, such as one that has been connected since: until then the loss of a single
   * voter may lose the lock. (They need not pass the restart guard, since the existing majority keeps all others out.)
   */
  won(grant: Granted): void {
    for (const master of this.#unreached) if (master.connection.isReady) repairOn(master, grant, 0);
  }

  async try(): Promise<AcquireReply> {
    const lock = this.#lock;
    await lock.whenSettled();
    if (this.#hasLeft) throw new UnwantedError();
    assertDistinct(lock.name, lock.masters);
    if (this.#isOwnerUsed) this.#ownerId = this.#newOwnerId();
    this.#isOwnerUsed = true;
    const sentAt = now(lock.clock); // the time for connecting does not count against the lease
    const result = await lock.elect(this.ownerId, this.request.leaseMs);
    if (result.outcome === 'no quorum')
      throw lock.undecided('not acquired', result.nodes, true, this.request.waitMs === 0);
    if (result.outcome === 'held') return result;
    this.#unreached = result.unreached;
    return { outcome: 'acquired', token: result.token, sentAt };
  }
}

// Subscribes to the unlock channels of all masters, and combines their messages about one release into one wake-up.

/** How long the wake-up waits after the first message, in milliseconds: before a majority has released, an election would fail. */
const GATHER_MS = 5;

function subscribeToAll(
  masters: readonly Master[],
  clock: Clock,
  listener: ChannelListener,
): Subscription {
  let timer: Timer | undefined;
  const hear = (): void => {
    timer ??= clock.setTimer(() => {
      timer = undefined;
      listener.message('0');
    }, GATHER_MS);
  };
  const subscriptions = masters.map(({ lock }) =>
    lock.subscribeToUnlocks({ subscribed: hear, message: hear }),
  );
  return {
    mayHaveMissed: (sinceMs) =>
      subscriptions.some((subscription) => subscription.mayHaveMissed(sinceMs)),
    close: () => {
      clock.clearTimer(timer);
      for (const subscription of subscriptions) subscription.close();
    },
  };
}

// What the Redlocks of one Holdfast share: their watchdog, their lines, and what they know of leases and of the masters' connections.

/**
 * A session of Redlocks treats its servers as reachable: all masters are asked at once, missing answers are part of the result, and the
 * Redlock itself waits for masters that are still connecting.
 */
const ALWAYS_REACHABLE: Reachable = {
  isReady: true,
  whenReady: () => Promise.resolve(),
  lastError: undefined,
};

export class QuorumServices {
  /** Redlocks have a session of their own, apart from those of their masters' clients. */
  readonly session: Session;
  /** The waiting lines of this client, one for each Redlock. */
  readonly lines: Lines<Line<NextWaiter>> = new Lines<Line<NextWaiter>>();
  readonly watchdog: Watchdog;
  readonly renewer: RedRenewer;
  /** The larger of `lockWatchdogTimeout` and the longest lease so far, in milliseconds. */
  longestLeaseMs: number;
  /** The masters' connections, and what ends listening to them. */
  readonly #connections = new Map<RedisClient, () => void>();

  constructor(owner: Session, events: Events) {
    const { lockWatchdogTimeoutMs } = owner;
    const reachable = { ...ALWAYS_REACHABLE, surroundings: owner };
    // On close, all releases are sent in the same turn (concurrency Infinity), since the masters' clients may be closing, too.
    this.session = new Session(owner, reachable, events, Infinity);
    this.longestLeaseMs = lockWatchdogTimeoutMs;
    this.renewer = new RedRenewer(lockWatchdogTimeoutMs, owner.clock);
    this.watchdog = new Watchdog({
      schedule: owner.schedule,
      leaseMs: lockWatchdogTimeoutMs,
      failed: (error, leaseCount) => {
        events.emit('error', () => ({ error: renewalFailed(error, leaseCount) }));
      },
      counted: (outcome, leases) => {
        events.publish('renewed', () => ({ outcome, leases }));
      },
    });
    // The Redlock may be made after its client was closed.
    if (owner.isClosed) void this.close();
  }

  /** Has all Redlocks renewed whenever one of these masters is back, since it may be empty. */
  listenTo(masters: readonly Master[]): void {
    if (this.session.isClosed) return;
    // Forget the connections of closed clients.
    for (const connection of this.#connections.keys())
      if (connection.refusal instanceof ClosedError) this.#connections.delete(connection);
    for (const { connection } of masters)
      if (!this.#connections.has(connection))
        this.#connections.set(connection, connection.listen({ ready: this.watchdog.renewAll }));
  }

  noteLease(leaseMs: number): void {
    this.longestLeaseMs = Math.max(this.longestLeaseMs, leaseMs);
  }

  /** Closes what the Redlocks share. The masters' clients belong to others and stay open. */
  async close(): Promise<void> {
    await this.session.close();
    this.watchdog.stop();
    for (const stopListening of this.#connections.values()) stopListening();
  }
}
