// Acquires several locks, all or nothing: tries all at once, and when one was in the way waits for that one while holding
// nothing, then tries the others. So no order among the locks is needed, and no two callers wait for each other.

import type { Session } from '../../core/session.js';
import { OwnerSpentError } from './common-owner.js';
import { isUnanswered, LockTimeoutError, OptionError, UnavailableError } from '../../api/errors.js';
import type { HoldOrigin } from '../../core/own-hold.js';
import { anonymousLockId, lockCallBegins } from '../../core/lock-calls.js';
import { MultiHold } from './multi-hold.js';
import { MultiRound, undo, type Refusal } from './multi-round.js';
import type { AcquireRequest } from '../../api/options.js';
import { aborted, memberHeldElsewhere, SLOW_ANSWER_MS } from '../../core/refusals.js';
import { currentScope, type Scope } from '../../scopes/scope.js';
import type { SingleHold } from '../../core/single-hold.js';
import type { SingleLock } from '../single-lock.js';
import type { SameKeys } from './same-keys.js';
import type { Clock } from '../../runtime/clock.js';
import { WaitLimit, WaitEnded } from '../../runtime/wait-limit.js';

/** Once a caller of this client has had so many rounds, the locks are taken for contended. */
const MANY_ROUNDS = 3;

/** How many round trips whoever is new to contended locks lets go by when it is woken: enough for others to try twice. */
const DEFERRED_ROUND_TRIPS = 6;

export interface MultiRequest extends AcquireRequest {
  readonly lockName: string;
  readonly members: readonly SingleLock[];
  readonly sameKeys: SameKeys;
  readonly origin: HoldOrigin;
  readonly scope: Scope | undefined;
}

const underWay = new WeakMap<Session, Set<MultiAcquisition>>();

/** All such acquisitions of one client that are under way. */
export function underWayIn(session: Session): Set<MultiAcquisition> {
  const known = underWay.get(session) ?? new Set();
  underWay.set(session, known);
  return known;
}

export class MultiAcquisition {
  readonly #session: Session;
  readonly #request: MultiRequest;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #endsAtMs: number;
  /** The error of the member that was last seen in the way. */
  #lastHeld: LockTimeoutError | undefined;
  /** Old callers are woken before younger ones, whichever member they wait for: else some would need very many rounds. */
  readonly #sinceMs: number;
  /** How often it found a member in the way. */
  #round = 0;
  #roundTripMs = 0;
  readonly #stop = new AbortController();

  constructor(session: Session, request: MultiRequest) {
    const { lockName, signal, waitMs } = request;
    session.assertOpen(lockName);
    if (signal?.aborted) throw aborted(lockName, 'nothing was sent', signal);
    this.#session = session;
    this.#request = request;
    const { clock, random } = request.members[0]?.parts.session ?? session;
    this.#clock = clock;
    this.#random = random;
    this.#sinceMs = clock.nowMs();
    this.#endsAtMs = waitMs === 0 ? Infinity : this.#sinceMs + waitMs;
  }

  /** @throws what acquisitions of its members throw; LockTimeoutError names the member that was in the way */
  async hold(): Promise<MultiHold> {
    const { lockName, signal, origin, leaseMs } = this.#request;
    const position = currentScope();
    const named = { id: lockName, name: lockName };
    const endCall = lockCallBegins(this.#session, named, origin, leaseMs, position);
    // The members' waits keep to the time limit: only an abort and a closing client must be watched for here.
    const waitLimit = new WaitLimit({
      clock: this.#clock,
      limitMs: Infinity,
      signal,
      anonymousLockId: anonymousLockId(origin, lockName, position),
      registry: this.#session.acquisitions,
    });
    const others = underWayIn(this.#session).add(this);
    const rounds = this.#rounds();
    try {
      return await waitLimit.within(rounds);
    } catch (error) {
      if (!(error instanceof WaitEnded)) throw error;
      this.#stop.abort();
      // The locks may just have been acquired.
      rounds.then((hold) => hold.releaseQuietly()).catch(() => undefined);
      if (error.ending === 'closed') throw this.#session.closedError(lockName);
      throw aborted(lockName, 'while waiting', signal);
    } finally {
      endCall?.();
      waitLimit.dispose();
      others.delete(this);
    }
  }

  async #rounds(): Promise<MultiHold> {
    const { members, waitMs } = this.#request;
    // Nobody but us has its signal, so there is nothing to dispose of.
    const signal = this.#stop.signal;
    const untilStopped = new WaitLimit({ clock: this.#clock, limitMs: Infinity, signal });
    let inTheWay = waitMs > 0 ? members.find(isUnreachable) : undefined;
    for (;;) {
      if (this.#request.sameKeys.areSuspected) {
        const conflict = await this.#conflict(Math.min(this.#leftMs / 2, SLOW_ANSWER_MS));
        if (conflict instanceof OptionError) throw conflict; // anything else the members say themselves
      }
      const outcome = await this.#tryAll(inTheWay);
      if (outcome instanceof MultiHold) return outcome;
      inTheWay = outcome;
      this.#round++;
      // Random, so that callers do not run in step.
      await untilStopped.pause(Math.min(this.#random() * this.#roundTripMs, this.#leftMs));
    }
  }

  /**
   * For how long it lets others try first when it is woken. Where locks are contended somebody would always be unlucky: so who
   * has been disappointed more often goes first, by the only means there is among processes, time.
   */
  readonly #deferMs = (): number => {
    const most = Math.max(...[...underWayIn(this.#session)].map((caller) => caller.#round));
    if (most < MANY_ROUNDS) return 0;
    const deferMs = DEFERRED_ROUND_TRIPS * this.#roundTripMs * (1 - this.#round / most);
    return Math.min(deferMs, this.#leftMs / 2);
  };

  /** One round, beginning with `first`, if given; returns the hold, or which member was in the way. */
  async #tryAll(first: SingleLock | undefined): Promise<MultiHold | SingleLock | undefined> {
    const { lockName, members, leaseMs } = this.#request;
    const round = new MultiRound({
      session: this.#session,
      clock: this.#clock,
      members,
      leaseMs,
      leftMs: () => this.#leftMs,
      stop: this.#stop.signal,
      acquire: this.#acquire,
    });
    const { holds, refusals, triedAtMs, roundTripMs } = await round.play(first);
    this.#roundTripMs = roundTripMs ?? this.#roundTripMs;
    const conflict =
      refusals.length === 0 && (await this.#conflict(Math.max(this.#leftMs, SLOW_ANSWER_MS)));
    const areHeld = holds.every((hold) => hold.remaining() > 0); // also the first, while the others were asked
    if (!conflict && refusals.length === 0 && areHeld) {
      for (const hold of holds) hold.becomeMember(this.#session, this.#request.origin);
      return new MultiHold(lockName, holds);
    }
    if (holds.length > 0) await undo(holds, this.#clock);
    if (conflict instanceof OptionError) throw conflict;
    if (refusals.length === 0) {
      this.#lastHeld = undefined;
      this.#throwIfOver(holds, conflict);
      return undefined;
    }
    // Members were held around us for a moment, and then not any more: the next round makes a new owner for all.
    if (refusals.every(({ error }) => error instanceof OwnerSpentError) && this.#leftMs > 0)
      return undefined;
    // An unreachable member is waited for like one that somebody holds: while nothing is held here. If waiting does not help, its error
    // says so. (Not `first`, of which only the extension failed: acquiring it worked.)
    const unreachable = refusals.find(
      ({ member, error }) => member !== first && isUnanswered(error),
    );
    if (unreachable && !this.#isOver) {
      this.#lastHeld = undefined; // out of date when that member was waited for
      return unreachable.member;
    }
    return this.#inTheWay(refusals, triedAtMs);
  }

  /** Whether two members are the same key: what `SameKeys.found` finds within this time, and within `commandTimeout`. */
  #conflict(limitMs: number): Promise<unknown> {
    const limit = Math.min(limitMs, this.#session.commandTimeoutMs);
    return this.#request.sameKeys.found(this.#session, this.#clock, limit, this.#stop.signal);
  }

  /** Which of the members that refused somebody else holds. Throws if a refusal was worse than that, or if no time is left to wait. */
  #inTheWay(refusals: readonly Refusal[], startedAtMs: number): SingleLock | undefined {
    const { lockName, waitMs } = this.#request;
    const held = refusals.find(({ error }) => error instanceof LockTimeoutError);
    const worse = refusals.find(({ error }) => !(error instanceof LockTimeoutError));
    const seen = (held?.error as LockTimeoutError | undefined) ?? this.#lastHeld;
    this.#lastHeld = seen;
    if (!seen || (worse && !this.#isCutShort(worse.error, startedAtMs))) throw worse?.error;
    if (this.#isOver) throw memberHeldElsewhere(lockName, waitMs, seen);
    return held?.member;
  }

  /** A member was lost before the last one was acquired, or `conflict` is not known: throws if there is no time for another round. */
  #throwIfOver(holds: readonly SingleHold[], conflict: unknown): void {
    if (!this.#isOver) return;
    const what = conflict
      ? 'not acquired: it is not known whether two of its members are the same key'
      : 'not acquired: a member was lost before all were acquired';
    const losses = holds.map(({ signal }) => signal.reason as unknown);
    const cause = [conflict, ...losses].find(Boolean);
    const reason = cause instanceof Error ? cause : undefined;
    throw this.#session.unavailable(this.#request.lockName, what, reason);
  }

  readonly #acquire = (
    member: SingleLock,
    waitMs: number,
    attemptMs: number,
    newOwnerId: () => string,
  ): Promise<SingleHold> => {
    const { leaseMs, scope } = this.#request;
    const { signal } = this.#stop;
    const terms = { attemptMs, sinceMs: this.#sinceMs, deferMs: this.#deferMs };
    const request = { waitMs, leaseMs, signal, ...terms };
    // As `acquire`, whatever the caller called: no `unlock()` must be owed to a member that may yet be given back.
    return member.acquireHold(request, 'acquire', scope, newOwnerId);
  };

  /** Whether the wait ran out while tries were on their way whose answers may only be slow: what was seen before counts. */
  #isCutShort(error: unknown, startedAtMs: number): boolean {
    const isYoung = Math.min(this.#clock.nowMs(), this.#endsAtMs) - startedAtMs <= SLOW_ANSWER_MS;
    return error instanceof UnavailableError && this.#leftMs <= 0 && isYoung;
  }

  /** Whether there is no time for another round. */
  get #isOver(): boolean {
    return this.#request.waitMs === 0 || this.#leftMs <= 0;
  }

  get #leftMs(): number {
    return Math.max(this.#endsAtMs - this.#clock.nowMs(), 0);
  }
}

/** Whether this member cannot be asked now: then it is waited for first, while nothing is held. */
function isUnreachable({ parts: { session, backend } }: SingleLock): boolean {
  return !(backend.isReachable ?? session.connection.isReady);
}
