// One acquisition, from the request to the hold: re-enter a holder in a scope around the call, else try on the server, else wait in line.
// After every wait all of that is repeated, since the holder may be gone. Most locks are free, so the first try is one command with nothing
// set up for waiting. The rest is set up when the call may have to end early, or when the first try does not settle it.

import type { SeenHolder } from '../api/errors.js';
import type { AcquireMessage, Via } from '../api/channels.js';
import type { AcquiredEvent } from '../api/events.js';
import type { AcquireRequest } from '../api/options.js';
import { shownToken } from '../api/description.js';
import { UnwantedError } from '../redis/failure.js';
import { backOffMs, type Instant, now } from '../runtime/clock.js';
import { pauseIfLong, rejecting } from '../runtime/node.js';
import { type Call, type Ending, LATE_MS, WaitEnded, WaitLimit } from '../runtime/wait-limit.js';
import {
  actingScope,
  currentScope,
  Holder,
  holdersAround,
  nearestHolder,
  outwards,
  type Scope,
} from '../scopes/scope.js';
import { Adopter } from './adoption.js';
import { Grant, KEPT_WEIGHT } from './grant.js';
import { assertEnterable, type GrantHolder, holderToReenter, SingleHold } from './hold.js';
import {
  aborted,
  heldByCallerOfClient,
  heldByNeighbour,
  heldElsewhere,
  ranOut,
} from './messages.js';
import { lockCallBegins, NestedCall, selfWaitOf, warnOfShortTimes } from './misuse.js';
import { neighbourOf, waitForNeighbour } from './neighbours.js';
import {
  type AcquirableLock,
  type AcquireReply,
  type CallersRequest,
  type Deadline,
  deadlineOf,
  type HandedOver,
  type HeldReply,
  type HoldOrigin,
  type Keepable,
  leftMs,
  type LockRequest,
  mayBeKept,
  type MemberTerms,
  releaseAt,
  type Removable,
  type SelfWait,
  type Waiter,
} from './protocol.js';
import { mayHaveRun, REPEATING, retry, Undecided } from './retry.js';
import { LOOK_AT_CALLS_EVERY_MS, type Session } from './session.js';
import {
  acquireBegins,
  acquireEnds,
  acquireFails,
  acquireWaits,
  areCallsHeard,
} from './telemetry.js';

/** How old the last answer may be at the end of the wait: if the wait ends as late as it may, the answer is at most a second old. */
const OLDEST_ANSWER_MS = 1_000 - LATE_MS;

/** With a shorter wait, in milliseconds, a call has a limit of its own from the beginning, and is not only looked at now and then. */
const LONG_WAIT_MS = 4 * LOOK_AT_CALLS_EVERY_MS;

/** For how long a call that does not wait asks the client that keeps the lock to let go, in milliseconds. */
export const LONGEST_ASKING_MS = 100;

/** After this many late answers in a row the call gives up. */
const MOST_LATE = 3;

/**
 * @param newOwnerId - makes the owner of each try, in place of the lock's own `newOwnerId`
 * @param selfWait - detects that the call waits for its own caller; by default for `lock()` and `tryLock()`
 */
export function acquire(
  session: Session,
  lock: AcquirableLock,
  asked: AcquireRequest & MemberTerms & Pick<LockRequest, 'adopts'>,
  origin: HoldOrigin,
  ownScope?: Scope,
  newOwnerId?: () => string,
  selfWait: SelfWait | undefined = selfWaitOf({ holds: session.anonymous, lock }),
): Promise<SingleHold> {
  // Fields are copied by name, since a spread takes a KiB of heap. (`Required` ensures that none is forgotten.)
  const { waitMs, waitIs, leaseMs, atLeastMs, signal, label } = asked;
  const { attemptMs, isQuiet, sinceMs, deferMs } = asked;
  if (attemptMs === undefined) warnOfShortTimes(session, lock, asked);
  const request: Required<CallersRequest> = {
    waitMs,
    waitIs,
    leaseMs: Math.max(leaseMs ?? session.lockWatchdogTimeoutMs, atLeastMs),
    isWatched: leaseMs === undefined,
    atLeastMs: attemptMs === undefined ? atLeastMs : 0,
    signal,
    label,
    adopts: asked.adopts,
    attemptMs,
    isQuiet,
    sinceMs,
    deferMs,
    origin,
    isShared: lock.isShared ?? false,
    position: currentScope(),
    ownScope,
    selfWait,
  };
  return rejecting(() => new Acquisition(session, lock, request, newOwnerId).hold());
}

/** The first try, sent before anything is set up for waiting. */
interface FirstTry {
  readonly ownerId: string;
  readonly sentAt: Instant;
  readonly reply: Promise<AcquireReply>;
}

/** The outcome of an attempt: the hold; `held`: another owner has the lock; `look again`: the scopes around the caller may have changed. */
type Attempt = SingleHold | 'held' | 'look again';

class Acquisition implements Call {
  readonly #session: Session;
  readonly #lock: AcquirableLock;
  readonly #request: CallersRequest;
  readonly #newOwnerId: (() => string) | undefined;
  #endCall: (() => void) | undefined;
  /** Continues after a first try that did not settle the call; undefined: it did, or there was none. */
  #goOn: (() => void) | undefined;

  // Set up for waiting.
  #waitLimit: WaitLimit | undefined;
  /** Set from the first try until the acquisition leaves the line. */
  #waiter: Waiter | undefined;
  /** The first try, until the retry loop takes over its answer. */
  #begun: FirstTry | undefined;
  /** The latest try that may have acquired the lock and whose answer has not been used. */
  #unused: Promise<AcquireReply> | undefined;
  /** Whether a try as the present owner got no answer. */
  #isInDoubt = false;
  #endWaiting: (() => void) | undefined;
  /** How many answers in a row arrived after the lease they granted had ended, and whether the latest was one of them. */
  #lateInARow = 0;
  #isLate = false;
  // For events and messages.
  readonly #beganAtMs: number;
  #message: AcquireMessage | undefined;
  #waitId: string | undefined;
  /** How many tries were sent to the server. */
  #attempts = 0;

  /** Whether the unanswered command re-enters a grant: then the timeout error must not name its holder as the one in the way. */
  #isReentering = false;

  constructor(
    session: Session,
    lock: AcquirableLock,
    request: CallersRequest,
    newOwnerId: (() => string) | undefined,
  ) {
    this.#session = session;
    this.#lock = lock;
    this.#request = request;
    this.#newOwnerId = newOwnerId;
    this.#beganAtMs = session.clock.nowMs();
  }

  /**
   * @throws LockTimeoutError another owner had the lock until the wait ran out
   * @throws LockAbortedError, ClosedError, LockLostError, UnavailableError, KeyConflictError
   */
  hold(): Promise<SingleHold> {
    const { origin, position, signal, isQuiet } = this.#request;
    const { acquisitions, isClosed } = this.#session;
    const { name } = this.#lock;
    if (!isQuiet && areCallsHeard())
      this.#message = acquireBegins(this.#session, this.#about, this.#newWaitId());
    if (isClosed) throw this.#refused(this.#session.closedError(name));
    if (signal?.aborted) throw this.#refused(aborted(this.#lock, 'nothing was sent', signal));
    const kept = this.#isOutermost ? this.#takeKept() : undefined;
    if (kept) {
      const hold = this.#begin(this.#holder(kept), 'kept');
      return pauseIfLong(KEPT_WEIGHT)?.then(() => hold) ?? Promise.resolve(hold);
    }
    acquisitions.add(this);
    this.#endCall = lockCallBegins(this.#session, this.#lock, origin, position);
    const first = this.#firstTry();
    return first ? this.#settledBy(first) : this.#untilHeld();
  }

  /** If half of the wait is over, and the first try unanswered, the call goes on with a limit of its own. */
  look(): void {
    if (this.#goOn && this.#tookMs > this.#request.waitMs / 2) this.#goOn();
  }

  /** Ends the call from outside. */
  end(ending: Ending): void {
    this.#goOn?.();
    this.#limit.end(ending);
  }

  /** Sends the first try. undefined: nothing was sent, since the call needs more than one command, or a limit on its wait. */
  #firstTry(): FirstTry | undefined {
    const { waitMs, signal } = this.#request;
    const { clock, connection, isClosed, untilClosed } = this.#session;
    const lock = this.#lock;
    const isBounded = waitMs < LONG_WAIT_MS || signal !== undefined;
    if (isBounded || isClosed || !connection.isReady || this.#newOwnerId) return undefined;
    if (!this.#isOutermost || !lock.tryAtOnce || lock.isInUseHere) return undefined;
    const ownerId = lock.newOwnerId();
    const sentAt = now(clock);
    const reply = lock.tryAtOnce(ownerId, this.#request, untilClosed);
    if (reply) this.#attempts++;
    return reply && { ownerId, sentAt, reply };
  }

  /** Whether nothing around the call has a say: a scope may hold the lock, which is then re-entered; and the attempts of one run take turns. */
  get #isOutermost(): boolean {
    const { position, ownScope } = this.#request;
    const isAlone = !actingScope(position) || ownScope !== undefined;
    return isAlone && holdersAround(position, this.#lock.id).length === 0;
  }

  /** The grant that this client has kept, without a command. */
  #takeKept(): Grant | undefined {
    if (!mayBeKept(this.#request) || this.#newOwnerId) return undefined;
    const grant = this.#lock.takeKept?.();
    return grant instanceof Grant ? grant : undefined;
  }

  /** The first try settles the call if it is granted in time; otherwise the call goes on with it. */
  #settledBy(first: FirstTry): Promise<SingleHold> {
    return new Promise((resolve, reject) => {
      this.#goOn = () => {
        this.#goOn = undefined;
        const owners = [first.ownerId];
        const newOwnerId = (): string => owners.pop() ?? this.#lock.newOwnerId();
        this.#waiter = this.#lock.waiter(newOwnerId, this.#request);
        this.#begun = first;
        this.#unused = first.reply;
        resolve(this.#untilHeld());
      };
      const answered = (reply: AcquireReply): void => {
        if (!this.#goOn) return;
        const deadline = this.#deadlineOf(reply, first.sentAt);
        if (reply.outcome !== 'acquired' || leftMs(deadline) <= 0) {
          this.#goOn();
          return;
        }
        this.#goOn = undefined;
        this.#session.acquisitions.delete(this);
        try {
          const grant = this.#newGrant(first.ownerId, deadline, reply.token, reply.keepable);
          resolve(this.#begin(this.#holder(grant), 'first-try'));
        } catch (error) {
          // Only a bug can throw here; even then the caller must get the error instead of waiting for ever.
          reject(error instanceof Error ? error : new Error(String(error)));
        }
      };
      if (this.#request.waitMs !== Infinity) this.#session.lookAtCalls();
      first.reply.then(answered, () => this.#goOn?.());
      // A loss may have been reported before this line, to a listener that closed the client.
      if (this.#waitLimit) this.#goOn();
    });
  }

  async #untilHeld(): Promise<SingleHold> {
    let hold: SingleHold | undefined;
    let failure: unknown;
    try {
      const limit = this.#limit;
      while (!hold) {
        const attempt = await this.#attempt();
        if (attempt instanceof SingleHold) hold = attempt;
        else if (attempt === 'held' && this.#waiter) await limit.sleep(this.#waiter.woken);
      }
    } catch (error) {
      failure = error instanceof WaitEnded ? this.#explained(error) : error;
    } finally {
      this.#endCall?.();
      this.#endWaiting?.();
      this.#leave(hold !== undefined);
      this.#waitLimit?.dispose();
      this.#session.acquisitions.delete(this);
    }
    if (hold) return hold;
    this.#refused(failure);
    await pauseIfLong(); // the call may have failed without a round trip
    throw failure;
  }

  /** Re-enters a holder around the call, or tries on the server. Not async, to spare an acquisition that need not wait extra promises. */
  #attempt(): Attempt | Promise<Attempt> {
    this.#isReentering = false;
    if (this.#request.adopts) return this.#try();
    const acting = this.#actingScope;
    const { own, outer } = holderToReenter(this.#request.position, acting, this.#lock.id);
    const around = own ?? outer;
    if (around) assertEnterable(around, this.#lock, this.#request);
    if (own) return this.#countUp(own);
    if (outer) return this.#enterBelow(outer, acting);
    if (this.#waiter?.mayTry === false) return 'held';
    return acting && acting !== this.#request.ownScope
      ? this.#inTurnOf(acting)
      : this.#claimOrTry();
  }

  /** The acting scope already holds the lock: adds a hold to the same grant. */
  async #countUp(holder: GrantHolder): Promise<Attempt> {
    const begin = (): SingleHold | undefined =>
      holder.hasEnded ? undefined : this.#begin(holder, 're-entry');
    return (await this.#reenter(holder.grant, begin)) ?? 'look again';
  }

  /** A scope around the acting one holds the lock: the new holder becomes its child. One child at a time, unless all of them read. */
  async #enterBelow(outer: GrantHolder, acting: Scope | undefined): Promise<Attempt> {
    const { grant, turns } = outer;
    const { isShared } = this.#request;
    if (!turns.tryTake(isShared)) {
      // If another call of the same scope is just entering, this call re-enters that one's holder right afterwards.
      const isElsewhere = !acting || outer.entering !== acting;
      if (this.#request.waitMs === 0 && isElsewhere)
        throw heldElsewhere(this.#lock, this.#request, grant.seen);
      this.#beginWaiting(grant.seen);
      // The call leaves the line: a wake-up there must go to a waiter that can try now.
      this.#leave();
      if (!(await turns.take(this.#limit, isShared))) return 'look again';
    }
    outer.entering = acting;
    let hold: SingleHold | undefined;
    try {
      // While we waited for the turn, that holder may have released the lock, or downgraded to reading.
      if (nearestHolder(this.#request.position, this.#lock.id) !== outer) return 'look again';
      if (outer.isShared && !isShared) return 'look again';
      hold = await this.#reenter(grant, () => this.#begin(this.#holder(grant, outer), 're-entry'));
      return hold ?? 'look again';
    } finally {
      if (outer.entering === acting) outer.entering = undefined;
      if (!hold) turns.pass();
    }
  }

  #reenter(grant: Grant, begin: () => SingleHold | undefined): Promise<SingleHold | undefined> {
    this.#isReentering = true;
    return grant.reenter(this.#request, this.#limit, begin);
  }

  /** Two calls of one scope act as one owner: the second must find what the first acquires. */
  async #inTurnOf(acting: Scope): Promise<Attempt> {
    const turns = acting.attempts(this.#lock.id);
    if (!(await turns.take(this.#limit, false, true))) return 'look again';
    try {
      return this.#isHeldAround ? 'look again' : await this.#claimOrTry();
    } finally {
      turns.pass();
    }
  }

  /** No scope around the caller holds the lock: gets a new grant. (A grant that was handed over is taken without awaiting anything.) */
  #claimOrTry(): Attempt | Promise<Attempt> {
    this.#limit.assertNotOver();
    const claimed = this.#waiter?.claim?.() ?? this.#takeKept();
    const isFromServer = claimed !== undefined && 'deadline' in claimed;
    const grant = isFromServer ? this.#handedOver(claimed) : claimed;
    if (!(grant instanceof Grant)) return this.#try();
    const viaHere = grant.isKeepable ? 'kept' : 'local';
    return this.#begin(this.#holder(grant), isFromServer ? 'hand-over' : viaHere);
  }

  /** Tries until the server answers, or the wait is over. */
  async #try(): Promise<Attempt> {
    const { connection, clock } = this.#session;
    const limit = this.#limit;
    const newOwnerId = this.#newOwnerId ?? this.#lock.newOwnerId;
    const waiter = (this.#waiter ??= this.#newWaiter(newOwnerId));
    const seen = this.#begun ? undefined : waiter.queue?.();
    if (seen) {
      this.#nextOwner(waiter);
      return this.#held(seen);
    }
    let sentAt = now(clock);
    const wasReady = connection.isReady;
    const reply = await retry(connection, limit, this.#lock, (_, lastError) => {
      // Its number tells when this try began, also after an outage: the present owner was never sent, or was refused.
      // (That of a MultiLock's member is common to all of them.)
      const isCommon = this.#newOwnerId !== undefined && this.#request.waitMs === 0;
      if ((!wasReady || lastError) && !this.#isInDoubt && !this.#begun && !isCommon)
        waiter.useNewOwner?.();
      const { sentAt: at, reply: sent } = this.#begun ?? {
        sentAt: now(clock),
        reply: this.#counted(waiter.try(limit)),
      };
      this.#begun = undefined;
      sentAt = at;
      this.#sent(sent, waiter, at);
      return sent;
    });
    // If the lock is granted just as the caller gives up, the grant is undone, like a try without an answer.
    limit.assertNotOver();
    this.#unused = undefined;
    const deadline = this.#deadlineOf(reply, sentAt);
    if (reply.outcome === 'held') {
      // A call whose wait is over, and that goes on only for this attempt, does not join the line.
      if (!limit.isOverdue || waiter.lastAnswer) waiter.wait(reply, sentAt.monotonicMs);
      waiter.lastAnswer?.held(reply, sentAt.monotonicMs);
      this.#nextOwner(waiter);
      this.#isLate = false;
      if (leftMs(deadline) > 0) this.#lateInARow = 0; // a late "held" does not show that answers arrive in time
      return this.#held(reply);
    }
    const grant =
      reply.outcome === 'handed over'
        ? this.#handedOver(reply)
        : this.#granted(deadline, reply.token, reply.keepable);
    if (grant) return this.#begin(this.#holder(grant), this.#viaOf(reply.outcome));
    await this.#pauseAfterLateAnswer();
    return 'look again';
  }

  /**
   * Another owner has the lock, as the server has answered to the latest try, if there was one: the next try has an owner of its own, whose
   * number tells when it began. The clean-up removes the present owner, if an earlier try as it is still unanswered.
   */
  #nextOwner(waiter: Waiter): void {
    if (!waiter.useNewOwner) return;
    if (this.#isInDoubt) this.#session.cleanup.remove(this.#removable, waiter.ownerId);
    this.#isInDoubt = false;
    waiter.useNewOwner();
  }

  #newWaiter(newOwnerId: () => string): Waiter {
    const { adopts } = this.#request;
    return adopts
      ? new Adopter(this.#session, this.#lock, newOwnerId(), this.#request, adopts)
      : this.#lock.waiter(newOwnerId, this.#request);
  }

  #deadlineOf(reply: AcquireReply, sentAt: Instant): Deadline {
    if (reply.outcome !== 'acquired') return deadlineOf(sentAt, this.#request.leaseMs);
    return deadlineOf(reply.sentAt ?? sentAt, reply.keepable?.leaseMs ?? this.#request.leaseMs);
  }

  #newGrant(ownerId: string, deadline: Deadline, token?: bigint, keepable?: Keepable): Grant {
    const { adopts } = this.#request;
    const owners = adopts && [{ ownerId: adopts.ownerId, deadline }];
    const origin = owners && { owners, acquiredAt: now(this.#session.clock) };
    return new Grant(this.#session, this.#lock, ownerId, deadline, token, origin, keepable);
  }

  #counted<T>(sent: Promise<T>): Promise<T> {
    this.#attempts++;
    return sent;
  }

  #viaOf(outcome: AcquireReply['outcome']): Via {
    if (outcome === 'handed over') return 'hand-over';
    if (this.#request.adopts) return 'adoption';
    return this.#endWaiting ? 'message' : 'first-try';
  }

  /** A try was sent: shares its answer with all waiters in line, even if its own caller is gone by then. */
  #sent(sent: Promise<AcquireReply>, { lastAnswer }: Waiter, at: Instant): void {
    const before = this.#unused === sent ? undefined : this.#unused;
    this.#unused = sent;
    sent.then(
      (reply) => {
        if (reply.outcome === 'held') lastAnswer?.held(reply, at.monotonicMs);
      },
      (error: unknown) => {
        if (mayHaveRun(error)) this.#isInDoubt = true;
        else if (this.#unused === sent) this.#unused = before;
        if (lastAnswer && error instanceof Error && !(error instanceof UnwantedError))
          lastAnswer.lastError = error;
      },
    );
  }

  #handedOver({ deadline, token, confirm }: HandedOver): Grant | undefined {
    const grant = this.#granted(deadline, token);
    if (confirm) grant?.confirmHandOver(this.#request.leaseMs, confirm);
    return grant;
  }

  /** undefined: the answer took longer than the lease, so the lease it granted is over. */
  #granted(deadline: Deadline, token?: bigint, keepable?: Keepable): Grant | undefined {
    const waiter = this.#waiter;
    if (!waiter) return undefined;
    const { ownerId } = waiter;
    if (leftMs(deadline) > 0) {
      const grant = this.#newGrant(ownerId, deadline, token, keepable);
      waiter.won?.(grant);
      return grant;
    }
    this.#leave();
    this.#session.cleanup.remove(this.#removable, ownerId);
    return undefined;
  }

  /**
   * The lock was granted, but the answer took longer than the lease. A blocked event loop makes one answer late. A lease shorter than the
   * round trip makes all of them late, and then each try keeps the lock from others for nothing.
   */
  async #pauseAfterLateAnswer(): Promise<void> {
    const { waitMs, leaseMs } = this.#request;
    this.#isLate = true;
    this.#lateInARow++;
    if (waitMs === 0 || this.#lateInARow >= MOST_LATE)
      throw this.#session.tooLate(this.#lock.name, leaseMs);
    await this.#limit.pause(backOffMs(this.#lateInARow, this.#session.random, REPEATING));
  }

  #held(seen: SeenHolder & Pick<HeldReply, 'isAskedFor' | 'letsPass'>): Attempt | Promise<Attempt> {
    const { waitMs, attemptMs } = this.#request;
    // A scope around the caller may have acquired the lock during the round trip.
    if (this.#isHeldAround) return 'look again';
    // A member of a MultiLock must not wait, since other members may be held meanwhile.
    const isAlone = waitMs === 0 && attemptMs === undefined;
    if (seen.isAskedFor && isAlone && this.#tookMs < LONGEST_ASKING_MS) return this.#tryAgainSoon();
    if (waitMs === 0) throw heldElsewhere(this.#lock, this.#request, seen);
    if (this.#limit.isOverdue)
      throw heldElsewhere(this.#lock, this.#request, seen, this.#hint(seen));
    if (seen.letsPass) this.#lookBeforeEnd();
    else this.#beginWaiting(seen);
    return 'held';
  }

  /** A call that does not wait found the lock kept: if nobody is inside, the keeper lets go in a moment. */
  async #tryAgainSoon(): Promise<Attempt> {
    const pauseMs = Math.min(2 ** (this.#attempts - 2), LONGEST_ASKING_MS - this.#tookMs);
    if (pauseMs > 1) await this.#limit.pause(pauseMs);
    return 'look again';
  }

  /**
   * Once per call: emits `waiting`, wakes the call when a scope around it gets the lock, and warns if the call seems to wait for its own
   * caller.
   */
  #beginWaiting({ holder, holderTtlMs }: SeenHolder): void {
    if (this.#endWaiting) return;
    const { position } = this.#request;
    const selfWait = (this.#request.selfWait ??= waitForNeighbour(this.#session, holder));
    const lock = this.#lock;
    const limit = this.#limit;
    this.#lookBeforeEnd();
    const ownerId = this.#waiter?.ownerId ?? holder;
    const { label } = this.#request;
    const waitId = this.#newWaitId();
    this.#session.events.emit('waiting', () => ({
      lockName: lock.name,
      ownerId,
      waitId,
      ...(label === undefined ? {} : { label }),
      holder,
      holderTtlMs,
    }));
    if (this.#message) acquireWaits(this.#message, holder);
    const deafen = [...outwards(position)].map((scope) => scope.onEnter(lock.id, limit));
    const nested = new NestedCall(
      this.#session,
      lock,
      position,
      selfWait,
      () => this.#waiter?.lastAnswer?.holder?.holder ?? holder,
    );
    const endWait = this.#session.beginWait(lock.id);
    this.#endWaiting = () => {
      endWait();
      nested.end();
      for (const stop of deafen) stop();
    };
  }

  /** If the last answer is not recent when the wait ends, the waiter asks once more: the error names the holder of then. */
  #lookBeforeEnd(): void {
    this.#limit.lookBeforeEnd(() => {
      if (this.#isHolderKnown) return true;
      this.#waiter?.look(this.#youngSinceMs);
      return false;
    });
  }

  /** Begins the hold: registers it for nested calls and `unlock()`, and emits `acquired`. */
  #begin(holder: GrantHolder, via: Via): SingleHold {
    const { grant } = holder;
    const hold = new SingleHold(this.#session, holder, this.#request);
    if (!holder.scope) this.#session.anonymous.add(grant.lock.id, hold);
    if (this.#message || this.#session.events.hears('acquired')) this.#tell(grant, hold, via);
    if (via === 'local' || via === 'hand-over') this.#tellHandOver(grant, via);
    hold.tell(via);
    return hold;
  }

  get #tookMs(): number {
    return this.#session.clock.nowMs() - this.#beganAtMs;
  }

  #tell(grant: Grant, hold: SingleHold, via: Via): void {
    const tookMs = this.#tookMs;
    this.#session.events.emit('acquired', () => this.#acquired(grant, hold, via, tookMs));
    if (this.#message) acquireEnds(this.#message, { via, attempts: this.#attempts, tookMs });
  }

  #tellHandOver(grant: Grant, via: 'local' | 'hand-over'): void {
    const { lock, ownerId } = grant;
    const { name: lockName, kind } = lock;
    this.#session.events.publish('handedOver', () => {
      return { lockName, kind, ownerId, via, tookMs: grant.heldForMs };
    });
  }

  #acquired(grant: Grant, { holdId }: SingleHold, via: Via, tookMs: number): AcquiredEvent {
    const { leaseMs, isWatched: watched, label } = this.#request;
    const event: AcquiredEvent = {
      lockName: grant.lock.name,
      ownerId: grant.ownerId,
      holdId,
      via,
      waitedMs: Math.round(tookMs),
      attempts: this.#attempts,
      holdCount: grant.holdCount,
      leaseMs,
      watched,
      ...shownToken(grant.token),
    };
    if (this.#endWaiting && this.#waitId !== undefined) event.waitId = this.#waitId;
    if (label !== undefined) event.label = label;
    return event;
  }

  /** Tells that the call ends without the lock. Returns the error. */
  #refused<Failure>(error: Failure): Failure {
    const { waitMs, isQuiet } = this.#request;
    const tookMs = this.#tookMs;
    const ended = { attempts: this.#attempts, tookMs };
    const waitId = this.#endWaiting && this.#waitId;
    if (!isQuiet)
      acquireFails(this.#session, this.#about, this.#message, ended, error, waitMs, waitId);
    return error;
  }

  get #about(): { lockName: string; kind: string; label: string | undefined } {
    const { name, kind } = this.#lock;
    return { lockName: name, kind, label: this.#request.label };
  }

  #newWaitId(): string {
    return (this.#waitId ??= this.#session.newEventId());
  }

  /** Leaves the line: the lock was acquired, or is no longer wanted. The clean-up removes what may be left on the server. */
  #leave(isAcquired = false): void {
    const waiter = this.#waiter;
    if (!waiter) return;
    this.#waiter = undefined;
    this.#begun = undefined;
    this.#isInDoubt = false;
    const mayStand = waiter.leave(isAcquired ? this.#request.leaseMs : undefined);
    const isLeft = this.#unused?.then(({ outcome }) => mayStand || outcome !== 'held');
    this.#unused = undefined;
    if (mayStand || isLeft) this.#session.cleanup.remove(this.#removable, waiter.ownerId, isLeft);
  }

  /** The lock, for the clean-up. What the exporter asked for holds good though the adoption failed: the lock stays taken. */
  get #removable(): Removable {
    const { adopts, atLeastMs } = this.#request;
    if (!adopts || atLeastMs === 0) return this.#lock;
    const { clock } = this.#session;
    const lock = this.#lock;
    const untilMs = clock.nowMs() + atLeastMs;
    return { id: lock.id, release: (ownerId) => releaseAt(lock, ownerId, untilMs, clock) };
  }

  #holder(grant: Grant, parent?: GrantHolder): GrantHolder {
    return new Holder(grant, parent, this.#actingScope, this.#request.isShared);
  }

  /** The scope that the call acts for; undefined: an anonymous caller. Looked up each time, since a run may have ended meanwhile. */
  get #actingScope(): Scope | undefined {
    return this.#request.ownScope ?? actingScope(this.#request.position);
  }

  get #isHeldAround(): boolean {
    return nearestHolder(this.#request.position, this.#lock.id) !== undefined;
  }

  /** Created when the call first needs it. */
  get #limit(): WaitLimit {
    const { signal, waitMs, attemptMs = Infinity } = this.#request;
    const { clock, commandTimeoutMs } = this.#session;
    return (this.#waitLimit ??= new WaitLimit({
      clock,
      limitMs: waitMs === 0 ? this.#attemptLimitMs : waitMs - this.#tookMs,
      isSingleAttempt: waitMs === 0,
      // The caller's limit may be too short for any answer; `commandTimeout` is not.
      sparesAttempts: waitMs > 0 || (attemptMs > 0 && attemptMs < commandTimeoutMs),
      signal,
    }));
  }

  /** How long a single attempt may take, in milliseconds. */
  get #attemptLimitMs(): number {
    return Math.min(this.#session.commandTimeoutMs, this.#request.attemptMs ?? Infinity);
  }

  // The error when the wait is over. It says that another owner has the lock only if a recent answer, or a grant of this client, shows it;
  // otherwise that Redis did not answer, or that its answers took longer than the lease.

  #explained(over: WaitEnded): Error {
    const session = this.#session;
    const { signal, waitMs, waitIs, leaseMs } = this.#request;
    const { name } = this.#lock;
    if (over.ending === 'aborted') {
      const seen = this.#waiter?.lastAnswer?.holder ?? this.#localGrant;
      return aborted(this.#lock, 'while waiting', signal, seen);
    }
    if (over.ending === 'closed') return session.closedError(name);
    const lastError = over.lastError ?? this.#waiter?.lastAnswer?.lastError;
    const isDecided = this.#isReachable && !(lastError instanceof Undecided);
    const known = isDecided && this.#isHolderKnown ? this.#waiter?.lastAnswer?.holder : undefined;
    const seen = this.#isReentering ? undefined : (known ?? this.#localGrant);
    if (seen) return heldElsewhere(this.#lock, this.#request, seen, this.#hint(seen));
    if (this.#isLate && !lastError && this.#isReachable) return session.tooLate(name, leaseMs);
    if (waitMs === 0)
      return session.unanswered(name, 'not acquired', this.#attemptLimitMs, lastError);
    // A short wait is to be named as the caller gave it.
    const hadMs = this.#limit.isOverdue && waitIs !== 'short' ? Math.max(waitMs, LATE_MS) : waitMs;
    const error = session.unanswered(name, 'not acquired', hadMs, lastError, waitIs);
    return ranOut(error, this.#request);
  }

  /** Whether the last answer that named a holder will still be recent enough when the wait ends. */
  get #isHolderKnown(): boolean {
    return (this.#waiter?.lastAnswer?.askedAtMs ?? -Infinity) >= this.#youngSinceMs;
  }

  /** An answer counts at the end of the wait if the server was asked at this time (monotonic) or later. */
  get #youngSinceMs(): number {
    return this.#limit.endsAtMs - OLDEST_ANSWER_MS;
  }

  get #isReachable(): boolean {
    return this.#lock.isReachable ?? this.#session.connection.isReady;
  }

  /** A hint for the error message, if the caller waited for itself or for another caller of this process. */
  #hint({ holder, holderState = 'held' }: SeenHolder): string {
    const nested = this.#request.selfWait?.();
    if (nested) return `; ${nested.why}`;
    if (this.#localGrant?.holder === holder)
      return heldByCallerOfClient(this.#session.anonymous.held(this.#lock.id) !== undefined);
    const isInside = holderState === 'held' || holderState === 'kept';
    const isNeighbour = isInside && neighbourOf(this.#session, holder) !== undefined;
    return isNeighbour ? heldByNeighbour(this.#lock.isReentrant !== false) : '';
  }

  /** This client's own grant of the lock; not a shared one if the caller asked for a shared one, since that was not in its way. */
  get #localGrant(): SeenHolder | undefined {
    const grant = this.#session.grantOf(this.#lock.id);
    return grant?.isShared && this.#lock.isShared ? undefined : grant?.seen;
  }
}
