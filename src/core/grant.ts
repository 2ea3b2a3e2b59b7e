// What a server gave one owner of a lock. All holds that re-entered the lock share the grant, and it may outlive them: it is passed on
// within the process, or released.

import {
  ClosedError,
  isUnanswered,
  KeyConflictError,
  LockLostError,
  type LossReason,
  type SeenHolder,
} from '../api/errors.js';
import { type Clock, elapsedMs, type Instant, now } from '../runtime/clock.js';
import {
  type Deadline,
  deadlineOf,
  type Granted,
  type GrantedHold,
  type GrantedLock,
  type Heir,
  type KeepReply,
  later,
  leftMs,
  type Renewal,
  type RenewalLimit,
} from './protocol.js';
import type { Due, Scheduled } from '../runtime/schedule.js';
import { lossOf, notReleased, upgradeRefused } from './messages.js';
import type { Session } from './session.js';
import { Turns } from '../scopes/turns.js';
import { WaitLimit } from '../runtime/wait-limit.js';
import { retry } from './retry.js';
import type { Removable } from './cleanup.js';

// The holds of a grant: how many there are, of which kind, since when; and to which heir the grant was passed on, until that one's hold
// begins.

abstract class GrantHolds {
  #holds: GrantedHold[] = [];
  /** To whom the grant was passed on, until that one's hold begins. */
  #heir: Heir | undefined;
  renewalLimit: RenewalLimit | undefined;
  /** When its present holder got the grant. */
  #heldSince: Instant;

  constructor(clock: Clock) {
    this.#heldSince = now(clock);
  }

  /** Whether other owners may hold the lock beside it (a reader, a permit). */
  abstract readonly isShared: boolean;

  get holdCount(): number {
    return this.#holds.length + Number(this.#heir !== undefined);
  }

  /** How many of its holds are shared, or how many are not. */
  countOf(isShared: boolean): number {
    return this.#holds.filter((hold) => (hold.isShared ?? false) === isShared).length;
  }

  /** Whether the grant has holds, all of them shared, and no heir. */
  protected get onlyReads(): boolean {
    return this.#holds.length > 0 && !this.#heir && this.countOf(false) === 0;
  }

  get heldForMs(): number {
    return elapsedMs(this.#heldSince);
  }

  get heldSince(): Date {
    return new Date(this.#heldSince.wallMs);
  }

  /** Whether any hold, or the heir, wants the lease to be renewed, and `renewalLimit` lets that happen now. */
  get isWatched(): boolean {
    const isWanted = this.#heir?.isWatched ?? this.#holds.some(({ isWatched }) => isWatched);
    return isWanted && (this.renewalLimit?.isDue ?? true);
  }

  /** Adds a hold. Returns whether the grant had none before, and no heir. */
  protected enter(hold: GrantedHold): boolean {
    const isFirst = this.holdCount === 0;
    // Most grants have just one hold: an array that grows from nothing takes room for 17.
    if (this.#holds.length === 0) this.#holds = [hold];
    else this.#holds.push(hold);
    this.#heir = undefined;
    return isFirst;
  }

  protected leave(hold: GrantedHold): void {
    const index = this.#holds.indexOf(hold);
    if (index >= 0) this.#holds.splice(index, 1);
  }

  protected passTo(heir: Heir): void {
    this.#heir = heir;
    this.#heldSince = now(this.#heldSince.clock);
  }

  protected passToNobody(): void {
    this.#heir = undefined;
  }

  /** The grant was lost. */
  protected notifyLost(error: LockLostError): void {
    for (const hold of [...this.#holds]) hold.lost(error);
    this.#heir?.lost(error);
  }
}

// The state of a grant: held until its deadline, lost, or released.

type State =
  // Also without any hold: one has just ended and its release waits for its turn, or the next hold is about to begin.
  | { readonly kind: 'held' }
  | { readonly kind: 'lost'; readonly error: LockLostError }
  // From the moment in which its release is sent: that may arrive late, so the owner must not be used again.
  | { readonly kind: 'released'; readonly isConfirmed: boolean };

const HELD: State = { kind: 'held' };

abstract class GrantState extends GrantHolds implements Granted, Due {
  scheduled: Scheduled | undefined;
  readonly lock: GrantedLock;
  readonly ownerId: string;
  /** The fencing token, if the lock is fenced. */
  readonly token: bigint | undefined;
  protected readonly session: Session;
  #deadline: Deadline;
  /** When the command was sent that confirmed the grant last. */
  #confirmedAt: Instant;
  #state: State = HELD;
  /** A renewal was sent and not answered: if the deadline passes now, the loss is for want of an answer. */
  #isRenewalUnanswered = false;
  /** Called when nothing more will be found out about the grant; set by a closing client alone. */
  #onForgotten: (() => void) | undefined;

  constructor(
    session: Session,
    lock: GrantedLock,
    ownerId: string,
    deadline: Deadline,
    token?: bigint,
  ) {
    super(session.clock);
    this.session = session;
    this.lock = lock;
    this.ownerId = ownerId;
    this.token = token;
    this.#deadline = deadline;
    this.#confirmedAt = deadline.since;
    session.grants.add(this);
    lock.granted?.(this);
  }

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

  protected get isReleaseConfirmed(): boolean {
    return this.#state.kind === 'released' && this.#state.isConfirmed;
  }

  remaining(): number {
    return this.isHeld ? Math.max(leftMs(this.#deadline), 0) : 0;
  }

  get seen(): SeenHolder {
    return { holder: this.ownerId, holderTtlMs: Math.round(this.remaining()) };
  }

  ageMs(at?: Instant): number {
    return this.#state.kind === 'held' ? elapsedMs(this.#confirmedAt, at) : -1;
  }

  /** Adds a hold that begins; the server counts it already. */
  add(hold: GrantedHold): void {
    const isFirst = this.enter(hold);
    if (this.#state.kind === 'lost') hold.lost(this.#state.error);
    else if (isFirst) this.lock.watch(this);
    this.#noticeEnd();
  }

  protected drop(hold: GrantedHold): void {
    this.leave(hold);
    if (this.holdCount === 0) this.lock.unwatch(this);
  }

  /** Passes the grant on: its last hold ends, and the heir's is to begin. Nothing changes on the server. */
  protected bequeath(hold: GrantedHold | undefined, heir: Heir): void {
    this.passTo(heir);
    if (hold) this.drop(hold);
  }

  /** The heir does not take the grant. */
  protected disinherit(): void {
    this.passToNobody();
    if (this.holdCount === 0) this.lock.unwatch(this);
  }

  abstract decline(): void;
  abstract closed(error?: Error): void;

  /** Ends the grant as lost: whoever relies on it learns that now. */
  lose(lossReason: LossReason): LockLostError {
    if (this.#state.kind === 'lost') return this.#state.error;
    const event = lossOf(this, lossReason);
    this.become({ kind: 'lost', error: event.error });
    this.session.events.emit('lost', () => event);
    // The server may still have this owner, though this process does not rely on it any more.
    const mayStand = lossReason === 'expired' || lossReason === 'unreachable';
    if (mayStand || (this.lock.leavesRemains && lossReason !== 'closed')) this.abandon();
    return event.error;
  }

  /** The MultiLock that this lock is a member of was lost: the holders of this grant learn that, and the clean-up removes its owner. */
  loseAsMember(error: LockLostError): void {
    if (this.#state.kind !== 'held') return;
    this.become({ kind: 'lost', error });
    this.abandon();
  }

  async released(): Promise<void> {
    if (this.session.grants.has(this))
      await new Promise<void>((resolve) => (this.#onForgotten = resolve));
  }

  checkDeadline(at?: Instant): void {
    // Without holds nobody relies on the grant. While it is being released the server's answer tells whether it was lost.
    if (this.#state.kind !== 'held' || this.holdCount === 0 || leftMs(this.#deadline, at) > 0)
      return;
    this.lose(this.#isRenewalUnanswered ? 'unreachable' : 'expired');
  }

  checkEnd(at?: Instant): void {
    this.checkDeadline(at);
    this.#noticeEnd(at);
  }

  /** The deadline has come for which the grant was scheduled; it may have been prolonged since. */
  due(): void {
    this.checkEnd();
  }

  /** Schedules the deadline if it comes before the watchdog's next round; a later one is looked at then, so few are ever scheduled. */
  #noticeEnd(at?: Instant): void {
    if (this.#state.kind !== 'held') return;
    const left = leftMs(this.#deadline, at);
    const isOver = left <= 0 && this.holdCount === 0;
    if (isOver || left > this.session.lockWatchdogTimeoutMs / 3) return;
    // Counted from now: since `at`, others may have been told of their loss, which takes as long as their listeners take.
    this.session.schedule.within(this, leftMs(this.#deadline));
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
      this.loseTo(reply);
      return;
    }
    this.prolong(deadline, answeredAt);
    const { ownerId, lock } = this;
    if (leaseMs > 0)
      this.session.events.emit('renewed', () => ({ lockName: lock.name, ownerId, leaseMs }));
  }

  /** The server confirmed the grant until `deadline`, or, when it was a mere look, only that the grant is there. */
  protected prolong(deadline: Deadline, at: Instant = now(this.session.clock)): void {
    if (this.#state.kind !== 'held') return;
    this.#deadline = later(this.#deadline, deadline, at);
    this.#confirmedAt = deadline.since;
    this.checkDeadline(at);
  }

  /** The server has no such owner any more. A key that went after its lease was over was not deleted, it expired. */
  protected loseTo(reply: Exclude<KeepReply, 'kept'>): LockLostError {
    return this.lose(reply === 'deleted' && leftMs(this.#deadline) <= 0 ? 'expired' : reply);
  }

  /** Nobody relies on the grant any more, but its owner may still be on the server: the clean-up removes it. */
  protected abandon(): void {
    this.become({ kind: 'released', isConfirmed: false });
    this.#forget();
    this.session.cleanup.remove(this.lock, this.ownerId);
  }

  /** Called when the grant was lost, or its release is on its way. */
  protected abstract ended(): void;

  /** The one place where the state changes: what was released may yet turn out to be lost, what is lost stays lost. */
  protected become(next: Exclude<State, { kind: 'held' }>): void {
    if (this.#state.kind === 'lost') return;
    this.#state = next;
    this.session.schedule.delete(this);
    this.ended();
    this.lock.unwatch(this);
    if (next.kind === 'released' && next.isConfirmed)
      this.session.cleanup.released?.add(this.lock, this.ownerId, leftMs(this.#deadline));
    // Before its release is confirmed the grant stays among those of the session: a closing client waits for it.
    if (next.kind === 'lost' || next.isConfirmed) this.#forget();
    if (next.kind === 'lost') this.notifyLost(next.error);
  }

  #forget(): void {
    this.session.grants.delete(this);
    this.lock.forget?.(this.ownerId);
    this.#onForgotten?.();
  }
}

// A grant's hold count and lease on the server: the commands that set or confirm the count go one after another.

abstract class CountedGrant extends GrantState {
  /** The confirmation of a hand-over that is under way. */
  #confirming: WaitLimit | undefined;
  protected readonly turns: Turns = new Turns();
  /**
   * The hold count on the server. undefined while a command that sets it is unanswered: it may still arrive, so the grant must not be
   * passed on.
   */
  protected countThere: number | undefined = 1;
  #isShared: boolean = this.lock.isShared ?? false;
  /** A downgrade is to be told as soon as the turn that is under way has ended. */
  #owesShare = false;

  /** Of a write lock, true as soon as its downgrade is going to be sent: readers may be in then, whatever the server answers. */
  override get isShared(): boolean {
    return this.#isShared;
  }

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
    await this.confirm(leaseMs, waitLimit, 1, confirmed, isShared);
    return hold;
  }

  /** Has the lease end no earlier than `leaseMs` from now. False when the grant was released in the meantime. */
  async extend(leaseMs: number): Promise<boolean> {
    let isExtended = false;
    try {
      await this.session.bounded(this.lock.name, 'not known to be extended', (waitLimit) =>
        this.confirm(leaseMs, waitLimit, 0, () => (isExtended = true)),
      );
    } catch (error) {
      // The client was closed meanwhile, and so the lock was lost: the loss is what is thrown, whichever was found out first.
      throw error instanceof ClosedError ? (this.loss ?? error) : error;
    }
    return isExtended;
  }

  /**
   * The lock was handed over with the lease of a place in line: sets, in the background, the lease that was asked for. That
   * needs no turn, since it never takes back what another command confirmed.
   */
  confirmHandOver(leaseMs: number, confirm: () => Promise<KeepReply>): void {
    const { clock, acquisitions: registry } = this.session;
    const waitLimit = new WaitLimit({ clock, limitMs: this.remaining(), registry });
    this.#confirming = waitLimit;
    this.#ask(confirm, waitLimit)
      .then((sentAt) => {
        this.prolong(deadlineOf(sentAt, leaseMs));
      })
      // Without an answer the grant keeps the deadline that it had; a loss has been told by then.
      .catch((error: unknown) => this.takenIfConflict(error))
      .finally(() => {
        waitLimit.dispose();
      });
  }

  protected override ended(): void {
    this.#confirming?.end('closed');
  }

  /** Confirms that the lock is held, with `more` holds added, for `leaseMs` from now. `isShared`: whether those added are shared. */
  protected async confirm(
    leaseMs: number,
    waitLimit: WaitLimit,
    more: number,
    confirmed: () => void,
    isShared = true,
  ): Promise<void> {
    if (!this.turns.tryTake() && !(await this.turns.take(waitLimit, false, true))) return;
    try {
      this.throwIfLost();
      if (this.isReleased) return;
      if (this.isShared && !isShared) throw upgradeRefused(this.lock.name);
      const sentAt = await this.keep(this.holdCount + more, leaseMs, waitLimit, isShared);
      this.prolong(deadlineOf(sentAt, leaseMs));
      if (this.remaining() > 0) confirmed(); // without holds it is not lost when its end has passed, but over
    } catch (error) {
      throw this.takenIfConflict(error);
    } finally {
      this.passTurn();
    }
  }

  /**
   * Tells the server the hold count, the lease, and whether others may hold the lock beside this owner. Returns the time at which that
   * was sent. Throws if the lock is lost.
   */
  protected async keep(
    holdCount: number,
    leaseMs: number,
    waitLimit: WaitLimit,
    isShared = true,
  ): Promise<Instant> {
    const { lock, ownerId } = this;
    this.#isShared ||= isShared && this.onlyReads;
    const send = (): Promise<KeepReply> =>
      lock.reenter(ownerId, holdCount, leaseMs, waitLimit, this.#isShared);
    this.countThere = undefined;
    const sentAt = await this.#ask(send, waitLimit);
    this.countThere = holdCount;
    return sentAt;
  }

  /** The server may be another one now, that has not got the downgrade, though it was answered: it is told again. */
  doubted(): void {
    if (this.isShared && !this.lock.isShared && this.isHeld) this.#share();
  }

  /** Ends a turn: whoever had it has begun to write by now, or will not. */
  protected passTurn(): void {
    const isDue = this.#owesShare && this.onlyReads;
    this.#owesShare = false;
    if (isDue) this.#share();
    this.turns.pass();
  }

  /**
   * A downgrade stayed unanswered, or had no turn to be sent in: the clean-up tells it as soon as the server can be reached, so that other
   * readers get in.
   */
  protected shareLater(): void {
    // Whoever has the turn may be about to write, unless that is refused already.
    if (this.turns.isTaken && !this.isShared) this.#owesShare = true;
    else this.#share();
  }

  #share(): void {
    this.#isShared = true;
    const { lock, ownerId, holdCount } = this;
    const share = async (): Promise<boolean> => {
      await lock.reenter(ownerId, holdCount, 0, this.session.untilClosed, true);
      return true;
    };
    this.session.cleanup.remove({ id: `${lock.id} shared`, release: share }, ownerId);
  }

  /** Asks whether the lock is still held; returns the time at which that was sent. Throws if the lock is lost. */
  async #ask(send: () => Promise<KeepReply>, waitLimit: WaitLimit): Promise<Instant> {
    const wasReleased = this.isReleased;
    const { connection, clock } = this.session;
    let sentAt = now(clock);
    const reply = await retry(connection, waitLimit, this.named, () => {
      sentAt = now(clock);
      return send();
    });
    this.throwIfLost();
    // A grant that was given up meanwhile is not lost: the clean-up has removed its owner.
    const isGivenUp = this.isReleased && !wasReleased;
    if (reply !== 'kept' && !isGivenUp) throw this.loseTo(reply);
    return sentAt;
  }

  protected throwIfLost(): void {
    if (this.loss) throw this.loss;
  }

  /** The lock for `retry`, but without `keyInTheWay`: a key conflict means here that the lock is lost, so nobody need look at the key. */
  protected get named(): { name: string } {
    return { name: this.lock.name };
  }

  /** After a key conflict the lock is lost: something else has taken the place of its key. */
  protected takenIfConflict(error: unknown): unknown {
    return error instanceof KeyConflictError ? this.lose('taken') : error;
  }
}

/** A hold that ended by passing the grant on. */
export interface PassedOn {
  /** Resolves when it is known that the grant was still there. */
  readonly proof: Promise<void>;
  /** How long that hold's owner had it, in milliseconds. */
  readonly heldForMs: number;
}

/** What is called when a release is settled, with the error if it failed. */
type Done = (error?: Error) => void;

export class Grant extends CountedGrant {
  /** Made when the grant is first passed on. */
  #relay: Relay | undefined;

  /**
   * Ends the last hold by passing the grant on: the first in line takes it as it is, without asking the server. The release is
   * settled by a proof that the grant was there. undefined: nobody may take it, and nothing was done.
   */
  passOn(hold: GrantedHold): PassedOn | undefined {
    const line = this.lock.localLine;
    const heir = line?.heir;
    if (!heir || !hold.isWatched || !this.#mayPass) return undefined;
    this.#relay ??= this.#newRelay();
    if (!this.#relay.mayPass) return undefined;
    const { heldForMs } = this;
    this.bequeath(hold, heir);
    const proof = this.#relay.passed(line.length - 1);
    heir.inherit(this);
    return { proof, heldForMs };
  }

  /** The heir does not want the grant: it goes to the next in line, or is released. */
  override decline(): void {
    const heir = this.lock.localLine?.heir;
    if (heir && this.#mayPass) {
      this.bequeath(undefined, heir);
      heir.inherit(this);
      return;
    }
    this.disinherit();
    if (this.isHeld) this.#releaseUntilAnswered(false, () => undefined); // after a failure the clean-up goes on
  }

  /** Ends a hold, and with the last one releases the lock. Call it again after a failure. */
  release(hold: GrantedHold, isRepeat: boolean, done: Done): void {
    this.drop(hold);
    const { connection } = this.session;
    const isLast = this.holdCount === 0 && !this.isReleased && !this.loss;
    if (isLast && connection.isReady && this.turns.tryTake()) this.#releaseAtOnce(done);
    else this.#releaseUntilAnswered(isRepeat, done);
  }

  /** The client was closed, and has released the grant; with `error`: it has not, or that is not known. */
  override closed(error?: Error): void {
    this.#relay?.settle(error);
  }

  /** Sends one command, while no other command of the grant is under way, and repeats it only if that does not settle the release. */
  #releaseAtOnce(done: Done): void {
    this.become({ kind: 'released', isConfirmed: false });
    sendRelease(this.session, this.lock, this.ownerId, (begun) => {
      this.turns.pass();
      if (begun) {
        this.#releaseUntilAnswered(false, done, begun);
        return;
      }
      this.become({ kind: 'released', isConfirmed: true });
      done();
    });
  }

  /**
   * Whether the grant may be passed on. A token is one holder's: the next one needs a larger one. Half of the lease has to be left,
   * which is enough for a renewal to fail and be repeated.
   */
  get #mayPass(): boolean {
    if (this.token !== undefined) return false;
    const { isClosed, connection, lockWatchdogTimeoutMs } = this.session;
    const isSettled = !this.turns.isTaken && this.countThere === 1 && this.holdCount <= 1;
    const isUsable = isSettled && !isClosed && connection.isReady;
    // A lease that was extended to more than that would keep the lock for as long if the next holder died.
    const leftMs = isUsable ? this.remaining() : 0;
    return leftMs >= lockWatchdogTimeoutMs / 2 && leftMs <= lockWatchdogTimeoutMs;
  }

  #newRelay(): Relay {
    const relay = new Relay(this.session, this.lock, this.ownerId, this.heldForMs, () => {
      this.#confirmGone(relay);
    });
    return relay;
  }

  /** A look did not find the owner on the server: finds out how the grant was lost. If it is there after all, the look is repeated. */
  #confirmGone(relay: Relay): void {
    if (!this.isHeld) return;
    const kept = (): void => {
      relay.due();
    };
    const confirm = (waitLimit: WaitLimit): Promise<void> => this.confirm(0, waitLimit, 0, kept);
    this.session
      .bounded(this.lock.name, 'not known to be held', confirm)
      .catch((error: unknown) => {
        if (isUnanswered(error) && this.isHeld) this.loseTo('deleted');
        else relay.settle(error as Error);
      });
  }

  /** Its release did not find the owner, so the grant is lost, even if it stays unknown how. */
  async #askHowLost(waitLimit: WaitLimit): Promise<void> {
    try {
      await this.keep(1, 0, waitLimit);
    } catch (error) {
      const isKnown = error instanceof LockLostError || error instanceof KeyConflictError;
      throw isKnown ? error : this.loseTo('deleted');
    }
  }

  /** Repeats the release until it is answered, within `commandTimeout`. `begun`: its first command, if that was sent already. */
  #releaseUntilAnswered(isRepeat: boolean, done: Done, begun?: BegunRelease): void {
    const { name } = this.lock;
    const release = (waitLimit: WaitLimit): Promise<void> =>
      this.#release(waitLimit, isRepeat, begun?.answer);
    const failed = (failure: Error): void => {
      const isOver = isUnanswered(failure) && this.holdCount === 0;
      const error = isOver ? notReleased(failure, name, this.session.connection.isReady) : failure;
      if (isOver) this.abandon();
      else if (isUnanswered(error) && this.onlyReads) this.shareLater();
      if (this.holdCount === 0) this.#relay?.settle(error);
      done(error);
    };
    this.session.bounded(name, 'not known to be released', release, begun).then(() => {
      done();
    }, failed);
  }

  protected override ended(): void {
    super.ended();
    if (!this.#relay) return;
    this.#relay.end();
    const { loss } = this;
    // A client that closes releases its grants itself, and calls `closed()` when it knows the outcome.
    const isOfClose = this.session.isClosed && loss?.lossReason === 'closed';
    if (loss ? !isOfClose : this.isReleaseConfirmed) this.#relay.settle(loss);
  }

  async #release(waitLimit: WaitLimit, isRepeat: boolean, begun?: Promise<boolean>): Promise<void> {
    if (!this.turns.tryTake() && !(await this.turns.take(waitLimit))) return;
    try {
      this.throwIfLost();
      if (this.holdCount > 0) {
        await this.keep(this.holdCount, 0, waitLimit);
        return;
      }
      if (this.isReleaseConfirmed) return; // by a release of another hold that was before us
      isRepeat ||= this.isReleased && !begun;
      this.become({ kind: 'released', isConfirmed: false });
      let answer = begun;
      const isReleased = await retry(
        this.session.connection,
        waitLimit,
        this.named,
        (isSentAgain) => {
          isRepeat ||= isSentAgain;
          const sent = answer ?? this.lock.release(this.ownerId);
          answer = undefined;
          return sent;
        },
      );
      // Gone on a repeat: the first try was executed, its answer was lost. Gone on the first try: the lock was lost.
      if (!isReleased && !isRepeat) await this.#askHowLost(waitLimit);
      this.become({ kind: 'released', isConfirmed: true });
    } catch (error) {
      throw this.takenIfConflict(error);
    } finally {
      this.passTurn();
    }
  }
}

// A grant that is passed on from one holder to the next within a process, and the releases that did so: each is settled by the next
// proof that the server still had the grant after that.

/** How often a grant is passed on at most before other clients have their turn. */
const MOST_PASSES = 16;

/** For how long after the server gave it a grant may be passed on, in milliseconds. */
const LONGEST_MS = 10;

/** How long a proof that the grant's own release should soon bring is awaited before one is asked for, in milliseconds. */
const PROOF_MS = 1;

/** A release that passed the grant on and is not settled; `pass`: 1 for the first release that did so, 2 for the next. */
interface Unproven {
  readonly pass: number;
  resolve(): void;
  reject(error: Error): void;
}

export class Relay implements Due {
  scheduled: Scheduled | undefined;
  readonly #session: Session;
  readonly #lock: GrantedLock;
  readonly #ownerId: string;
  readonly #gone: () => void;
  readonly #endsAtMs: number;
  #passes = 0;
  #unproven: Unproven[] = [];
  #isAsking = false;
  #isOver = false;

  /** `gone` is called when the server has no such owner, though nobody released it. */
  constructor(
    session: Session,
    lock: GrantedLock,
    ownerId: string,
    heldForMs: number,
    gone: () => void,
  ) {
    this.#session = session;
    this.#lock = lock;
    this.#ownerId = ownerId;
    this.#gone = gone;
    this.#endsAtMs = session.clock.nowMs() - heldForMs + LONGEST_MS;
  }

  /** Whether the grant may be passed on once more. */
  get mayPass(): boolean {
    return this.#passes < MOST_PASSES && this.#session.clock.nowMs() < this.#endsAtMs;
  }

  /** A hold was released by passing the grant on; `waiting` are in line behind its new holder. Settled by the next proof. */
  passed(waiting: number): Promise<void> {
    const pass = ++this.#passes;
    const proof = new Promise<void>((resolve, reject) => {
      this.#unproven.push({ pass, resolve, reject });
    });
    // Enough are in line for all passes that are left; the release on the server after the last pass is a proof for all.
    if (waiting > MOST_PASSES - pass) this.#session.schedule.within(this, PROOF_MS);
    else this.due();
    return proof;
  }

  /** Asks whether the grant is still there. */
  due(): void {
    if (!this.#isAsking && !this.#isOver && this.#unproven.length > 0) void this.#ask();
  }

  /** The grant's release is on its way, or the grant was lost: nothing is asked any more. */
  end(): void {
    this.#isOver = true;
    this.#session.schedule.delete(this);
  }

  /** Settles all releases by what became of the grant: without `error` it was there until its own release; else they fail with that. */
  settle(error?: Error): void {
    this.end();
    this.#settle(this.#passes, error);
  }

  async #ask(): Promise<void> {
    const { connection } = this.#session;
    const { name } = this.#lock;
    const upTo = this.#passes;
    this.#isAsking = true;
    try {
      const count = await this.#session.bounded(name, 'not known to be released', (waitLimit) =>
        retry(connection, waitLimit, { name }, () => this.#lock.holdCount(this.#ownerId)),
      );
      if (count > 0) this.#settle(upTo);
      else if (!this.#isOver) this.#gone();
    } catch (error) {
      // Something else is in place of the lock's key: then it is gone, too.
      if (error instanceof KeyConflictError && !this.#isOver) this.#gone();
      else this.#settle(upTo, error as Error);
    } finally {
      this.#isAsking = false;
    }
    if (!this.#isOver && this.#unproven.some(({ pass }) => pass > upTo)) this.due();
  }

  #settle(upTo: number, error?: Error): void {
    const settled = this.#unproven.filter(({ pass }) => pass <= upTo);
    this.#unproven = this.#unproven.filter(({ pass }) => pass > upTo);
    for (const release of settled) {
      if (error) release.reject(error);
      else release.resolve();
    }
  }
}

// The first command of a release, which mostly settles it.

/** A release whose first command did not settle it: that command, and how much of `commandTimeout` is left. */
export interface BegunRelease {
  readonly answer: Promise<boolean>;
  readonly limitMs: number;
}

/** Sends the release, and calls `done` once: without an argument when the lock was released, else with what there is to go on with. */
function sendRelease(
  session: Session,
  lock: Removable,
  ownerId: string,
  done: (begun?: BegunRelease) => void,
): void {
  const release = new SentRelease(session, lock.release(ownerId), done);
  release.awaitAnswer();
}

class SentRelease implements Due {
  scheduled: Scheduled | undefined;
  readonly #session: Session;
  readonly #answer: Promise<boolean>;
  readonly #endsAtMs: number;
  /** undefined: called back already. */
  #done: ((begun?: BegunRelease) => void) | undefined;

  constructor(session: Session, answer: Promise<boolean>, done: (begun?: BegunRelease) => void) {
    this.#session = session;
    this.#answer = answer;
    this.#done = done;
    this.#endsAtMs = session.clock.nowMs() + session.commandTimeoutMs;
  }

  awaitAnswer(): void {
    this.#session.schedule.within(this, this.#session.commandTimeoutMs);
    this.#answer.then(
      (isReleased) => {
        this.#end(isReleased);
      },
      () => {
        this.#end(false);
      },
    );
  }

  due(): void {
    const leftMs = this.#endsAtMs - this.#session.clock.nowMs();
    if (leftMs > 0) this.#session.schedule.within(this, leftMs);
    else this.#end(false);
  }

  #end(isReleased: boolean): void {
    const done = this.#done;
    if (!done) return;
    this.#done = undefined;
    this.#session.schedule.delete(this);
    if (isReleased) done();
    else done({ answer: this.#answer, limitMs: this.#endsAtMs - this.#session.clock.nowMs() });
  }
}
