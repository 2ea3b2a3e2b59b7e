// What a server gave one owner of a lock. All holds that re-entered the lock share the grant. It ends lost, or released: to whoever comes
// next, or to the next waiter of this client, who is named in the release.

import {
  ClosedError,
  isUnanswered,
  KeyConflictError,
  LockLostError,
  type LossReason,
  type SeenHolder,
} from '../api/errors.js';
import { elapsedMs, type Instant, now } from '../runtime/clock.js';
import {
  type Deadline,
  deadlineOf,
  earlier,
  type Granted,
  type GrantedHold,
  type GrantedLock,
  type HandOverReply,
  type KeepReply,
  later,
  leftMs,
  type NextWaiter,
  type Renewal,
  type RenewalLimit,
} from './protocol.js';
import type { Due, Scheduled } from '../runtime/schedule.js';
import { lossOf, notReleased, upgradeRefused } from './messages.js';
import type { Session } from './session.js';
import { LocalMutex } from '../scopes/local-mutex.js';
import { WaitLimit } from '../runtime/wait-limit.js';
import { LONGEST_CHAIN_MS, MOST_HAND_OVERS } from '../waiting/line.js';
import { mayHaveRun, retry } from './retry.js';

type State =
  // Also without any hold: one has just ended and its release waits for its turn, or the next hold is about to begin.
  | { readonly kind: 'held' }
  | { readonly kind: 'lost'; readonly error: LockLostError }
  // From the moment in which its release is sent: that may arrive late, so the owner must not be used again.
  | { readonly kind: 'released'; readonly to: 'all' | 'successor'; readonly isConfirmed: boolean };

// One object of each, since every lock passes through them.
const HELD: State = { kind: 'held' };
const RELEASING = { kind: 'released', to: 'all', isConfirmed: false } as const;
const RELEASED = { kind: 'released', to: 'all', isConfirmed: true } as const;
const HANDING_OVER = { kind: 'released', to: 'successor', isConfirmed: false } as const;
const HANDED_OVER = { kind: 'released', to: 'successor', isConfirmed: true } as const;

/** How a grant came from others of this client: their owners since the lock was acquired, and when that was. */
interface Origin {
  readonly owners: readonly string[];
  readonly acquiredAt: Instant;
}

/** What is called when a release is settled, with the error if it failed. */
type Done = (error?: Error) => void;

/** A release whose first command did not settle it: that command, and how much of `commandTimeout` is left. */
interface BegunRelease {
  readonly answer: Promise<boolean>;
  readonly limitMs: number;
}

export class Grant implements Granted, Due {
  scheduled: Scheduled | undefined;
  readonly lock: GrantedLock;
  readonly ownerId: string;
  /** The fencing token, if the lock is fenced. */
  readonly token: bigint | undefined;
  renewalLimit: RenewalLimit | undefined;
  readonly #session: Session;
  readonly #since: Instant;
  /** undefined: it was acquired. */
  readonly #origin: Origin | undefined;
  /** Until the hand-over is answered: the grant before this one, whose owner the server may still have instead. */
  #predecessor: Grant | undefined;
  /** While it is handed over, and released after all if that fails: the end of that, whatever came of it. */
  #handingOver: Promise<void> | undefined;
  #hadHolds = false;
  #holds: GrantedHold[] = [];
  #state: State = HELD;
  #deadline: Deadline;
  /** When the command was sent that confirmed the grant last. */
  #confirmedAt: Instant;
  /** A renewal was sent and not answered: if the deadline passes now, the loss is for want of an answer. */
  #isRenewalUnanswered = false;
  /** Commands that set or confirm the hold count, the lease or the owner go one after another. */
  readonly #turns = new LocalMutex();
  /** The confirmation of a hand-over that is under way. */
  #confirming: WaitLimit | undefined;
  #isShared: boolean;
  /** A downgrade is to be sent as soon as the turn that is under way has ended. */
  #owesShare = false;
  /** Ends the wait for the answer to the first command of a release, when its time is over. */
  #firstReleaseDue: (() => void) | undefined;
  /** Called when nothing more will be found out about the grant; set by a closing client alone. */
  #onForgotten: (() => void) | undefined;

  constructor(
    session: Session,
    lock: GrantedLock,
    ownerId: string,
    deadline: Deadline,
    token?: bigint,
    origin?: Origin,
  ) {
    this.#session = session;
    this.lock = lock;
    this.ownerId = ownerId;
    this.token = token;
    this.#since = now(session.clock);
    this.#origin = origin;
    this.#isShared = lock.isShared ?? false;
    this.#deadline = deadline;
    this.#confirmedAt = deadline.since;
    session.grants.add(this);
    lock.granted?.(this);
  }

  // What it is now.

  get isHeld(): boolean {
    this.checkDeadline();
    return this.#state.kind === 'held';
  }

  /** Why the grant was lost; undefined while it is held and after it was released. */
  get loss(): LockLostError | undefined {
    this.checkDeadline();
    return this.#state.kind === 'lost' ? this.#state.error : undefined;
  }

  get isReleased(): boolean {
    return this.#state.kind === 'released';
  }

  remaining(): number {
    return this.isHeld ? Math.max(leftMs(this.#deadline), 0) : 0;
  }

  get seen(): SeenHolder {
    return { holder: this.ownerId, holderTtlMs: Math.round(this.remaining()) };
  }

  get heldForMs(): number {
    return elapsedMs(this.#since);
  }

  get heldSince(): Date {
    return new Date(this.#since.wallMs);
  }

  get holdCount(): number {
    return this.#holds.length;
  }

  /** How many of its holds are shared, or how many are not. */
  countOf(isShared: boolean): number {
    return this.#holds.filter((hold) => (hold.isShared ?? false) === isShared).length;
  }

  /** Whether other owners may hold the lock beside it. Of a write lock, true as soon as its downgrade is going to be sent. */
  get isShared(): boolean {
    return this.#isShared;
  }

  get #onlyReads(): boolean {
    return this.#holds.length > 0 && this.countOf(false) === 0;
  }

  // Its holds.

  /** Adds a hold that begins; the server counts it already. */
  add(hold: GrantedHold): void {
    this.#hadHolds = true;
    // Most grants have just one hold: an array that grows from nothing takes room for 17.
    if (this.#holds.length === 0) this.#holds = [hold];
    else this.#holds.push(hold);
    if (this.#state.kind === 'lost') hold.lost(this.#state.error);
    else this.#watch();
    this.#noticeEnd();
  }

  #drop(hold: GrantedHold): void {
    const index = this.#holds.indexOf(hold);
    if (index >= 0) this.#holds.splice(index, 1);
    if (this.#holds.length === 0) this.lock.unwatch(this);
  }

  /** The caller to whom the lock was handed over does not want it any more: it goes to the next one, or is released. */
  decline(): void {
    if (this.#state.kind !== 'held' || this.#holds.length > 0) return;
    if (this.#session.isClosed) this.#abandon();
    else this.#releaseUntilAnswered(false, () => undefined); // after a failure the clean-up goes on
  }

  // Its lease.

  /** Whether any hold wants the lease to be renewed, and `renewalLimit` lets that happen now. */
  get isWatched(): boolean {
    return this.#holds.some(({ isWatched }) => isWatched) && (this.renewalLimit?.isDue ?? true);
  }

  /** The watchdog looks after a grant with holds; but not before it is known that the server has this owner. */
  #watch(): void {
    if (this.#holds.length > 0 && !this.#predecessor) this.lock.watch(this);
  }

  ageMs(at?: Instant): number {
    return this.#state.kind === 'held' ? elapsedMs(this.#confirmedAt, at) : -1;
  }

  checkDeadline(at?: Instant): void {
    // Without holds nobody relies on the grant. While it is being released the server's answer tells whether it was lost.
    const isReliedOn = this.#state.kind === 'held' && this.#holds.length > 0;
    if (!isReliedOn || leftMs(this.#deadline, at) > 0) return;
    this.lose(this.#isRenewalUnanswered ? 'unreachable' : 'expired');
  }

  checkEnd(at?: Instant): void {
    this.checkDeadline(at);
    this.#noticeEnd(at);
  }

  /** What the grant was scheduled for: its deadline, which may have been prolonged since, or the end of its release's first command. */
  due(): void {
    if (this.#firstReleaseDue) this.#firstReleaseDue();
    else this.checkEnd();
  }

  /** Schedules the deadline if it comes before the watchdog's next round; a later one is looked at then, so few are ever scheduled. */
  #noticeEnd(at?: Instant): void {
    if (this.#state.kind !== 'held') return;
    const left = leftMs(this.#deadline, at);
    const isOver = left <= 0 && this.#holds.length === 0;
    const isLookedAt = !this.#predecessor && left > this.#session.lockWatchdogTimeoutMs / 3;
    if (isOver || isLookedAt) return;
    // Counted from now: since `at`, others may have been told of their loss, which takes as long as their listeners take.
    this.#session.schedule.within(this, leftMs(this.#deadline));
  }

  renewing(leaseMs: number): void {
    this.#isRenewalUnanswered = leaseMs > 0; // a mere look would not have prolonged it
  }

  renewed(reply: KeepReply, { sentAt, leaseMs, deadline, answeredAt }: Renewal): void {
    if (leaseMs > 0) this.renewalLimit?.renewed(sentAt);
    this.checkDeadline(answeredAt);
    if (this.#state.kind !== 'held') return;
    this.#isRenewalUnanswered = false;
    if (reply !== 'kept') {
      this.#loseTo(reply);
      return;
    }
    this.#prolong(deadline, answeredAt);
    const { ownerId, lock } = this;
    if (leaseMs > 0)
      this.#session.events.emit('renewed', () => ({ lockName: lock.name, ownerId, leaseMs }));
  }

  /** The server confirmed the grant until `deadline`, or, when it was a mere look, only that the grant is there. */
  #prolong(deadline: Deadline, at: Instant = now(this.#session.clock)): void {
    if (this.#state.kind !== 'held') return;
    this.#deadline = later(this.#deadline, deadline, at);
    this.#confirmedAt = deadline.since;
    this.checkDeadline(at);
  }

  // How it ends.

  /** The one place where the state changes: what was released may yet turn out to be lost, what is lost stays lost. */
  #become(next: Exclude<State, { kind: 'held' }>): void {
    if (this.#state.kind === 'lost') return;
    this.#state = next;
    this.#session.schedule.delete(this);
    this.#confirming?.end('closed');
    this.lock.unwatch(this);
    if (next === RELEASED) this.#wasReleased();
    // Before its release is confirmed the grant stays among those of the session: a closing client waits for it.
    if (next.kind === 'lost' || next.isConfirmed) this.#forget();
    if (next.kind === 'lost') for (const hold of [...this.#holds]) hold.lost(next.error);
  }

  /** Remembers the owners of its chain: a server that takes over may have missed what became of them. (Not before: they keep others out.) */
  #wasReleased(): void {
    const { released } = this.#session.cleanup;
    if (!released) return;
    for (const ownerId of [...this.#chain.owners, this.ownerId])
      released.add(this.lock, ownerId, leftMs(this.#deadline));
  }

  #forget(): void {
    this.#session.grants.delete(this);
    this.lock.forget?.(this.ownerId);
    this.#onForgotten?.();
  }

  /** Resolves when the release that is under way is settled, whatever came of it. */
  async whenSettled(): Promise<void> {
    if (this.#session.grants.has(this))
      await new Promise<void>((resolve) => (this.#onForgotten = resolve));
  }

  /** Ends the grant as lost: whoever relies on it learns that now. */
  lose(lossReason: LossReason): LockLostError {
    if (this.#state.kind === 'lost') return this.#state.error;
    const event = lossOf(this, lossReason);
    this.#become({ kind: 'lost', error: event.error });
    this.#session.events.emit('lost', () => event);
    // The server may still have this owner, though this process does not rely on it any more.
    const isUncertain = lossReason === 'expired' || lossReason === 'unreachable';
    const mayStand = isUncertain || this.lock.leavesRemains;
    // A predecessor, once the hand-over has failed, removes both.
    if (mayStand && lossReason !== 'closed' && !this.#predecessor) this.#abandon();
    return event.error;
  }

  /** The MultiLock that this lock is a member of was lost: the holders of this grant learn that, and the clean-up removes its owner. */
  loseAsMember(error: LockLostError): void {
    if (this.#state.kind !== 'held') return;
    this.#become({ kind: 'lost', error });
    this.#abandon();
  }

  /** The server has no such owner any more. A key that went after its lease was over was not deleted, it expired. */
  #loseTo(reply: Exclude<KeepReply, 'kept'>): LockLostError {
    return this.lose(reply === 'deleted' && leftMs(this.#deadline) <= 0 ? 'expired' : reply);
  }

  /** Nobody relies on the grant any more, but its owner may still be on the server: the clean-up removes it. */
  #abandon(): void {
    this.#become(RELEASING);
    this.#forget();
    this.#session.cleanup.remove(this.lock, this.ownerId);
  }

  /** Removes the owner from the server. Until the hand-over is answered its predecessor does that, and finds out whether it was lost itself. */
  async giveBack(): Promise<boolean> {
    const predecessor = this.#predecessor;
    if (!predecessor) return await this.lock.release(this.ownerId);
    await predecessor.#handingOver;
    return true;
  }

  // What changes its hold count or its lease.

  /**
   * Adds a hold, counted and confirmed on the server. `begin` makes it, within the same turn, so that no release can count in
   * between. Returns undefined when `begin` does, or when the grant was released in the meantime.
   *
   * @throws LockUpgradeError the hold is not to be shared, but readers may be in already beside the grant
   */
  async reenter<H extends GrantedHold>(
    leaseMs: number,
    waitLimit: WaitLimit,
    begin: () => H | undefined,
    isShared = false,
  ): Promise<H | undefined> {
    let hold: H | undefined;
    const confirmed = (): unknown => (hold = begin());
    await this.#confirm(leaseMs, waitLimit, 1, confirmed, isShared);
    return hold;
  }

  /** Has the lease end no earlier than `leaseMs` from now. False when the grant was released in the meantime. */
  async extend(leaseMs: number): Promise<boolean> {
    let isExtended = false;
    try {
      await this.#session.bounded(this.lock.name, 'not known to be extended', (waitLimit) =>
        this.#confirm(leaseMs, waitLimit, 0, () => (isExtended = true), true),
      );
    } catch (error) {
      // The client was closed meanwhile, and so the lock was lost: the loss is what is thrown, whichever was found out first.
      throw error instanceof ClosedError ? (this.loss ?? error) : error;
    }
    return isExtended;
  }

  /** Confirms that the lock is held, with `more` holds added, for `leaseMs` from now. `isShared`: whether those added are shared. */
  async #confirm(
    leaseMs: number,
    waitLimit: WaitLimit,
    more: number,
    confirmed: () => void,
    isShared: boolean,
  ): Promise<void> {
    if (!this.#turns.tryTake() && !(await this.#turns.take(waitLimit, false, true))) return;
    try {
      this.#throwIfLost();
      if (this.isReleased) return;
      if (this.isShared && !isShared) throw upgradeRefused(this.lock.name);
      const sentAt = await this.#keep(this.holdCount + more, leaseMs, waitLimit, isShared);
      this.#prolong(deadlineOf(sentAt, leaseMs));
      if (this.remaining() > 0) confirmed(); // without holds it is not lost when its end has passed, but over
    } catch (error) {
      throw this.#takenIfConflict(error);
    } finally {
      this.#passTurn();
    }
  }

  /**
   * Tells the server the hold count, the lease, and whether others may hold the lock beside this owner. Returns the time at which that
   * was sent. Throws if the lock is lost.
   */
  async #keep(
    holdCount: number,
    leaseMs: number,
    waitLimit: WaitLimit,
    isShared = true,
  ): Promise<Instant> {
    const { lock, ownerId } = this;
    this.#isShared ||= isShared && this.#onlyReads;
    return await this.#ask(
      () => lock.reenter(ownerId, holdCount, leaseMs, waitLimit, this.#isShared),
      waitLimit,
    );
  }

  /** Asks whether the lock is still held; returns the time at which that was sent. Throws if the lock is lost. */
  async #ask(send: () => Promise<KeepReply>, waitLimit: WaitLimit): Promise<Instant> {
    const wasReleased = this.isReleased;
    const { connection, clock } = this.#session;
    let sentAt = now(clock);
    const reply = await retry(connection, waitLimit, this.#named, () => {
      sentAt = now(clock);
      return send();
    });
    this.#throwIfLost();
    // A grant that was given up meanwhile is not lost: the clean-up has removed its owner.
    const isGivenUp = this.isReleased && !wasReleased;
    if (reply !== 'kept' && !isGivenUp) throw this.#loseTo(reply);
    return sentAt;
  }

  #throwIfLost(): void {
    if (this.loss) throw this.loss;
  }

  /** The lock for `retry`, but without `keyInTheWay`: a key conflict means here that the lock is lost, so nobody need look at the key. */
  get #named(): { name: string } {
    return { name: this.lock.name };
  }

  /** After a key conflict the lock is lost: something else has taken the place of its key. */
  #takenIfConflict(error: unknown): unknown {
    return error instanceof KeyConflictError ? this.lose('taken') : error;
  }

  /**
   * The lock was handed over with the lease of a place in the queue: sets, in the background, the lease that was asked for. That
   * needs no turn, since it never takes back what another command confirmed.
   */
  confirmHandOver(leaseMs: number, confirm: () => Promise<KeepReply>): void {
    const { clock, acquisitions: registry } = this.#session;
    const waitLimit = new WaitLimit({ clock, limitMs: this.remaining(), registry });
    this.#confirming = waitLimit;
    this.#ask(confirm, waitLimit)
      .then((sentAt) => {
        this.#prolong(deadlineOf(sentAt, leaseMs));
      })
      // Without an answer the grant keeps the deadline that it had; a loss has been told by then.
      .catch((error: unknown) => this.#takenIfConflict(error))
      .finally(() => {
        waitLimit.dispose();
      });
  }

  // A downgrade: from now on all its holds only read.

  /** The server may be another one now, that has not got the downgrade, though it was answered: it is told again. */
  serverMayHaveChanged(): void {
    if (this.isShared && !this.lock.isShared && this.isHeld) this.#share();
  }

  /** Ends a turn: whoever had it has begun to write by now, or will not. */
  #passTurn(): void {
    const isDue = this.#owesShare && this.#onlyReads;
    this.#owesShare = false;
    if (isDue) this.#share();
    this.#turns.pass();
  }

  /** A downgrade stayed unanswered, or had no turn to be sent in: the clean-up sends it as soon as the server can be reached. */
  #shareLater(): void {
    // Whoever has the turn may be about to write, unless that is refused already.
    if (this.#turns.isTaken && !this.isShared) this.#owesShare = true;
    else this.#share();
  }

  #share(): void {
    this.#isShared = true;
    const { lock, ownerId, holdCount } = this;
    const share = async (): Promise<boolean> => {
      await lock.reenter(ownerId, holdCount, 0, this.#session.untilClosed, true);
      return true;
    };
    this.#session.cleanup.remove({ id: `${lock.id} shared`, release: share }, ownerId);
  }

  // Its release.

  /** Ends a hold, and with the last one releases the lock. Call it again after a failure. */
  release(hold: GrantedHold, isRepeat: boolean, done: Done): void {
    this.#drop(hold);
    const isLast = this.holdCount === 0 && this.#state.kind === 'held';
    const isSimple = isLast && this.#session.connection.isReady && !this.#nextWaiter;
    if (isSimple && this.#turns.tryTake()) this.#releaseAtOnce(done);
    else this.#releaseUntilAnswered(isRepeat, done);
  }

  /** Sends one command, while no other command of the grant is under way, and repeats it only if that does not settle the release. */
  #releaseAtOnce(done: Done): void {
    const { clock, commandTimeoutMs, schedule } = this.#session;
    this.#become(RELEASING);
    const answer = this.lock.release(this.ownerId);
    const endsAtMs = clock.nowMs() + commandTimeoutMs;
    const settled = (isReleased: boolean): void => {
      if (!this.#firstReleaseDue) return;
      this.#firstReleaseDue = undefined;
      schedule.delete(this);
      this.#turns.pass();
      if (isReleased) {
        this.#become(RELEASED);
        done();
      } else this.#releaseUntilAnswered(false, done, { answer, limitMs: endsAtMs - clock.nowMs() });
    };
    this.#firstReleaseDue = () => {
      const leftMs = endsAtMs - clock.nowMs();
      if (leftMs > 0) schedule.within(this, leftMs);
      else settled(false);
    };
    schedule.within(this, commandTimeoutMs);
    answer.then(settled, () => {
      settled(false);
    });
  }

  /** Repeats the release until it is answered, within `commandTimeout`. `begun`: its first command, if that was sent already. */
  #releaseUntilAnswered(isRepeat: boolean, done: Done, begun?: BegunRelease): void {
    const { name } = this.lock;
    const isLast = this.holdCount === 0;
    const release = (waitLimit: WaitLimit): Promise<void> =>
      this.#release(waitLimit, isRepeat, begun?.answer);
    const failed = (failure: Error): void => {
      const isOver = isUnanswered(failure) && isLast;
      const error = isOver ? notReleased(failure, name, this.#session.connection.isReady) : failure;
      if (isOver && !this.#handingOver && this.#session.grants.has(this)) this.#abandon();
      else if (isUnanswered(error) && this.#onlyReads) this.#shareLater();
      done(error);
    };
    const options = begun && { limitMs: begun.limitMs };
    this.#session.bounded(name, 'not known to be released', release, options).then(() => {
      done();
    }, failed);
  }

  async #release(waitLimit: WaitLimit, isRepeat: boolean, begun?: Promise<boolean>): Promise<void> {
    if (!this.#turns.tryTake() && !(await this.#turns.take(waitLimit))) return;
    const next = this.holdCount === 0 ? this.#nextWaiter : undefined;
    if (next) {
      const handedOver = this.#handOver(next);
      this.#handingOver = handedOver.catch(() => undefined);
      // What it leaves is known only at its end: a closing client waits for that.
      this.#session.cleanup.expect(this.#handingOver);
      await waitLimit.within(handedOver);
      return;
    }
    try {
      this.#throwIfLost();
      if (this.holdCount > 0) {
        await this.#keep(this.holdCount, 0, waitLimit);
        return;
      }
      if (this.#state.kind === 'released' && this.#state.isConfirmed) return; // by a release of another hold that was before us
      await this.#sendRelease(waitLimit, isRepeat || (this.isReleased && !begun), begun);
    } catch (error) {
      throw this.#takenIfConflict(error);
    } finally {
      this.#passTurn();
    }
  }

  async #sendRelease(
    waitLimit: WaitLimit,
    isRepeat: boolean,
    begun?: Promise<boolean>,
  ): Promise<void> {
    this.#become(RELEASING);
    let answer = begun;
    let mayBeDone = isRepeat;
    const { connection } = this.#session;
    const isReleased = await retry(connection, waitLimit, this.#named, (isSentAgain) => {
      mayBeDone ||= isSentAgain;
      const sent = answer ?? this.lock.release(this.ownerId);
      answer = undefined;
      return sent;
    });
    // Gone on a repeat: the first try was executed, its answer was lost. Gone on the first try: the lock was lost.
    if (!isReleased && !mayBeDone) throw await this.#howLost(waitLimit);
    this.#become(RELEASED);
  }

  /** The server does not have the owner, so the grant is lost, even if it stays unknown how. */
  async #howLost(waitLimit: WaitLimit): Promise<LockLostError> {
    try {
      await this.#keep(1, 0, waitLimit);
    } catch (error) {
      if (error instanceof KeyConflictError) return this.lose('taken');
      if (error instanceof LockLostError) return error;
    }
    return this.#loseTo('deleted');
  }

  // The hand-over to the next waiter of this client: its release names the successor.

  get #chain(): Origin {
    return this.#origin ?? { owners: [], acquiredAt: this.#since };
  }

  /** Whom the lock is to be handed over to; undefined: to nobody, it is to be free for all. */
  get #nextWaiter(): NextWaiter | undefined {
    const next = this.lock.nextWaiter;
    const { isClosed, connection } = this.#session;
    if (!next || this.#state.kind !== 'held' || isClosed || !connection.isReady) return undefined;
    const { owners, acquiredAt } = this.#chain;
    if (owners.length >= MOST_HAND_OVERS || elapsedMs(acquiredAt) >= LONGEST_CHAIN_MS)
      return undefined;
    // Until the answer the successor relies on what is left of this lease: enough for the call to fail and be repeated.
    return leftMs(this.#deadline) >= this.#deadline.usableMs / 2 ? next : undefined;
  }

  /**
   * Releases the lock to the next waiter, by one call that is repeated until it is answered. The waiter enters when that is sent; if it needs
   * a token, on the answer. Until then neither of the two grants has another command under way.
   */
  async #handOver(next: NextWaiter): Promise<void> {
    const session = this.#session;
    const { clock, connection, commandTimeoutMs } = session;
    const { lock, ownerId } = this;
    const successorId = session.newOwnerId();
    const lease = deadlineOf(now(clock), next.leaseMs);
    const { owners, acquiredAt } = this.#chain;
    const origin = { owners: [...owners, ownerId], acquiredAt };
    const successor = (deadline: Deadline, token?: bigint): Grant =>
      new Grant(session, lock, successorId, deadline, token, origin);
    const entered = next.needsAnswer ? undefined : successor(earlier(lease, this.#deadline));
    // Whoever waits for the answer goes on waiting if none comes: that leaves time to release the lock without a successor.
    const limitMs = entered ? entered.remaining() : commandTimeoutMs / 2;
    const limit = new WaitLimit({ clock, limitMs });
    if (entered) entered.#entersAfter(this, limit);
    this.#become(HANDING_OVER);
    // Whether a copy of the call may have run: before the one that is under way, and at all.
    // (`as boolean`: the compiler does not see that a callback sets them.)
    let isRepeat = false as boolean;
    let mayBeDone = false as boolean;
    const answer = retry(connection, limit, this.#named, async (isSentAgain) => {
      isRepeat = isSentAgain;
      mayBeDone = true;
      try {
        return await next.handOver(ownerId, successorId, limit);
      } catch (error) {
        mayBeDone = isRepeat || mayHaveRun(error);
        throw error;
      }
    });
    if (entered) next.accept(entered);
    else next.expect();
    try {
      const { outcome, token } = await answer;
      // Gone at the first sending: this grant was lost before. Gone on a repeat: an earlier one was executed, the successor is lost since.
      if (outcome !== 'done' && !isRepeat) throw this.#loseTo(outcome);
      this.#become(HANDED_OVER);
      if (entered) entered.#handedOver(outcome, lease);
      else if (outcome !== 'done') next.tryItself();
      else next.accept(successor(lease, token));
    } catch (error) {
      const failure = entered ? this.#takenIfConflict(error) : error;
      if (entered && entered.holdCount > 0) entered.lose(lossReasonOf(failure));
      if (!entered) next.tryItself();
      let loss: unknown;
      try {
        if (failure instanceof LockLostError) throw failure;
        await this.#releaseAfterAll(mayBeDone);
      } catch (thrown) {
        loss = thrown;
        throw thrown;
      } finally {
        if (entered) entered.#notHandedOver(loss);
        // Only now, since it removes this owner, too: whether that was lost before could not be told any more.
        const release = async (): Promise<boolean> => {
          await lock.release(ownerId); // first, or a hand-over that arrives late would put the successor in its place
          return await lock.release(successorId);
        };
        session.cleanup.remove({ id: lock.id, release }, successorId);
      }
    } finally {
      limit.dispose();
      this.#handingOver = undefined;
      this.#passTurn();
    }
  }

  /** As the successor: enters, and does nothing else on the server until the hand-over is answered. If it is lost, nobody repeats that. */
  #entersAfter(predecessor: Grant, limit: WaitLimit): void {
    this.#predecessor = predecessor;
    this.#turns.tryTake();
    this.#confirming = limit;
    this.#isRenewalUnanswered = true;
  }

  /** As the successor: the server has answered the hand-over. It is done, and the lease counts from when it was first sent; or it was undone since. */
  #handedOver(outcome: HandOverReply['outcome'], lease: Deadline): void {
    this.#predecessor = undefined;
    this.#confirming = undefined;
    this.#isRenewalUnanswered = false;
    if (outcome === 'done') this.#prolong(lease);
    else this.#loseTo(outcome);
    if (this.#state.kind === 'held') this.#watch();
    else if (outcome === 'done') this.#abandon(); // lost in the instant of the answer
    this.#passTurn();
  }

  /** As the successor: the hand-over has failed. `loss`: the owner before it was lost, and so was this one for whoever was inside. */
  #notHandedOver(loss: unknown): void {
    if (loss instanceof LockLostError && this.#hadHolds) this.lose(loss.lossReason);
    this.#become(RELEASING);
    this.#forget();
    this.#passTurn();
  }

  /** The hand-over has no successor any more: the lock is only released. `isRepeat`: the hand-over may have released it already. */
  async #releaseAfterAll(isRepeat: boolean): Promise<void> {
    const release = (waitLimit: WaitLimit): Promise<void> => this.#sendRelease(waitLimit, isRepeat);
    try {
      await this.#session.bounded(this.lock.name, 'not known to be released', release);
    } catch (error) {
      if (isUnanswered(error)) this.#abandon();
      throw this.#takenIfConflict(error);
    }
  }
}

/** How a successor is lost whose hand-over failed. */
function lossReasonOf(failure: unknown): LossReason {
  return failure instanceof LockLostError ? failure.lossReason : 'unreachable';
}
