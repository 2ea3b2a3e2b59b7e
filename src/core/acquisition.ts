// The fast path of an acquire: the lock is mostly free, so the first try is one command, and nothing is set up for waiting. If that
// does not settle the call (somebody else has the lock, no answer came, the client was closed meanwhile), an acquisition goes on with
// it. A call that may take more than one command, or may have to end early, is an acquisition from the beginning.

import {
  type AcquirableLock,
  type AcquireReply,
  type CallersRequest,
  type Deadline,
  deadlineOf,
  type HandedOver,
  type HeldReply,
  type HoldOrigin,
  leftMs,
  type LockRequest,
  type MemberTerms,
  type NamedLock,
  requestOf,
  type SelfWait,
  type Waiter,
} from './protocol.js';
import type { AcquireRequest } from '../api/options.js';
import { type Instant, now } from '../runtime/clock.js';
import { pauseIfLong, rejecting } from '../runtime/node.js';
import { type Ending, LATE_MS, WaitEnded, WaitLimit } from '../runtime/wait-limit.js';
import { Holder } from '../scopes/holder.js';
import {
  actingScope,
  currentScope,
  holdersAround,
  nearestHolder,
  outwards,
  type Scope,
} from '../scopes/scope.js';
import { Grant } from './grant.js';
import { anonymousLockId, lockCallBegins, selfWaitOf } from './misuse.js';
import type { Session } from './session.js';
import { assertEnterable, type GrantHolder, holderToReenter, SingleHold } from './hold.js';
import type { SeenHolder } from '../api/errors.js';
import { aborted, heldByCallerOfClient, heldElsewhere } from './messages.js';
import type { Findings } from '../waiting/line.js';
import { FIRST_PAUSE_MS, retry, Undecided } from './retry.js';
import type { WaitingEvent } from '../api/events.js';
import { shownToken } from '../api/description.js';
import { UnwantedError } from '../redis/failure.js';

/**
 * @param newOwnerId - makes the owner of each try, in place of the lock's own `newOwnerId`
 * @param selfWait - by what the caller would wait for itself, if it is not a `lock()` or `tryLock()` of its own
 */
export function acquire(
  session: Session,
  lock: AcquirableLock,
  asked: AcquireRequest & MemberTerms,
  origin: HoldOrigin,
  ownScope?: Scope,
  newOwnerId?: () => string,
  selfWait: SelfWait | undefined = selfWaitOf(session.anonymous, lock),
): Promise<SingleHold> {
  const watchdogLeaseMs = session.lockWatchdogTimeoutMs;
  const { isShared = false } = lock;
  const request = requestOf(
    asked,
    watchdogLeaseMs,
    origin,
    isShared,
    currentScope(),
    ownScope,
    selfWait,
  );
  const begun = newOwnerId ? undefined : tryAtOnce(session, lock, request);
  if (!begun) return rejecting(() => new Acquisition(session, lock, request, newOwnerId).hold());

  const { ownerId, sentAt, reply } = begun;
  return new Promise((resolve, reject) => {
    const goOn = (ending?: Ending): void => {
      if (!session.acquisitions.delete(call)) return;
      const acquisition = new Acquisition(session, lock, request, undefined, begun);
      resolve(acquisition.hold());
      if (ending) acquisition.end(ending);
    };
    const lockId = anonymousLockId(origin, lock.id, request.position);
    const call = { end: goOn, anonymousLockId: lockId };
    session.acquisitions.add(call);
    // A listener that was told of a loss or a warning on the way here may have closed the client.
    if (session.isClosed) goOn('closed');
    const answered = (answer: AcquireReply): void => {
      const deadline = deadlineOf(sentAt, request.leaseMs);
      if (answer.outcome !== 'acquired' || leftMs(deadline) <= 0) {
        goOn();
        return;
      }
      if (!session.acquisitions.delete(call)) return;
      try {
        const grant = new Grant(session, lock, ownerId, deadline, answer.token);
        resolve(beginHold(session, new Holder(grant, undefined, ownScope, isShared), request));
      } catch (error) {
        // Only a bug can throw here; the caller must get the error all the same, and not wait for ever.
        reject(error instanceof Error ? error : new Error(String(error)));
      }
    };
    reply.then(answered, () => {
      goOn();
    });
  });
}

/** Sends the first try. undefined: nothing was sent, since the call has to be an acquisition from the beginning. */
function tryAtOnce(
  session: Session,
  lock: AcquirableLock,
  { waitMs, leaseMs, signal, origin, position, ownScope }: CallersRequest,
): BegunTry | undefined {
  const isBounded = waitMs !== Infinity || signal !== undefined;
  if (isBounded || session.isClosed || !session.connection.isReady) return undefined;
  // A scope around the call may hold the lock, and is re-entered then; and the attempts of one run go one after another.
  const isAlone = !actingScope(position) || ownScope !== undefined;
  if (!isAlone || holdersAround(position, lock.id).length > 0 || !lock.tryAtOnce) return undefined;
  if (lock.isBusyHere) return undefined;

  lockCallBegins(session, lock, origin, leaseMs, position);
  const ownerId = lock.newOwnerId();
  const sentAt = now(session.clock);
  const reply = lock.tryAtOnce(ownerId, leaseMs, session.untilClosed);
  return reply && { ownerId, sentAt, reply };
}

// One acquisition that takes more than one command, from the call to the hold: look outwards for a holder to re-enter, else try on
// the server, else wait in line; and after every wait look again, since whoever was in the way may have gone.

/** What one attempt came to: the hold; somebody else has the lock; or what was seen around the caller may have changed. */
type Attempt = SingleHold | 'held' | 'look again';

class Acquisition {
  readonly #session: Session;
  readonly #lock: AcquirableLock;
  readonly #request: CallersRequest;
  readonly #waitLimit: WaitLimit;
  readonly #tries: Tries;
  #endWaiting: (() => void) | undefined;
  #isReentering = false;

  /** `begun`: the first try, if that was sent already, whether or not it has been answered. */
  constructor(
    session: Session,
    lock: AcquirableLock,
    request: CallersRequest,
    newOwnerId: () => string = lock.newOwnerId,
    begun?: BegunTry,
  ) {
    this.#session = session;
    this.#lock = lock;
    this.#request = request;
    if (!begun) session.assertOpen(lock.name);
    if (request.signal?.aborted) throw aborted(lock.name, 'nothing was sent', request.signal);
    this.#waitLimit = new WaitLimit({
      clock: session.clock,
      limitMs: limitMs(session, request),
      isSingleAttempt: request.waitMs === 0,
      sparesAttempts: isCallersLimit(session, request),
      signal: request.signal,
      anonymousLockId: anonymousLockId(request.origin, lock.id, request.position),
      registry: session.acquisitions,
    });
    this.#tries = new Tries(session, lock, request, this.#waitLimit, newOwnerId, begun);
  }

  /**
   * @throws LockTimeoutError somebody else had the lock until the wait ran out
   * @throws LockAbortedError, ClosedError, LockLostError, UnavailableError, KeyConflictError
   */
  async hold(): Promise<SingleHold> {
    let isAcquired = false;
    let failure: unknown;
    const { origin, leaseMs, position } = this.#request;
    const endCall = lockCallBegins(this.#session, this.#lock, origin, leaseMs, position);
    try {
      for (;;) {
        const attempt = await this.#attempt();
        if (attempt instanceof SingleHold) {
          isAcquired = true;
          return attempt;
        }
        const { woken } = this.#tries;
        if (woken && attempt === 'held') await this.#waitLimit.sleep(woken);
      }
    } catch (error) {
      failure = this.#explain(error);
    } finally {
      endCall?.();
      this.#endWaiting?.();
      this.#tries.leave(isAcquired);
      this.#waitLimit.dispose();
    }
    await pauseIfLong(); // Redis need not have been asked
    throw failure;
  }

  end(ending: Ending): void {
    this.#waitLimit.end(ending);
  }

  /** Not async itself: an uncontended acquire awaits no more than it must. */
  #attempt(): Attempt | Promise<Attempt> {
    this.#isReentering = false;
    const acting = this.#actingScope;
    const { own, outer } = holderToReenter(this.#request.position, acting, this.#lock.id);
    const around = own ?? outer;
    if (around) assertEnterable(around, this.#lock, this.#request);
    if (own) return this.#countUp(own);
    if (outer) return this.#enterBelow(outer, acting);
    if (this.#tries.isBehind) return 'held';
    return acting && acting !== this.#request.ownScope
      ? this.#inTurnOf(acting)
      : this.#acquireAnew();
  }

  /** The acting scope holds the lock already: one hold more of the same grant. */
  async #countUp(holder: GrantHolder): Promise<Attempt> {
    const begin = (): SingleHold | undefined => (holder.hasEnded ? undefined : this.#begin(holder));
    return (await this.#reenter(holder.grant, begin)) ?? 'look again';
  }

  /** A scope around the acting one holds the lock: the acquisition becomes a child of that holder, one child at a time unless all read. */
  async #enterBelow(outer: GrantHolder, acting: Scope | undefined): Promise<Attempt> {
    const { grant, turns } = outer;
    const { isShared } = this.#request;
    if (!turns.tryTake(isShared)) {
      // If another call of the same scope is just entering, this one counts up as soon as that has entered.
      const isElsewhere = !acting || outer.entering !== acting;
      if (this.#request.waitMs === 0 && isElsewhere) throw heldElsewhere(this.#lock, 0, grant.seen);
      this.#beginWaiting(grant.seen);
      // The call leaves its line: a wake-up there is for somebody who can try now.
      this.#tries.leave();
      if (!(await turns.take(this.#waitLimit, isShared))) return 'look again';
    }
    outer.entering = acting;
    let hold: SingleHold | undefined;
    try {
      // That holder may have given the lock up while we waited for the turn, or only read now.
      if (nearestHolder(this.#request.position, this.#lock.id) !== outer) return 'look again';
      if (outer.isShared && !isShared) return 'look again';
      hold = await this.#reenter(grant, () => this.#begin(this.#holder(grant, outer)));
      return hold ?? 'look again';
    } finally {
      if (outer.entering === acting) outer.entering = undefined;
      if (!hold) turns.pass();
    }
  }

  #reenter(grant: Grant, begin: () => SingleHold | undefined): Promise<SingleHold | undefined> {
    const { leaseMs, isShared } = this.#request;
    this.#isReentering = true;
    return grant.reenter(leaseMs, this.#waitLimit, begin, isShared);
  }

  /** Two calls of one scope are one owner: the second must find what the first acquires. */
  async #inTurnOf(acting: Scope): Promise<Attempt> {
    const turns = acting.attempts(this.#lock.id);
    if (!(await turns.take(this.#waitLimit, false, true))) return 'look again';
    try {
      const isHeldNow = nearestHolder(this.#request.position, this.#lock.id) !== undefined;
      return isHeldNow ? 'look again' : await this.#acquireAnew();
    } finally {
      turns.pass();
    }
  }

  /** Nobody around the caller holds the lock: a new grant is needed. (One that was handed over is taken at once: nothing is awaited.) */
  #acquireAnew(): Attempt | Promise<Attempt> {
    const grant = this.#tries.claim();
    return grant ? this.#begin(this.#holder(grant)) : this.#try();
  }

  async #try(): Promise<Attempt> {
    const result = await this.#tries.try();
    if (result instanceof Grant) return this.#begin(this.#holder(result));
    if (!result) return 'look again'; // the lock was granted, but the answer took longer than the lease
    // A scope around the caller may have got the lock while the server was asked.
    return nearestHolder(this.#request.position, this.#lock.id) ? 'look again' : this.#held(result);
  }

  #held(seen: SeenHolder): Attempt {
    const { waitMs } = this.#request;
    if (waitMs === 0 || this.#waitLimit.isOverdue) throw heldElsewhere(this.#lock, waitMs, seen);
    this.#beginWaiting(seen);
    return 'held';
  }

  #beginWaiting(seen: SeenHolder): void {
    if (this.#endWaiting) return;
    this.#waitLimit.lookBeforeEnd(() => {
      if (isKnown(this.#waitLimit, this.#tries.findings)) return true;
      this.#tries.look(youngSinceMs(this.#waitLimit));
      return false;
    });
    this.#endWaiting = noticeWaiting(this.#session, this.#lock, this.#request, this.#waitLimit, {
      lockName: this.#lock.name,
      ownerId: this.#tries.ownerId ?? seen.holder,
      holder: seen.holder,
      holderTtlMs: seen.holderTtlMs,
    });
  }

  /** The scope that the call acts for; undefined: an anonymous caller. Looked up when needed: a run may have ended meanwhile. */
  get #actingScope(): Scope | undefined {
    return this.#request.ownScope ?? actingScope(this.#request.position);
  }

  #holder(grant: Grant, parent?: GrantHolder): GrantHolder {
    return new Holder(grant, parent, this.#actingScope, this.#request.isShared);
  }

  #begin(holder: GrantHolder): SingleHold {
    return beginHold(this.#session, holder, this.#request);
  }

  #explain(error: unknown): unknown {
    if (!(error instanceof WaitEnded)) return error;
    return endedWait(error, {
      session: this.#session,
      lock: this.#lock,
      request: this.#request,
      waitLimit: this.#waitLimit,
      findings: this.#tries.findings,
      isTooLate: this.#tries.isTooLate,
      isReentering: this.#isReentering,
    });
  }
}

// The tries of one acquisition: each is repeated until it is answered, between them its waiter stands in line, and what may be left
// of them on the server is removed.

/** A try that was sent before the acquisition was made (`core/acquire.ts`), and did not settle the call. */
interface BegunTry {
  readonly ownerId: string;
  readonly sentAt: Instant;
  readonly reply: Promise<AcquireReply>;
}

class Tries {
  readonly #session: Session;
  readonly #lock: AcquirableLock;
  readonly #request: LockRequest;
  readonly #waitLimit: WaitLimit;
  /** Makes the owner of each try. */
  readonly #newOwnerId: () => string;
  readonly #lateAnswers: LateAnswers;
  #begun: BegunTry | undefined;
  /** Made for the first try, and gone when the acquisition leaves. */
  #waiter: Waiter | undefined;
  /** The try that was sent last. */
  #sent: Promise<AcquireReply> | undefined;
  /** Whether a try was sent since the last one that was answered. */
  #isUnanswered = false;

  constructor(
    session: Session,
    lock: AcquirableLock,
    request: LockRequest,
    waitLimit: WaitLimit,
    newOwnerId: () => string,
    begun?: BegunTry,
  ) {
    this.#session = session;
    this.#lock = lock;
    this.#request = request;
    this.#waitLimit = waitLimit;
    this.#newOwnerId = newOwnerId;
    this.#lateAnswers = new LateAnswers(session, lock, request, waitLimit);
    if (!begun) return;
    this.#begun = begun;
    this.#waiter = lock.waiter(() => begun.ownerId, request); // this kind of lock makes all tries as one owner
    this.#sent = begun.reply;
    this.#isUnanswered = true;
    waitLimit.mayHaveRun = true;
  }

  /** The owner as which the acquisition tries; undefined: it has not tried, or has left. */
  get ownerId(): string | undefined {
    return this.#waiter?.ownerId;
  }

  /** Resolves when it is the acquisition's turn to try; undefined: it has not tried, or has left. */
  get woken(): Promise<void> | undefined {
    return this.#waiter?.woken;
  }

  /** Whether the acquisition stands in line, and it is not its turn to try. */
  get isBehind(): boolean {
    return this.#waiter?.mayTry === false;
  }

  /** What the acquisition, or anybody who waits in line with it, was told last of the holder. */
  get findings(): Findings | undefined {
    return this.#waiter?.findings;
  }

  /** Whether the latest answer granted the lock, and took longer than the lease. */
  get isTooLate(): boolean {
    return this.#lateAnswers.isLatest;
  }

  /** Sees to it that the server is asked, at `sinceMs` (monotonic) or later, by one for all who wait with it. */
  look(sinceMs: number): void {
    this.#waiter?.look(sinceMs);
  }

  /** Takes what was handed over to its waiter, if anything was. */
  claim(): Grant | undefined {
    this.#waitLimit.assertNotOver();
    const claimed = this.#waiter?.claim?.();
    if (!claimed || claimed instanceof Grant) return claimed;
    return 'deadline' in claimed ? this.#handedOver(claimed) : undefined;
  }

  /**
   * Tries until it is answered: the lock was granted, or somebody else has it. undefined: what was granted was over already, and now,
   * a pause later, it is time to look again.
   */
  async try(): Promise<Grant | HeldReply | undefined> {
    const waiter = (this.#waiter ??= this.#lock.waiter(this.#newOwnerId, this.#request));
    const seen = this.#begun ? undefined : waiter.queue?.();
    if (seen) return seen;
    const { clock } = this.#session;
    let sentAt = now(clock);
    const reply = await retry(this.#session.connection, this.#waitLimit, this.#lock, () => {
      const begun = this.#begun;
      this.#begun = undefined;
      sentAt = begun?.sentAt ?? now(clock);
      this.#isUnanswered = true;
      const sent = begun?.reply ?? waiter.try(this.#waitLimit);
      this.#sent = sent;
      if (waiter.findings) share(sent, waiter.findings, sentAt.monotonicMs);
      return sent;
    });
    // A lock that was granted in the instant in which the caller gave up is undone, like a try without an answer.
    this.#waitLimit.mayHaveRun = true;
    this.#waitLimit.assertNotOver();
    this.#waitLimit.mayHaveRun = false;
    this.#isUnanswered = false;
    if (reply.outcome === 'held') {
      // A call that only goes on for this attempt joins no line for it.
      const isOver = this.#waitLimit.isOverdue && !waiter.findings;
      if (!isOver) waiter.wait(reply, sentAt.monotonicMs);
      waiter.findings?.held(reply, sentAt.monotonicMs);
      this.#lateAnswers.held(deadlineOf(sentAt, this.#request.leaseMs));
      return reply;
    }
    const grant =
      reply.outcome === 'handed over'
        ? this.#handedOver(reply)
        : this.#granted(deadlineOf(reply.sentAt ?? sentAt, this.#request.leaseMs), reply.token);
    if (!grant) await this.#lateAnswers.granted();
    return grant;
  }

  /** Ends the tries: the lock was acquired, or is not wanted any more. What may be left on the server is removed. */
  leave(isAcquired = false): void {
    const waiter = this.#waiter;
    if (!waiter) return;
    this.#waiter = undefined;
    this.#begun = undefined;
    const mayHaveAcquired = this.#waitLimit.mayHaveRun && this.#isUnanswered;
    const mayStand = waiter.leave(isAcquired ? this.#request.leaseMs : undefined);
    if (!mayStand && !mayHaveAcquired) return;
    const { cleanup } = this.#session;
    const remove = (): void => {
      cleanup.remove(this.#lock, waiter.ownerId);
    };
    remove();
    if (!mayHaveAcquired || !this.#sent) return;
    const isLeft = this.#sent.then(({ outcome }) => mayStand || outcome !== 'held');
    cleanup.removeAfter(isLeft, remove);
  }

  #handedOver({ deadline, token, confirm }: HandedOver): Grant | undefined {
    const grant = this.#granted(deadline, token);
    if (confirm) grant?.confirmHandOver(this.#request.leaseMs, confirm);
    return grant;
  }

  /** undefined: the answer took longer than the lease, so what it granted is over. */
  #granted(deadline: Deadline, token: bigint | undefined): Grant | undefined {
    const waiter = this.#waiter;
    if (!waiter) return undefined;
    const { ownerId } = waiter;
    if (leftMs(deadline) > 0) {
      const grant = new Grant(this.#session, this.#lock, ownerId, deadline, token);
      waiter.won?.(grant);
      return grant;
    }
    this.leave();
    this.#session.cleanup.remove(this.#lock, ownerId);
    return undefined;
  }
}

/** Tells all who wait in line what a try is answered, even if its own caller has gone by then. */
function share(sent: Promise<AcquireReply>, findings: Findings, askedAtMs: number): void {
  sent.then(
    (reply) => {
      if (reply.outcome === 'held') findings.held(reply, askedAtMs);
    },
    (error: unknown) => {
      if (error instanceof Error) findings.trouble = error;
    },
  );
}

// The answers to one acquisition that granted the lock with a lease that was over by then. A blocked event loop makes one answer late; a
// lease that is shorter than the way to the server makes all of them late, and each try takes the lock from others for nothing.

/** After so many in a row no other outcome is expected. */
const MOST_IN_A_ROW = 3;

class LateAnswers {
  readonly #session: Session;
  readonly #lock: NamedLock;
  readonly #request: LockRequest;
  readonly #waitLimit: WaitLimit;
  #inARow = 0;
  #isLatest = false;

  constructor(session: Session, lock: NamedLock, request: LockRequest, waitLimit: WaitLimit) {
    this.#session = session;
    this.#lock = lock;
    this.#request = request;
    this.#waitLimit = waitLimit;
  }

  /** Whether the latest answer was one of them. */
  get isLatest(): boolean {
    return this.#isLatest;
  }

  /** Somebody else has the lock. `deadline`: until when a lease would have been relied on, if it had been granted. */
  held(deadline: Deadline): void {
    this.#isLatest = false;
    if (leftMs(deadline) > 0) this.#inARow = 0;
  }

  /** One more of them came: resolves when it is time to try again. @throws UnavailableError if that is not to be done */
  async granted(): Promise<void> {
    const { waitMs, leaseMs } = this.#request;
    this.#isLatest = true;
    this.#inARow++;
    if (waitMs === 0 || this.#inARow >= MOST_IN_A_ROW)
      throw this.#session.tooLate(this.#lock.name, leaseMs);
    await this.#waitLimit.pause(FIRST_PAUSE_MS * 2 ** (this.#inARow - 1));
  }
}

// What happens once when a call begins to wait: `waiting` is emitted; a scope around the call that gets the lock meanwhile will wake
// it; and a call that seems to wait for itself will be warned of.

/** Returns what to call when the wait has ended. */
function noticeWaiting(
  session: Session,
  lock: AcquirableLock,
  { position, selfWait }: CallersRequest,
  waitLimit: WaitLimit,
  event: WaitingEvent,
): () => void {
  session.events.emit('waiting', () => event);
  const deafen = [...outwards(position)].map((scope) => scope.onEnter(lock.id, waitLimit));
  const endWaiting = session.nestedCalls.begin(lock, position, selfWait);
  return () => {
    endWaiting();
    for (const stop of deafen) stop();
  };
}

// Begins a hold: enters it where nested calls and `unlock()` look for it, and emits `acquired`.

function beginHold(session: Session, holder: GrantHolder, request: CallersRequest): SingleHold {
  const { grant } = holder;
  const hold = new SingleHold(session, holder, request);
  if (!holder.scope) session.anonymous.add(grant.lock.id, hold);
  session.events.emit('acquired', () => ({
    lockName: grant.lock.name,
    ownerId: grant.ownerId,
    holdCount: grant.holdCount,
    leaseMs: request.leaseMs,
    watched: request.isWatched,
    ...shownToken(grant.token),
  }));
  return hold;
}

// The error of an acquisition whose wait is over. It says that somebody else has the lock only if an answer that is young says so, or
// a grant of this very client; otherwise it says that Redis did not answer, or that its answers came later than the lease allows.

/** How old the last answer may be when the wait should end: so it is at most a second old when the wait ends as late as it may. */
const OLDEST_ANSWER_MS = 1_000 - LATE_MS;

/** What the error needs to know of the acquisition. */
export interface Waited {
  readonly session: Session;
  readonly lock: AcquirableLock;
  readonly request: LockRequest & { readonly selfWait?: SelfWait | undefined };
  readonly waitLimit: WaitLimit;
  readonly findings: Findings | undefined;
  /** Whether the latest answer granted the lock, and took longer than the lease. */
  readonly isTooLate: boolean;
  /** Whether what stayed unanswered was to re-enter a grant: the holder whose grant it is was in nobody's way. */
  readonly isReentering: boolean;
}

/** The earliest time (monotonic) at which the server may have been asked, for its answer still to count when the wait ends. */
function youngSinceMs({ endsAtMs }: WaitLimit): number {
  return endsAtMs - OLDEST_ANSWER_MS;
}

/** Whether the last answer will still be young when the time is over. */
function isKnown(waitLimit: WaitLimit, findings: Findings | undefined): boolean {
  return findings !== undefined && findings.askedAtMs >= youngSinceMs(waitLimit);
}

/** How long the acquisition may take, in milliseconds: its wait, or for a single attempt `commandTimeout`, as for any command. */
function limitMs(session: Session, { waitMs, attemptMs = Infinity }: LockRequest): number {
  return waitMs === 0 ? Math.min(session.commandTimeoutMs, attemptMs) : waitMs;
}

/** Whether that is a limit of the caller's, which may be too short for any answer, and not `commandTimeout`. */
function isCallersLimit(session: Session, { waitMs, attemptMs = Infinity }: LockRequest): boolean {
  return waitMs > 0 || (attemptMs > 0 && attemptMs < session.commandTimeoutMs);
}

/** The error that tells the caller what ended the wait. */
export function endedWait(over: WaitEnded, waited: Waited): Error {
  const { session, lock, request, findings } = waited;
  if (over.ending === 'aborted') return aborted(lock.name, 'while waiting', request.signal);
  if (over.ending === 'closed') return session.closedError(lock.name);
  const trouble = over.trouble ?? findings?.trouble;
  const seen = waited.isReentering ? undefined : (seenLately(waited, trouble) ?? heldHere(waited));
  if (seen) return heldElsewhere(lock, request.waitMs, seen, hintOf(waited, seen));
  // A try that was not sent any more, in the last instant of the wait, is no trouble.
  const isTrouble = trouble && !(trouble instanceof UnwantedError);
  if (waited.isTooLate && !isTrouble && isReachable(waited))
    return session.tooLate(lock.name, request.leaseMs);
  const hadMs = Math.max(limitMs(session, request), waited.waitLimit.isOverdue ? LATE_MS : 0);
  return session.unanswered(lock.name, 'not acquired', Math.round(hadMs), trouble);
}

/** Who had the lock, if the answer that said so is young, and the server can still be asked. */
function seenLately(waited: Waited, trouble: Error | undefined): SeenHolder | undefined {
  if (!isReachable(waited) || trouble instanceof Undecided) return undefined;
  const { waitLimit, findings } = waited;
  return isKnown(waitLimit, findings) ? findings?.holder : undefined;
}

function isReachable({ session, lock }: Waited): boolean {
  return lock.isReachable ?? session.connection.isReady;
}

/** What may help a caller whose wait ran out because of this very client. */
function hintOf(waited: Waited, seen: SeenHolder): string {
  const nested = waited.request.selfWait?.();
  if (nested) return `; ${nested.why}`;
  if (!isHeldHere(waited, seen)) return '';
  const { session, lock } = waited;
  return heldByCallerOfClient(session.anonymous.held(lock.id) !== undefined);
}

/** Whether that holder is this very client, and not another one that was given the same id. */
function isHeldHere(waited: Waited, { holder }: SeenHolder): boolean {
  const mayBe = holder.startsWith(`${waited.session.clientId}:`);
  return mayBe && heldHere(waited)?.holder === holder;
}

/** This client's own grant of the lock; but none that is shared if the caller asked for a shared one: that was not in its way. */
function heldHere({ session, lock }: Waited): SeenHolder | undefined {
  const found = session.grantOf(lock.id);
  const grant = found?.isShared && lock.isShared ? undefined : found;
  return grant?.seen;
}
