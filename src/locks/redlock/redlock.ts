// The Redlock: one lock on several independent masters, held by whoever most of them say holds it.

import type {
  AcquireReply,
  Granted,
  Heir,
  KeepReply,
  KeyPlace,
  LockBackend,
  LockRequest,
  Waiter,
} from '../../core/protocol.js';
import { ClosedError, type NodeAnswer } from '../../api/errors.js';
import type { KeyInTheWay } from '../../core/retry.js';
import type { TokenCounter } from '../fenced.js';
import { LineWaiter, type ReentrantLockBackend } from '../plain.js';
import type { ChannelListener, Subscription } from '../../waiting/channels.js';
import { Line, Lines } from '../../waiting/line.js';
import { type Clock, now, PROCESS_CLOCK, type Timer } from '../../runtime/clock.js';
import { assertDistinct, type Master, type RedLockParts, type RedLockSettings } from './master.js';
import {
  type Answer,
  type Election,
  largest,
  mayHaveRun,
  NoQuorum,
  poll,
  refusalOfMany,
  values,
  vote,
  type Vote,
} from './election.js';
import { ExtensionLimit, kept, RedRenewer, type RedTarget, repairOn } from './renewal.js';
import { leastAgeMs } from './restart-guard.js';
import { UnwantedError } from '../../redis/failure.js';
import { type Reachable, Session } from '../../core/session.js';
import type { Events } from '../../api/events.js';
import { renewalFailed } from '../../core/server.js';
import { Watchdog } from '../../core/watchdog.js';
import type { RedisClient } from '../../redis/client.js';

export class RedLockBackend implements LockBackend {
  readonly kind: string = 'RedLock';
  readonly name: string;
  readonly id: string;
  /** What a lost lock leaves on a minority of the masters has to be removed. */
  readonly leavesRemains = true;
  readonly masters: readonly Master[];
  readonly quorum: number;
  readonly clock: Clock;
  readonly health: Health;
  readonly nodeTimeoutMs: number;
  readonly newOwnerId: () => string;
  readonly #services: QuorumServices;
  readonly #settings: RedLockSettings;

  constructor({ name, masters, settings }: RedLockParts, services: QuorumServices) {
    this.name = name;
    this.masters = masters;
    this.quorum = Math.floor(masters.length / 2) + 1;
    this.clock = services.session.clock;
    this.health = new Health(this.clock, masters, this.quorum);
    this.nodeTimeoutMs = settings.nodeTimeoutMs;
    this.id = `red ${masters
      .map(({ lock }) => lock.id)
      .sort()
      .join(' ')}`;
    this.newOwnerId = services.session.newOwnerId;
    this.#settings = settings;
    this.#services = services;
    services.renewOnReady(masters);
  }

  /** Locks with the same batch key may be renewed together, in one call for each master. */
  get batchKey(): string {
    return this.masters.map(({ lock }) => `${lock.clientToken} ${lock.batchKey}`).join(' ');
  }

  waiter(newOwnerId: () => string, request: LockRequest): Waiter {
    return new RedWaiter(this, newOwnerId, request);
  }

  get isReachable(): boolean {
    return this.health.isReachable;
  }

  elect(ownerId: string, leaseMs: number, won: Election['won']): Promise<Vote> {
    const { clock, masters, quorum, nodeTimeoutMs } = this;
    const { random } = this.#services.session;
    this.#services.noteLease(leaseMs);
    const guard = this.#settings.guard(this.#services.longestLeaseMs);
    return vote({ clock, random, masters, quorum, ownerId, leaseMs, nodeTimeoutMs, guard, won });
  }

  readonly remembersAll = ({ lock }: Master): boolean => {
    const guard = this.#settings.guard(this.#services.longestLeaseMs);
    return lock.connection.server.ageMs >= leastAgeMs(guard, this.masters.length);
  };

  reenter(ownerId: string, holdCount: number, leaseMs: number): Promise<KeepReply> {
    this.#services.noteLease(leaseMs);
    const limit = { leftMs: this.nodeTimeoutMs };
    const ask = (master: Master): Promise<KeepReply> =>
      master.keep(ownerId, holdCount, leaseMs, limit);
    return this.#poll('not confirmed', ask, (answers) => {
      return kept(
        answers.map((answer) => (answer?.kind === 'answered' ? answer.value : undefined)),
        this.quorum,
      );
    });
  }

  /** Releases the lock also on masters that did not vote for this owner: their votes may only be late. */
  release(ownerId: string): Promise<boolean> {
    // While most masters are being connected, those that are there need not wait for them. (Whether the lock was lost only most can tell.)
    const isThere = ({ lock }: Master): boolean => lock.connection.isReady;
    const there = this.health.isSettled ? [] : this.masters.filter(isThere);
    const asked = new Map(there.map((master) => [master, master.release(ownerId)]));
    for (const answer of asked.values()) answer.catch(() => undefined);
    const ask = (master: Master): Promise<boolean> => asked.get(master) ?? master.release(ownerId);
    return this.#poll('not known to be released', ask, (answers) => {
      const released = values(answers).filter(Boolean).length;
      if (released >= this.quorum) return true;
      const gone = values(answers).length - released;
      return gone > this.masters.length - this.quorum ? false : undefined;
    });
  }

  get memberIds(): string[] {
    return this.masters.map(({ lock }) => lock.id);
  }

  get keyPlaces(): KeyPlace[] {
    return this.masters.flatMap(({ lock }) => lock.keyPlaces);
  }

  watch(grant: Granted): void {
    this.#services.watch({ lock: this, grant }, this.#settings.maxExtensions);
  }

  unwatch(grant: Granted): void {
    this.#services.unwatch(grant);
  }

  line(): Line<Heir> {
    const { clock, masters, quorum, nodeTimeoutMs } = this;
    return this.#services.lines.of(this.id, (onEmpty) => {
      const watch = (listener: ChannelListener): UnlockWatch =>
        new UnlockWatch(masters, quorum, nodeTimeoutMs, listener, clock);
      const lookEveryMs = this.#services.session.lockWatchdogTimeoutMs / 3;
      return new Line({ clock, lookEveryMs, subscribe: watch, onEmpty });
    });
  }

  async forceUnlock(wordMs: number): Promise<readonly string[]> {
    // From a master that is not asked the holder's renewals would spread again to those that are.
    const { clock } = this;
    const endsAtMs = clock.nowMs() + this.nodeTimeoutMs;
    await this.health.whenAllSettled(() => clock.nowMs() > endsAtMs);
    const forced = await this.all('not known to be forced', (lock) => lock.forceUnlock(wordMs));
    // Others may have left single votes: the holder is whom most of them knew.
    const owners = forced.flat();
    const count = (owner: string): number => owners.filter((other) => other === owner).length;
    return owners.sort((one, other) => count(other) - count(one)).slice(0, 1);
  }

  /** What is in the way on the first master that tells of it. */
  async keyInTheWay(): Promise<KeyInTheWay | undefined> {
    const looks = this.masters.map(async ({ name, lock }) => {
      const found = await lock.keyInTheWay();
      if (!found) throw new Error('nothing is in the way there');
      return { ...found, node: name };
    });
    return await Promise.any(looks).catch(() => undefined);
  }

  /**
   * While a master does not answer, those that do may be too few to tell: it may be one of the holder's. A look takes the word of all, also
   * of those that have restarted and may have forgotten a holder: the restart guard is for elections.
   */
  isLocked(): Promise<boolean> {
    const ask = ({ lock }: Master): Promise<boolean> => lock.isLocked();
    const decide = (answers: readonly Answer<boolean>[]): boolean | undefined => {
      const locked = values(answers).filter(Boolean).length;
      if (locked >= this.quorum) return true;
      const free = values(answers).length - locked;
      return free > this.masters.length - this.quorum ? false : undefined;
    };
    return this.#poll('not looked at', ask, decide, true);
  }

  async holdCount(ownerId: string): Promise<number> {
    return this.#agreed(await this.all('not looked at', (lock) => lock.holdCount(ownerId)));
  }

  /** For how long a majority of the masters keeps the lock. */
  async remainTimeToLive(): Promise<number> {
    const leftMs = await this.all('not looked at', (lock) => lock.remainTimeToLive());
    const agreed = this.#agreed(
      leftMs.map((ms) => (ms === -1 ? Infinity : ms)),
      -2,
    );
    return agreed === Infinity ? -1 : agreed;
  }

  /** The largest number that a majority reaches. */
  #agreed(numbers: readonly number[], none = 0): number {
    return [...numbers].sort((one, other) => other - one)[this.quorum - 1] ?? none;
  }

  /** The answers of at least a majority. */
  protected all<T>(what: string, ask: (lock: ReentrantLockBackend) => Promise<T>): Promise<T[]> {
    const enough = (answers: readonly Answer<T>[], isFinal: boolean): T[] | undefined =>
      isFinal && values(answers).length >= this.quorum ? values(answers) : undefined;
    return this.#poll(what, ({ lock }) => ask(lock), enough, true);
  }

  /** Asks all masters; rejects with NoQuorum when their answers decide nothing. A look is not repeated while most are down. */
  async #poll<T, Decision>(
    what: string,
    ask: (master: Master) => Promise<T>,
    decide: (answers: readonly Answer<T>[], isFinal: boolean) => Decision | undefined,
    isLook = false,
  ): Promise<Decision> {
    const { clock, masters, nodeTimeoutMs } = this;
    if (!this.health.isSettled) {
      const endsAtMs = clock.nowMs() + this.#services.session.commandTimeoutMs;
      await this.health.whenSettled(() => clock.nowMs() > endsAtMs);
    }
    return await poll<T, Decision>(clock, masters, ask, nodeTimeoutMs, (answers, isFinal) => {
      const decision = decide(answers, isFinal);
      if (decision !== undefined || !isFinal) return decision;
      const refusal = refusalOfMany(answers, this.masters.length - this.quorum);
      if (refusal) return refusal;
      const nodes = answers.map(this.#nodeAnswer);
      const failure = new NoQuorum(this.name, what, this.quorum, nodes, answers.some(mayHaveRun));
      const isOver = this.health.isHopeless || (isLook && !this.health.isReachable);
      return isOver ? failure.told : failure;
    });
  }

  readonly #nodeAnswer = (answer: Answer<unknown>, index: number): NodeAnswer => {
    const node = this.masters[index]?.name ?? '';
    if (answer?.kind === 'unreachable')
      return { node, answer: 'unreachable', reason: answer.reason };
    const isConfirmed = answer?.value === 'kept' || answer?.value === true;
    return { node, answer: isConfirmed ? 'acquired' : 'gone' };
  };
}

// A caller who wants a Redlock: each try is an election with an owner of its own, since a failed one is taken back, and
// what takes it back may arrive late.

/** A Redlock, as whoever waits for it knows it. */
interface ElectingLock {
  readonly clock: Clock;
  readonly name: string;
  readonly masters: readonly Master[];
  readonly quorum: number;
  readonly health: Health;
  /** The line in which those of this client wait for it. */
  line(): Line<Heir>;
  elect(ownerId: string, leaseMs: number, won: Election['won']): Promise<Vote>;
}

class RedWaiter extends LineWaiter {
  readonly #lock: ElectingLock;
  readonly #newOwnerId: () => string;
  #ownerId: string;
  #isOwnerUsed = false;
  #hasLeft = false;
  /** The masters that the election which was won did not reach. */
  #unreached: readonly Master[] = [];

  constructor(lock: ElectingLock, newOwnerId: () => string, request: LockRequest) {
    super(request, () => lock.line());
    this.#lock = lock;
    this.#newOwnerId = newOwnerId;
    this.#ownerId = newOwnerId();
  }

  get ownerId(): string {
    return this.#ownerId;
  }

  override leave(leaseMs?: number): boolean {
    this.#hasLeft = true;
    return super.leave(leaseMs);
  }

  /**
   * Asks the masters that the election did not reach, such as one that has been connected since: until they have the owner, the loss of one
   * voter may be that of the lock. (They need not pass the restart guard: the majority that stands keeps everybody else out.)
   */
  won(grant: Granted): void {
    for (const master of this.#unreached)
      if (master.lock.connection.isReady) repairOn(master, grant, 0);
  }

  async try(): Promise<AcquireReply> {
    if (this.#isOwnerUsed) this.#ownerId = this.#newOwnerId();
    this.#isOwnerUsed = true;
    const { health } = this.#lock;
    if (!health.isSettled) await health.whenSettled(() => this.#hasLeft);
    if (this.#hasLeft) throw new UnwantedError();
    assertDistinct(this.#lock.name, this.#lock.masters);
    const sentAt = now(this.#lock.clock); // connecting takes nothing from the lease
    const vote = await this.#lock.elect(this.#ownerId, this.request.leaseMs, (unreached) => {
      this.#unreached = unreached;
    });
    if (vote.outcome === 'acquired') return { ...vote, sentAt };
    if (vote.outcome === 'held') return vote;
    const { name, quorum } = this.#lock;
    const failure = new NoQuorum(name, 'not acquired', quorum, vote.nodes, true);
    throw this.request.waitMs > 0 && !health.isHopeless ? failure : failure.told;
  }
}

// The Redlock over fenced locks: its holders have a token that most masters know.

export class FencedRedLockBackend extends RedLockBackend {
  override readonly kind = 'FencedRedLock';
  readonly isFenced = true;
  readonly counter: Pick<TokenCounter, 'last'> = {
    /**
     * The largest token among a majority's answers: every majority includes a master that had the last holder's token. That one may have
     * restarted since, however long ago, so no guard by its age would help. It is for people: an election does not rely on it (`write-back.ts`).
     */
    last: async () =>
      largest(await this.all('not looked at', ({ counter }) => counter?.last() ?? NONE)),
  };
}

const NONE = Promise.resolve(undefined);

// What the Redlocks of one Holdfast share: their watchdog, their lines, and what they know of leases.

/**
 * A session of Redlocks takes its servers for reachable: all masters are asked at once, who does not answer is part of the result, and
 * `Health` waits for connections that are being made.
 */
const ALWAYS_REACHABLE: Reachable = {
  isReady: true,
  whenReady: () => Promise.resolve(),
  lastError: undefined,
};

export class QuorumServices {
  /** Redlocks are held, awaited and given up apart from the locks of any one master. */
  readonly session: Session;
  /** Where those of this client wait, for each lock in one line. */
  readonly lines: Lines<Line<Heir>> = new Lines<Line<Heir>>();
  readonly #watchdog: Watchdog;
  readonly #renewer: RedRenewer;
  /** The masters' connections, and what ends listening to them. */
  readonly #connections = new Map<RedisClient, () => void>();
  #longestLeaseMs: number;

  constructor(owner: Session, events: Events) {
    const { lockWatchdogTimeoutMs } = owner;
    const reachable = { ...ALWAYS_REACHABLE, surroundings: owner };
    // When the session is closed, all releases go out in that turn: the clients of the masters may be closing, too.
    this.session = new Session(owner, reachable, events, Infinity);
    this.#longestLeaseMs = lockWatchdogTimeoutMs;
    this.#renewer = new RedRenewer(lockWatchdogTimeoutMs, owner.clock);
    this.#watchdog = new Watchdog({
      schedule: owner.schedule,
      leaseMs: lockWatchdogTimeoutMs,
      failed: (error, leaseCount) => {
        events.emit('error', () => renewalFailed(error, leaseCount));
      },
    });
    // For a Redlock that is made after its client was closed.
    if (owner.isClosed) void this.close();
  }

  /** Renews all Redlocks when a master is back, perhaps empty. */
  renewOnReady(masters: readonly Master[]): void {
    if (this.session.isClosed) return;
    // The clients of masters may come and go.
    for (const connection of this.#connections.keys())
      if (connection.refusal instanceof ClosedError) this.#connections.delete(connection);
    for (const { connection } of masters.map(({ lock }) => lock)) {
      if (this.#connections.has(connection)) continue;
      this.#connections.set(connection, connection.listen({ ready: this.#watchdog.renewAll }));
    }
  }

  /** The larger of `lockWatchdogTimeout` and the longest lease so far, in milliseconds. */
  get longestLeaseMs(): number {
    return this.#longestLeaseMs;
  }

  noteLease(leaseMs: number): void {
    if (leaseMs > this.#longestLeaseMs) this.#longestLeaseMs = leaseMs;
  }

  /** Watches the grant of a Redlock, and extends its lease `maxExtensions` times at most. */
  watch(target: RedTarget, maxExtensions: number): void {
    const { grant } = target;
    if (maxExtensions < Infinity) {
      const { lockWatchdogTimeoutMs, clock } = this.session;
      grant.renewalLimit ??= new ExtensionLimit(
        maxExtensions,
        lockWatchdogTimeoutMs,
        grant.ageMs(),
        clock,
      );
    }
    this.#watchdog.watch(grant, target, this.#renewer);
  }

  unwatch(grant: Granted): void {
    this.#watchdog.unwatch(grant);
  }

  /** Ends what Redlocks share. The clients of the masters are others', and may live on. */
  async close(): Promise<void> {
    await this.session.close();
    this.#watchdog.stop();
    for (const stopListening of this.#connections.values()) stopListening();
    this.#connections.clear();
  }
}

// The masters of one Redlock as a whole: whether a majority of them can be asked now, may be soon, or never will be.

/** How often connections that are being made are looked at, in milliseconds. */
const CONNECTING_MS = 5;

export class Health {
  readonly #clock: Clock;
  readonly #masters: readonly Master[];
  readonly #quorum: number;

  constructor(clock: Clock, masters: readonly Master[], quorum: number) {
    this.#clock = clock;
    this.#masters = masters;
    this.#quorum = quorum;
  }

  /** Whether a majority is connected. */
  get isReachable(): boolean {
    return this.#count(({ lock }) => lock.connection.isReady) >= this.#quorum;
  }

  /** Whether waiting for a majority would not help: too many masters are closed, or refuse us. */
  get isHopeless(): boolean {
    const refused = this.#count(({ lock }) => lock.connection.refusal !== undefined);
    return refused > this.#masters.length - this.#quorum;
  }

  /** Whether a majority is connected, or no more will be for now. */
  get isSettled(): boolean {
    return this.isReachable || !this.#isConnecting;
  }

  /** Waits for connections that are being made, until a majority is there or `isGivenUp`. */
  async whenSettled(isGivenUp: () => boolean): Promise<void> {
    while (!this.isSettled && !isGivenUp()) await this.#aMoment();
  }

  /** The same for all of them: until none is being made, or `isGivenUp`. */
  async whenAllSettled(isGivenUp: () => boolean): Promise<void> {
    while (this.#isConnecting && !isGivenUp()) await this.#aMoment();
  }

  #aMoment(): Promise<void> {
    return new Promise((resolve) => {
      this.#clock.setTimer(resolve, CONNECTING_MS);
    });
  }

  get #isConnecting(): boolean {
    return this.#count((master) => master.isConnecting) > 0;
  }

  #count(is: (master: Master) => boolean): number {
    return this.#masters.filter(is).length;
  }
}

// Listens to the unlock channels of several masters: a release is told by each of them, and is one wake-up. It comes when
// most have told, since before that a new election would fail.

/** How long a message waits for those of other masters. */
const GATHER_MS = 10;

export class UnlockWatch implements Subscription {
  readonly #clock: Clock;
  readonly #listener: ChannelListener;
  readonly #quorum: number;
  readonly #stragglingMs: number;
  readonly #subscriptions: readonly Subscription[];
  /** The masters that have told of a release which was not passed on yet. */
  readonly #heard = new Set<Master>();
  /** The masters that have not yet told of a release that was passed on already, a moment ago. */
  readonly #stragglers = new Set<Master>();
  #passedOnAtMs = -Infinity;
  #timer: Timer | undefined;

  /** `nodeTimeoutMs`: how much later some masters may tell than others. */
  constructor(
    masters: readonly Master[],
    quorum: number,
    nodeTimeoutMs: number,
    listener: ChannelListener,
    clock: Clock = PROCESS_CLOCK,
  ) {
    this.#clock = clock;
    this.#listener = listener;
    this.#quorum = quorum;
    this.#stragglingMs = Math.max(GATHER_MS, nodeTimeoutMs);
    this.#subscriptions = masters.map((master) => {
      const hear = (): void => {
        this.#hear(master, masters);
      };
      return master.lock.subscribeToUnlocks({ subscribed: hear, message: hear });
    });
  }

  get isSubscribed(): boolean {
    return this.#subscriptions.filter(({ isSubscribed }) => isSubscribed).length >= this.#quorum;
  }

  mayHaveMissed(sinceMs: number): boolean {
    return this.#subscriptions.some((subscription) => subscription.mayHaveMissed(sinceMs));
  }

  close(): void {
    this.#clock.clearTimer(this.#timer);
    for (const subscription of this.#subscriptions) subscription.close();
  }

  #hear(master: Master, masters: readonly Master[]): void {
    const isPassedOn = this.#clock.nowMs() - this.#passedOnAtMs < this.#stragglingMs;
    if (this.#stragglers.delete(master) && isPassedOn) return;
    this.#heard.add(master);
    if (this.#heard.size >= this.#quorum) {
      for (const other of masters) if (!this.#heard.has(other)) this.#stragglers.add(other);
      this.#passedOnAtMs = this.#clock.nowMs();
      this.#notify();
    } else {
      this.#timer ??= this.#clock.setTimer(this.#notify, GATHER_MS);
    }
  }

  readonly #notify = (): void => {
    this.#clock.clearTimer(this.#timer);
    this.#timer = undefined;
    this.#heard.clear();
    this.#listener.message('0');
  };
}
