// Several locks as one: all of them, or none.

import { inspect, type InspectOptions } from 'node:util';
import type { Session } from '../core/session.js';
import { type HoldOrigin, idOf, type KeyPlace, type OwnHold } from '../core/protocol.js';
import { BaseLock, type DefaultWaits, type HeldHere } from './base-lock.js';
import { parseMembers, type SingleLock } from './single-lock.js';
import {
  lockCallBegins,
  nothingToUnlock,
  warnOfShortTime,
  warnOfShortTimes,
} from '../core/misuse.js';
import { type AcquireRequest, parseLease, patientWait } from '../api/options.js';
import { inTurn, pauseIfLong } from '../runtime/node.js';
import { currentScope, Scope } from '../scopes/scope.js';
import type { MarkedLock } from '../scopes/anonymous.js';
import {
  isUnanswered,
  LockLostError,
  LockTimeoutError,
  OptionError,
  type SeenHolder,
  UnavailableError,
} from '../api/errors.js';
import { LONGEST_ASKING_MS } from '../core/acquisition.js';
import {
  aborted,
  heldByNeighbour,
  mayComeFree,
  memberHeldElsewhere,
  notExportable,
  SLOW_ANSWER_MS,
} from '../core/messages.js';
import type { HoldWatch, WatchedHold } from '../core/hold-watch.js';
import { EXTENSION, type SingleHold, warnOfLateUse } from '../core/hold.js';
import { explainWrongCalls, KINDS } from '../core/wrong-calls.js';
import { neighbourOf } from '../core/neighbours.js';
import { acquireBegins, acquireEnds, acquireFails, areCallsHeard } from '../core/telemetry.js';
import type { Clock } from '../runtime/clock.js';
import { WaitEnded, WaitLimit } from '../runtime/wait-limit.js';
import { type HoldDescription, inspected } from '../api/description.js';

export class MultiLock extends BaseLock {
  static {
    explainWrongCalls(MultiLock, KINDS.lock);
  }

  readonly name: string;
  readonly #session: Session;
  readonly #members: readonly SingleLock[];
  readonly #id: string;
  readonly #suspects: Suspects;

  /** @throws OptionError a member cannot be one */
  constructor(session: Session, locks: readonly unknown[]) {
    super();
    const right =
      'it must be a lock of getLock(), getFairLock(), getFencedLock() or getRedLock(), or one half of getReadWriteLock()';
    this.#session = session;
    this.#members = parseMembers('a MultiLock', locks, right, () => true);
    this.name = `multi(${this.#members.map(({ name }) => name).join(', ')})`;
    this.#id = idOf('multi', ...this.#members.map(({ id }) => id).sort());
    this.#suspects = suspectsAmong(this.#members);
  }

  protected override get kind(): string {
    return 'MultiLock';
  }

  protected override get holdWatch(): HoldWatch | undefined {
    return this.#session.holdWatch;
  }

  /** Members of other clients may have longer leases. */
  protected override get defaultWaits(): DefaultWaits {
    const { wait } = this.#session;
    const timeoutsMs = this.#members.map(({ parts }) => parts.session.lockWatchdogTimeoutMs);
    return { wait, defaultWait: wait ?? patientWait(Math.max(...timeoutsMs)) };
  }

  override get held(): HeldHere | undefined {
    const held = this.#members.map((member) => member.held);
    const [first] = held;
    if (!first || held.includes(undefined)) return undefined;
    return {
      ownerId: first.ownerId,
      remainingMs: Math.min(...held.map((each) => each?.remainingMs ?? 0)),
    };
  }

  override get isKept(): boolean {
    return this.#members.every((member) => member.isKept);
  }

  override get marked(): readonly MarkedLock[] {
    return this.#members.flatMap((member) => member.marked);
  }

  override async unlock(): Promise<void> {
    const left = this.#members.filter(({ isUnlockable }) => isUnlockable);
    const isRepeat = left.length > 0 && left.every((member) => member.isReleaseToRepeat);
    if (left.length < this.#members.length && !isRepeat) {
      const isHeldAround = this.#members.every((member) => member.isHeldAround);
      const named = { id: this.#id, name: this.name };
      throw await inTurn(nothingToUnlock(named, isHeldAround, this.marked));
    }
    await this.#all((member) => member.unlock(), left);
  }

  override async isLocked(): Promise<boolean> {
    return (await this.#all((member) => member.isLocked())).every(Boolean);
  }

  override async getHoldCount(): Promise<number> {
    return Math.min(...(await this.#all((member) => member.getHoldCount())));
  }

  override async remainTimeToLive(): Promise<number> {
    const leftMs = await this.#all((member) => member.remainTimeToLive());
    const ending = leftMs.filter((ms) => ms !== -1);
    return ending.length > 0 ? Math.min(...ending) : -1;
  }

  override async forceUnlock(): Promise<boolean> {
    return (await this.#all((member) => member.forceUnlock())).some(Boolean);
  }

  protected override acquireHold(
    request: AcquireRequest,
    origin: HoldOrigin,
    scope?: Scope,
  ): Promise<MultiHold> {
    const [lockName, id, members] = [this.name, this.#id, this.#members];
    const wanted = { ...request, lockName, id, members, suspects: this.#suspects, origin, scope };
    return new MultiAcquisition(this.#session, wanted).hold();
  }

  /** Calls all members, even if some of the calls fail; throws the first error. */
  async #all<T>(
    call: (member: SingleLock) => Promise<T>,
    members: readonly SingleLock[] = this.#members,
  ): Promise<T[]> {
    const calls = members.map(call);
    await Promise.allSettled(calls);
    return await Promise.all(calls);
  }
}

// Acquires several locks, all or nothing: tries all at once; if another owner holds one, waits for that one while holding nothing, then
// tries the others. So the locks need no order, and no two callers wait for each other.

/** Once a caller of this client has failed this many rounds, the locks count as contended. */
const MANY_ROUNDS = 3;

/** How many round trips a new caller of contended locks waits after a wake-up: enough for others to try twice. */
const DEFERRED_ROUND_TRIPS = 6;

/** The bounds of the estimated round trip, in milliseconds. Not 0, or callers would run in step. */
const SHORTEST_ROUND_TRIP_MS = 1;
const LONGEST_ROUND_TRIP_MS = 20;

/** How long a failed round waits for the release of its members, in milliseconds; a silent server must not delay the caller. */
const UNDO_LIMIT_MS = 100;

interface MultiRequest extends AcquireRequest {
  readonly lockName: string;
  /** That of the MultiLock. */
  readonly id: string;
  readonly members: readonly SingleLock[];
  readonly suspects: Suspects;
  readonly origin: HoldOrigin;
  readonly scope: Scope | undefined;
}

/** A member that could not be acquired, and why. */
interface Refusal {
  readonly member: SingleLock;
  readonly error: unknown;
}

/** The MultiLock acquisitions under way, by client. */
const underWay = new WeakMap<Session, Set<MultiAcquisition>>();

export class MultiAcquisition {
  readonly #session: Session;
  readonly #request: MultiRequest;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #others: Set<MultiAcquisition>;
  /** Older calls are woken before younger ones, whichever member they wait for; otherwise some would need very many rounds. */
  readonly #sinceMs: number;
  readonly #endsAtMs: number;
  /** Aborted when the caller no longer wants the locks. */
  readonly #stop = new AbortController();
  /** The error of the latest member that was found held. */
  #lastHeld: LockTimeoutError | undefined;
  /** How many rounds have failed. */
  #rounds = 0;
  #roundTripMs = 0;

  constructor(session: Session, request: MultiRequest) {
    const { waitMs } = request;
    this.#session = session;
    this.#request = request;
    const { clock, random } = request.members[0]?.parts.session ?? session;
    this.#clock = clock;
    this.#random = random;
    this.#sinceMs = clock.nowMs();
    this.#endsAtMs = waitMs === 0 ? Infinity : this.#sinceMs + waitMs;
    this.#others = underWay.get(session) ?? new Set();
    underWay.set(session, this.#others);
  }

  /**
   * Tells of the whole, besides what its members tell.
   *
   * @throws what acquisitions of its members throw; LockTimeoutError names the member that was held
   */
  async hold(): Promise<MultiHold> {
    const session = this.#session;
    const { lockName, label, waitMs } = this.#request;
    const about = { lockName, kind: 'MultiLock', label };
    const message = areCallsHeard()
      ? acquireBegins(session, about, session.newEventId())
      : undefined;
    const ended = (): { attempts: number; tookMs: number } => ({
      attempts: this.#rounds + 1,
      tookMs: this.#clock.nowMs() - this.#sinceMs,
    });
    try {
      const hold = await this.#hold();
      const via = this.#rounds > 0 ? 'message' : 'first-try';
      if (message) acquireEnds(message, { ...ended(), via });
      return hold;
    } catch (error) {
      acquireFails(session, about, message, ended(), error, waitMs, undefined);
      await pauseIfLong(); // the call may have failed without a round trip
      throw error;
    }
  }

  async #hold(): Promise<MultiHold> {
    const { lockName, id, signal, origin } = this.#request;
    const named = { id, name: lockName };
    this.#session.assertOpen(lockName);
    if (signal?.aborted) throw aborted(named, 'nothing was sent', signal);
    const position = currentScope();
    warnOfShortTimes(this.#session, named, this.#request);
    const endCall = lockCallBegins(this.#session, named, origin, position);
    // The members' own waits enforce the time limit: this one handles only an abort and the close of the client.
    const waitLimit = new WaitLimit({
      clock: this.#clock,
      limitMs: Infinity,
      signal,
      registry: this.#session.acquisitions,
    });
    this.#others.add(this);
    const holding = this.#playRounds();
    try {
      return await waitLimit.within(holding);
    } catch (error) {
      if (!(error instanceof WaitEnded)) throw error;
      this.#stop.abort();
      // The locks may just have been acquired.
      holding.then((hold) => hold.releaseQuietly()).catch(() => undefined);
      if (error.ending === 'closed') throw this.#session.closedError(lockName);
      throw aborted(named, 'while waiting', signal, this.#seen);
    } finally {
      endCall?.();
      waitLimit.dispose();
      this.#others.delete(this);
    }
  }

  /** The owner that was last seen to have a member. */
  get #seen(): SeenHolder | undefined {
    const { holder, holderTtlMs = -1 } = this.#lastHeld ?? {};
    return holder === undefined ? undefined : { holder, holderTtlMs };
  }

  async #playRounds(): Promise<MultiHold> {
    const { members, waitMs, suspects } = this.#request;
    // The signal is this object's own, so the WaitLimit needs no disposal.
    const signal = this.#stop.signal;
    const untilStopped = new WaitLimit({ clock: this.#clock, limitMs: Infinity, signal });
    let inTheWay = waitMs > 0 ? members.find(isUnreachable) : undefined;
    for (;;) {
      if (suspects.length > 0) {
        const conflict = await this.#conflict(Math.min(this.#leftMs / 2, SLOW_ANSWER_MS));
        if (conflict instanceof OptionError) throw conflict; // other errors also come from the members themselves
      }
      const outcome = await this.#playRound(inTheWay);
      if (outcome instanceof MultiHold) return outcome;
      inTheWay = outcome;
      this.#rounds++;
      // A random pause, so that callers do not run in step.
      await untilStopped.pause(Math.min(this.#random() * this.#roundTripMs, this.#leftMs));
    }
  }

  /**
   * Waits for `first`, if given, while holding nothing, and then tries all others at once. Returns the hold, or the member to wait for in
   * the next round.
   */
  async #playRound(first: SingleLock | undefined): Promise<MultiHold | SingleLock | undefined> {
    const { lockName, members, leaseMs, atLeastMs, origin } = this.#request;
    const acquired = new Map<SingleLock, SingleHold>();
    const acquire = async (
      member: SingleLock,
      waitMs: number,
      attemptMs: number,
      newOwnerId: () => string,
    ): Promise<Refusal | undefined> => {
      const { scope, label, waitIs } = this.#request;
      const [signal, sinceMs, deferMs] = [this.#stop.signal, this.#sinceMs, this.#deferMs];
      const isQuiet = waitMs === 0;
      const terms = { attemptMs, isQuiet, sinceMs, deferMs };
      const request = { waitMs, waitIs, leaseMs, atLeastMs, signal, label, ...terms };
      try {
        // As `acquire`, whatever the caller called: no `unlock()` must be owed to a member that may yet be given back.
        acquired.set(member, await member.acquireHold(request, 'acquire', scope, newOwnerId));
        return undefined;
      } catch (error) {
        return { member, error };
      }
    };

    let triedAtMs = this.#clock.nowMs();
    let ownerId = '';
    const newOwnerId = (): string => (ownerId = this.#session.newOwnerId());
    const refused = first && (await acquire(first, this.#leftMs, this.#leftMs, newOwnerId));
    const refusals = refused ? [refused] : [];
    if (!refused) {
      const waited = first && acquired.get(first);
      // A waiter may have used several owners: the members share the last one. (A member that was re-entered keeps its own.)
      const commonId = waited?.ownerId === ownerId ? ownerId : newOwnerId();
      triedAtMs = this.#clock.nowMs();
      // Even the shortest wait allows one attempt; but none after a wait for `first` that used up the time.
      const attemptMs = first ? this.#leftMs : Math.max(this.#leftMs, 1);
      const tries = members
        .filter((member) => member !== first)
        .map((member) => {
          // A second try of a member gets an owner of its own, since its try as the common owner is being undone.
          const ids = [commonId];
          return acquire(member, 0, attemptMs, () => ids.pop() ?? this.#session.newOwnerId());
        });
      // Extend the first member's lease, so that all leases begin at the same time.
      if (first && waited && (leaseMs !== undefined || atLeastMs > 0))
        tries.push(this.#extend(first, waited, Math.max(leaseMs ?? 0, atLeastMs)));
      for (const refusal of await Promise.all(tries)) if (refusal) refusals.push(refusal);
      const tookMs = this.#clock.nowMs() - triedAtMs;
      this.#roundTripMs = Math.min(Math.max(tookMs, SHORTEST_ROUND_TRIP_MS), LONGEST_ROUND_TRIP_MS);
    }

    const holds = members.flatMap((member) => acquired.get(member) ?? []);
    const conflict =
      refusals.length === 0 && (await this.#conflict(Math.max(this.#leftMs, SLOW_ANSWER_MS)));
    const areHeld = holds.every((hold) => hold.remaining() > 0); // including the first, during the tries of the others
    if (!conflict && refusals.length === 0 && areHeld) {
      for (const hold of holds) hold.becomeMember(this.#session, origin, atLeastMs);
      return new MultiHold(this.#session, lockName, holds);
    }
    if (holds.length > 0) await this.#undo(holds);
    if (conflict instanceof OptionError) throw conflict;
    if (refusals.length > 0) return this.#inTheWay(refusals, first, triedAtMs);
    this.#lastHeld = undefined;
    if (!this.#isOver) return undefined;
    const what = conflict
      ? 'it is not known whether two of its members are the same key'
      : 'a member was lost before all were acquired';
    const losses = holds.map(({ signal }) => signal.reason as unknown);
    const cause = [conflict, ...losses].find((reason) => reason instanceof Error);
    throw this.#session.unavailable(lockName, `not acquired: ${what}`, cause);
  }

  /** Extends the lease of the member that was waited for, within the remaining wait; ends early when the call is aborted. */
  async #extend(
    member: SingleLock,
    hold: SingleHold,
    leaseMs: number,
  ): Promise<Refusal | undefined> {
    const limitMs = this.#leftMs;
    // After an abort, the other members must not stay held until Redis answers.
    const { signal } = this.#stop;
    const clock = this.#clock;
    const waitLimit = new WaitLimit({ clock, limitMs, signal, sparesAttempts: limitMs > 0 });
    if (signal.aborted) waitLimit.end('aborted');
    try {
      await waitLimit.attempt(() => hold.extendBy(leaseMs));
      return undefined;
    } catch (error) {
      if (error instanceof LockLostError) return undefined; // the caller sees that a lost hold has no time remaining
      if (!(error instanceof WaitEnded)) return { member, error };
      const what = `not extended: Redis did not answer within ${String(Math.round(limitMs))} ms`;
      return { member, error: this.#session.unavailable(member.name, what) };
    } finally {
      waitLimit.dispose();
    }
  }

  /** Releases what a round acquired. */
  async #undo(holds: readonly SingleHold[]): Promise<void> {
    const limit = new WaitLimit({ clock: this.#clock, limitMs: UNDO_LIMIT_MS });
    const releases = Promise.allSettled(holds.map((hold) => hold.releaseQuietly()));
    // Releases that take longer go on in the background.
    await limit.within(releases).catch(() => undefined);
    limit.dispose();
  }

  /** The member to wait for, among those not acquired. Throws if waiting does not help, or if no time is left. */
  #inTheWay(
    refusals: readonly Refusal[],
    first: SingleLock | undefined,
    triedAtMs: number,
  ): SingleLock | undefined {
    // An unreachable member is waited for like a held one, while this call holds nothing. If waiting does not help, its error says so. (Not
    // `first`: it was acquired, and only its extension failed.)
    const unreachable = refusals.find(
      ({ member, error }) => member !== first && isUnanswered(error),
    );
    if (unreachable && !this.#isOver) {
      this.#lastHeld = undefined; // will be out of date after the wait for that member
      return unreachable.member;
    }
    // Members that other clients keep may be free in a moment: this round is repeated.
    const isAsking = this.#clock.nowMs() - this.#sinceMs < LONGEST_ASKING_MS;
    if (isAsking && refusals.every(({ error }) => mayComeFree(error))) return undefined;
    const held = refusals.find(({ error }) => error instanceof LockTimeoutError);
    const worse = refusals.find(({ error }) => !(error instanceof LockTimeoutError));
    const seen = (held?.error as LockTimeoutError | undefined) ?? this.#lastHeld;
    this.#lastHeld = seen;
    if (!seen || (worse && !this.#isCutShort(worse.error, triedAtMs))) throw worse?.error;
    if (this.#isOver) {
      const hint = neighbourOf(this.#session, seen.holder ?? '') ? heldByNeighbour(true) : '';
      throw memberHeldElsewhere(this.#request.lockName, this.#request, seen, hint);
    }
    return held?.member;
  }

  /** Whether the wait ended while recent tries were unanswered: their answers may only be slow, so the last known holder counts. */
  #isCutShort(error: unknown, triedAtMs: number): boolean {
    const isYoung = Math.min(this.#clock.nowMs(), this.#endsAtMs) - triedAtMs <= SLOW_ANSWER_MS;
    return error instanceof UnavailableError && this.#leftMs <= 0 && isYoung;
  }

  /**
   * Why the members cannot be held together: an OptionError if two are the same key, or the error that prevented the check; undefined: no
   * conflict. A server that does not permit the query for its identity counts as distinct, and so does an unconnected master of a Redlock.
   */
  async #conflict(mostMs: number): Promise<unknown> {
    const { suspects, lockName } = this.#request;
    if (suspects.length === 0) return undefined;
    const { commandTimeoutMs, acquisitions: registry } = this.#session;
    const limitMs = Math.min(mostMs, commandTimeoutMs);
    const { signal } = this.#stop;
    const ask = async (place: Place): Promise<string | undefined> => {
      const limit = new WaitLimit({ clock: this.#clock, limitMs, signal, registry });
      return await homeOf(place, limit).finally(() => {
        limit.dispose();
      });
    };
    try {
      for (const alike of suspects) {
        const homes = await Promise.all(alike.map(ask));
        for (const [index, home] of homes.entries()) {
          const [twin, place] = [alike[homes.indexOf(home)], alike[index]];
          if (home === undefined || !twin || !place || twin === place) continue;
          const [first = '', second = ''] = [twin, place].map(
            (each) => `"${each.lockName}" by ${each.connection.place}`,
          );
          return new OptionError(
            `lock "${lockName}": its members ${first} and ${second} are the same key, "${twin.key}", of the same server (${home}): each must be another lock`,
            { lockName },
          );
        }
      }
      return undefined;
    } catch (error) {
      return error;
    }
  }

  /**
   * How long this call lets others try first after a wake-up, in milliseconds. Under contention some callers would always lose, so callers
   * that have failed more often go first. Between processes, time is the only means for that.
   */
  readonly #deferMs = (): number => {
    const most = Math.max(...[...this.#others].map((caller) => caller.#rounds));
    if (most < MANY_ROUNDS) return 0;
    const deferMs = DEFERRED_ROUND_TRIPS * this.#roundTripMs * (1 - this.#rounds / most);
    return Math.min(deferMs, this.#leftMs / 2);
  };

  /** Whether there is no time for another round. */
  get #isOver(): boolean {
    return this.#request.waitMs === 0 || this.#leftMs <= 0;
  }

  get #leftMs(): number {
    return Math.max(this.#endsAtMs - this.#clock.nowMs(), 0);
  }
}

/** Whether this member is unreachable now: then the call waits for it first, while holding nothing. */
function isUnreachable({ parts: { session, backend } }: SingleLock): boolean {
  return !(backend.isReachable ?? session.connection.isReady);
}

// A hold of several locks. It lasts as long as its shortest-lived member, and is lost with the first member that is lost.

export class MultiHold implements OwnHold {
  static {
    explainWrongCalls(MultiHold, KINDS.hold);
  }

  readonly lockName: string;
  readonly ownerId: string;
  readonly members: readonly SingleHold[];
  readonly #session: Session;
  readonly #aborter = new AbortController();
  #loss: LockLostError | undefined;
  #hasFunctionEnded = false;

  constructor(session: Session, lockName: string, members: readonly SingleHold[]) {
    this.#session = session;
    this.lockName = lockName;
    this.ownerId = members[0]?.ownerId ?? ''; // the members share it, except re-entered ones
    this.members = members;
    for (const { signal } of members) {
      const lost = (): void => {
        this.#lose(signal.reason as LockLostError);
      };
      if (signal.aborted) lost();
      else signal.addEventListener('abort', lost, { once: true });
    }
  }

  /** Its first member: it ends with the whole. */
  get watched(): WatchedHold {
    const [first] = this.members;
    if (!first) throw new Error('a MultiLock has members');
    return first;
  }

  get signal(): AbortSignal {
    this.#noticeLateUse();
    return this.#aborter.signal;
  }

  remaining(): number {
    this.#noticeLateUse();
    return this.#remainingMs;
  }

  get #remainingMs(): number {
    return Math.min(...this.members.map((member) => member.remaining()));
  }

  assertHeld(): void {
    this.#noticeLateUse();
    if (this.#loss) throw this.#loss;
    for (const member of this.members) member.assertHeld();
  }

  async extend(lease: number): Promise<void> {
    const leaseMs = parseLease(lease, 'lease', this.lockName);
    this.assertHeld();
    warnOfShortTime(this.#session, { name: this.lockName }, EXTENSION, leaseMs);
    await this.#all((member) => member.extendBy(leaseMs));
  }

  export(): Promise<never> {
    const why = 'it is one of a MultiLock, which may have several servers';
    return inTurn(notExportable(this.lockName, why)).then((error) => {
      throw error;
    });
  }

  async release(): Promise<void> {
    await this.#all((member) => member.release());
  }

  async run<T>(fn: () => T | Promise<T>): Promise<T> {
    this.assertHeld();
    const scope = new Scope(currentScope(), false);
    for (const member of this.members) member.enterInto(scope);
    return await scope.run(fn);
  }

  runInside<T>(fn: () => T): T {
    return this.members.reduceRight((inner, member) => () => member.runInside(inner), fn)();
  }

  toJSON(): HoldDescription {
    const remainingMs = Math.round(this.#remainingMs); // makes each member check its deadline
    const isHeld = this.members.every((member) => member.toJSON().state === 'held');
    const state = this.#loss ? 'lost' : isHeld ? 'held' : 'released';
    const { lockName, ownerId } = this;
    return { lockName, state, ownerId, remainingMs };
  }

  /** For `util.inspect` and `console.log`. @internal */
  [inspect.custom](depth: number, options: InspectOptions): string {
    return inspected('Hold', this.toJSON(), depth, options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.releaseQuietly();
  }

  async releaseQuietly(): Promise<void> {
    await this.#all((member) => member.releaseQuietly());
  }

  functionEnded(): void {
    this.#hasFunctionEnded = true;
  }

  /** Makes each member check whether its deadline has passed. */
  #look(): void {
    for (const member of this.members) member.remaining();
  }

  #noticeLateUse(): void {
    this.#look();
    if (this.#hasFunctionEnded && !this.#loss) warnOfLateUse(this.#session, this.lockName);
  }

  /** Calls all members, even if some of the calls fail. The loss of a member takes precedence over other errors. */
  async #all(call: (member: SingleHold) => Promise<void>): Promise<void> {
    this.#look();
    const outcomes = await Promise.allSettled(this.members.map(call));
    if (this.#loss) throw this.#loss;
    for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
  }

  /** A member was lost: gives up the others. */
  #lose(cause: LockLostError): void {
    if (this.#loss) return;
    const { lockName } = this;
    const { lossReason, provenAt } = cause;
    const error = new LockLostError(`lock "${lockName}" lost: ${cause.message}`, {
      lockName,
      lossReason,
      provenAt,
      cause,
    });
    this.#loss = error;
    this.#aborter.abort(error);
    for (const member of this.members) member.loseAsMember(error).catch(() => undefined); // a member's own loss was already reported
  }
}

// Detects members of a MultiLock that are the same key on the same server: through two clients, or prefixes that result in the same key.
// All members share one owner, so each would mistake the other's hold for its own.

/** A key of a member; a Redlock has one for each of its masters. */
interface Place extends KeyPlace {
  readonly lockName: string;
  /** Whether the member can be held without this key. */
  readonly isDispensable: boolean;
}

/** Groups of places with the same key, and perhaps on the same server. */
type Suspects = readonly (readonly Place[])[];

function suspectsAmong(members: readonly SingleLock[]): Suspects {
  const places = new Map<string, Place[]>();
  for (const { name: lockName, parts } of members) {
    const { keyPlaces = [], memberIds } = parts.backend;
    for (const { key, connection } of keyPlaces) {
      const place = { key, connection, lockName, isDispensable: memberIds !== undefined };
      places.set(key, [...(places.get(key) ?? []), place]);
    }
  }
  return [...places.values()].filter(({ length }) => length > 1);
}

async function homeOf(place: Place, limit: WaitLimit): Promise<string | undefined> {
  const { key, connection, isDispensable } = place;
  return isDispensable && !connection.isReady ? undefined : await connection.homeOf(key, limit);
}
