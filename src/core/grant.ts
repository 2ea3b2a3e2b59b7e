// A grant: a server gave a lock to one owner. All holds that re-entered the lock share the grant. A grant ends lost or released. The
// release frees the lock for everybody, or hands it over to the next waiter of this client, which the release then names. If its client may
// keep the lock, a grant outlives its holds, and the next caller takes it without a command.

import {
  ClosedError,
  isUnanswered,
  KeyConflictError,
  LockLostError,
  type LossReason,
  type SeenHolder,
} from '../api/errors.js';
import type { HeldLock } from '../api/description.js';
import { elapsedMs, type Instant, now } from '../runtime/clock.js';
import {
  type CallersRequest,
  type Deadline,
  deadlineOf,
  earlier,
  EXPORTED_COUNT,
  type GrantedHold,
  type GrantedLock,
  type HandOverReply,
  idOf,
  isKept,
  type Keepable,
  type KeepableGrant,
  type Keeping,
  type KeepReply,
  later,
  leaseFor,
  leftMs,
  usableMsOf,
  mayBeKept,
  type NextWaiter,
  releaseAt,
  type Removable,
  type Renewal,
  type RenewalLimit,
} from './protocol.js';
import type { Due, Scheduled } from '../runtime/schedule.js';
import { lossOf, notReleased, upgradeRefused } from './messages.js';
import type { Session } from './session.js';
import { LocalMutex } from '../scopes/local-mutex.js';
import { pauseIfLong } from '../runtime/node.js';
import { WaitEnded, WaitLimit } from '../runtime/wait-limit.js';
import { LONGEST_CHAIN_MS, MOST_HAND_OVERS } from '../waiting/line.js';
import { mayHaveRun, retry } from './retry.js';

type State =
  // Possibly without a hold: the last hold has ended and its release waits for its turn, or the next hold is about to begin.
  | { readonly kind: 'held' }
  // Kept without a hold, for the next caller of this client. To everybody else in this process the lock is not held.
  | { readonly kind: 'idle' }
  | { readonly kind: 'lost'; readonly error: LockLostError }
  // From the moment the release is sent: the release may arrive late, so the owner must not be used again.
  | { readonly kind: 'released'; readonly isConfirmed: false }
  | {
      readonly kind: 'released';
      readonly isConfirmed: true;
      readonly to: 'all' | 'successor' | 'another process';
    };

// Shared objects, since every lock passes through these states.
const HELD: State = { kind: 'held' };
const IDLE: State = { kind: 'idle' };
const RELEASING = { kind: 'released', isConfirmed: false } as const;
const RELEASED = { kind: 'released', isConfirmed: true, to: 'all' } as const;
const EXPORTED = { kind: 'released', isConfirmed: true, to: 'another process' } as const;
const HANDED_OVER = { kind: 'released', isConfirmed: true, to: 'successor' } as const;

/** The chain of hand-overs that led to a grant: the earlier owners, and when the first of them acquired the lock. */
interface Origin {
  readonly owners: readonly FormerOwner[];
  readonly acquiredAt: Instant;
}

/** `deadline`: for about so long a server that has missed its hand-over keeps it. */
interface FormerOwner {
  readonly ownerId: string;
  readonly deadline: Deadline;
}

/** What a hold on a kept lock counts in a turn of the event loop, which has some 500 of them: about 2 ms. */
export const KEPT_WEIGHT = 0.2;

/** Called when a release is settled, with the error if it failed. */
type Done = (error?: Error) => void;

/** What a hold that is added to a grant wants. */
type ReentryTerms = Pick<
  CallersRequest,
  'leaseMs' | 'isWatched' | 'atLeastMs' | 'attemptMs' | 'isShared'
>;

/** A release that its first command did not settle: the answer to that command, and how much of `commandTimeout` is left. */
interface BegunRelease {
  readonly answer: Promise<boolean>;
  readonly limitMs: number;
}

export class Grant implements KeepableGrant, Due {
  scheduled: Scheduled | undefined;
  readonly lock: GrantedLock;
  readonly ownerId: string;
  /** The fencing token, if the lock is fenced. */
  readonly token: bigint | undefined;
  renewalLimit: RenewalLimit | undefined;
  readonly #session: Session;
  /** When it was granted; of one that is kept, when its present holder began. */
  #since: Instant;
  readonly #grantedAt: Instant;
  /** Set while the client may keep the lock after its last hold: its count on the server is -1, whatever the count here. */
  #keeping: Keeping | undefined;
  /** Whether it ever was. */
  readonly wasKept: boolean;
  /** Whether the server may have the mark of a kept lock. Its lease must stay short, so the watchdog does not renew it. */
  #isMarked: boolean;
  /** undefined: the lock was acquired, not handed over. */
  readonly #origin: Origin | undefined;
  /** Whether the present server, which has taken over, may have an earlier owner of the chain: it has not answered `handOverAgain`. */
  #isInDoubt = false;
  /** While it is being asked. Never rejects. */
  #handingOverAgain: Promise<void> | undefined;
  /** Until the hand-over is answered: the previous grant, whose owner may still hold the lock on the server. */
  #predecessor: Grant | undefined;
  /** Set during a hand-over. Resolves when it ends, including the plain release that follows a failure. Never rejects. */
  #handingOver: Promise<void> | undefined;
  #hadHolds = false;
  /** Until when the lock stays taken, whatever becomes of its holds; monotonic. */
  #takenUntilMs = 0;
  #holds: GrantedHold[] = [];
  #state: State = HELD;
  #deadline: Deadline;
  /** When the command that last confirmed the grant was sent. */
  #confirmedAt: Instant;
  /** A renewal has not been answered yet: if the deadline passes now, the loss reason is `unreachable`. */
  #isRenewalUnanswered = false;
  /** Serialises the commands that set or confirm the hold count, the lease or the owner. */
  readonly #turns = new LocalMutex();
  /** The time limit of a hand-over's confirmation, or of its repetition at another server, that is under way. */
  #confirming: WaitLimit | undefined;
  #isShared: boolean;
  /** Whether a downgrade must be sent when the current turn ends. */
  #owesShare = false;
  /** Ends the wait for the answer to a release's first command once its time is up. */
  #firstReleaseDue: (() => void) | undefined;
  /** Called when the grant's outcome is final. Only a closing client sets it. */
  #onForgotten: (() => void) | undefined;

  constructor(
    session: Session,
    lock: GrantedLock,
    ownerId: string,
    deadline: Deadline,
    token?: bigint,
    origin?: Origin,
    keepable?: Keepable,
  ) {
    this.#session = session;
    this.lock = lock;
    this.ownerId = ownerId;
    this.token = token;
    this.#since = this.#grantedAt = now(session.clock);
    this.#keeping = keepable?.by(this);
    this.wasKept = this.#isMarked = keepable !== undefined;
    this.#origin = origin;
    this.#isShared = lock.isShared ?? false;
    this.#deadline = deadline;
    this.#confirmedAt = deadline.since;
    session.grants.add(this);
    lock.granted?.(this);
    this.#keeping?.begin();
  }

  // State.

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

  get isIdle(): boolean {
    return this.#state.kind === 'idle';
  }

  /** Whether its client may keep it after its last hold. */
  get isKeepable(): boolean {
    return this.#keeping !== undefined;
  }

  get isUsable(): boolean {
    return this.remaining() > 0 && (!this.#keeping || this.#mayKeep());
  }

  get confirmedAt(): Instant {
    return this.#confirmedAt;
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

  /** Whether other owners may hold the lock beside this grant. For a write lock: true as soon as its downgrade is going to be sent. */
  get isShared(): boolean {
    return this.#isShared;
  }

  get #onlyReads(): boolean {
    return this.#holds.length > 0 && this.countOf(false) === 0;
  }

  // Holds.

  /** Adds a new hold, which the server already counts. */
  add(hold: GrantedHold): void {
    this.#hadHolds = true;
    this.staysTaken(hold.atLeastMs);
    // Most grants have one hold only, and an empty array allocates room for 17 elements on its first push.
    if (this.#holds.length === 0) {
      if (this.wasKept && !this.#keeping) this.#since = now(this.#session.clock);
      this.#keeping?.holdBegins(this.#since);
      this.#holds = [hold];
    } else this.#holds.push(hold);
    if (this.#state.kind === 'lost') hold.lost(this.#state.error);
    else this.#watch();
    this.#noticeEnd();
  }

  /** The lock stays taken for at least so long from now, though it is released. */
  staysTaken(atLeastMs: number): void {
    if (atLeastMs > 0)
      this.#takenUntilMs = Math.max(this.#takenUntilMs, this.#session.clock.nowMs() + atLeastMs);
  }

  #drop(hold: GrantedHold): void {
    const index = this.#holds.indexOf(hold);
    if (index >= 0) this.#holds.splice(index, 1);
    if (this.#holds.length === 0) this.lock.unwatch(this);
  }

  /** The waiter that was handed the lock no longer wants it: the lock goes to the next waiter, or is released. */
  decline(): void {
    if (this.#state.kind !== 'held' || this.#holds.length > 0) return;
    if (this.#session.isClosed) this.#abandon();
    else
      this.#releaseUntilAnswered(false, (error) => {
        if (error && this.#session.grants.has(this)) this.#abandon(); // the clean-up goes on
      });
  }

  /** Its holds, as `holdfast.held()` shows them. */
  get described(): readonly HeldLock[] {
    return this.isHeld ? this.#holds.map((hold) => hold.described) : [];
  }

  // Lease.

  /** Whether any hold wants its lease renewed and `renewalLimit` permits a renewal now. */
  get isWatched(): boolean {
    return this.#holds.some(({ isWatched }) => isWatched) && (this.renewalLimit?.isDue ?? true);
  }

  /** Puts a grant that has holds under the watchdog, once it is known that the server has this owner, without the mark of a kept lock. */
  #watch(): void {
    if (this.#holds.length > 0 && !this.#predecessor && !this.#isMarked) this.lock.watch(this);
  }

  /** Not only since the server confirmed it: extensions and nested calls with a short lease do that, and leave the lease as short as it is. */
  ageMs(at?: Instant): number {
    if (this.#state.kind !== 'held') return -1;
    const confirmedMs = elapsedMs(this.#confirmedAt, at);
    if (!this.isWatched) return confirmedMs;
    const wholeMs = usableMsOf(this.#session.lockWatchdogTimeoutMs);
    return Math.max(confirmedMs, wholeMs - leftMs(this.#deadline, at));
  }

  checkDeadline(at?: Instant): void {
    // Without holds nobody relies on the grant. During a release the server's answer decides whether the grant was lost.
    const isReliedOn = this.#state.kind === 'held' && this.#holds.length > 0;
    if (!isReliedOn || leftMs(this.#deadline, at) > 0) return;
    this.lose(this.#isRenewalUnanswered ? 'unreachable' : 'expired');
  }

  checkEnd(at?: Instant): void {
    this.checkDeadline(at);
    this.#noticeEnd(at);
  }

  /** The scheduled time has come: the deadline, which may have moved since, or the time limit of the release's first command. */
  due(): void {
    if (this.#firstReleaseDue) this.#firstReleaseDue();
    else this.checkEnd();
  }

  /** Schedules the deadline if it comes before the watchdog's next round. That round checks later ones, so few are ever scheduled. */
  #noticeEnd(at?: Instant): void {
    if (this.#state.kind !== 'held' || this.#keeping) return;
    const left = leftMs(this.#deadline, at);
    const isOver = left <= 0 && this.#holds.length === 0;
    const isLookedAt = !this.#predecessor && left > this.#session.lockWatchdogTimeoutMs / 3;
    if (isOver || isLookedAt) return;
    // Counted from now, not from `at`: loss listeners of other grants may have run in between, for any length of time.
    this.#session.schedule.within(this, leftMs(this.#deadline));
  }

  renewing(leaseMs: number): void {
    this.#isRenewalUnanswered = leaseMs > 0; // with 0, the command only checks the lease
  }

  renewed(reply: KeepReply, renewal: Renewal): boolean {
    const { sentAt, leaseMs, deadline, answeredAt } = renewal;
    if (this.#handingOverAgain && !isKept(reply)) {
      // The answer to that decides whether it is lost. If none comes, this one counts.
      void this.#handingOverAgain.then(() => this.#isInDoubt && this.renewed(reply, renewal));
      return true;
    }
    if (leaseMs > 0) this.renewalLimit?.renewed(sentAt);
    this.checkDeadline(answeredAt);
    if (this.#isHeldOrIdle) {
      this.#isRenewalUnanswered = false;
      if (reply !== 'kept') this.#loseTo(reply);
      else this.#wasRenewed(leaseMs, deadline, answeredAt);
    }
    return isKept(reply);
  }

  #wasRenewed(leaseMs: number, deadline: Deadline, answeredAt: Instant): void {
    this.#prolong(deadline, answeredAt);
    const { ownerId, lock } = this;
    if (leaseMs > 0 && !this.#keeping)
      this.#session.events.emit('renewed', () => ({
        lockName: lock.name,
        ownerId,
        holdIds: this.#holdIds,
        leaseMs,
      }));
  }

  get #holdIds(): string[] {
    return this.#holds.map(({ holdId }) => holdId);
  }

  /** The server confirmed the grant until `deadline`; after a check without renewal, it confirmed only that the grant exists. */
  #prolong(deadline: Deadline, at: Instant = now(this.#session.clock)): void {
    if (!this.#isHeldOrIdle) return;
    this.#isRenewalUnanswered = false;
    this.#deadline = later(this.#deadline, deadline, at);
    this.#confirmedAt = deadline.since;
    this.checkDeadline(at);
  }

  // End of the grant.

  /** The only place where the state changes. A released grant may still turn out to be lost; a lost grant stays lost. */
  #become(next: State): void {
    if (this.#state.kind === 'lost') return;
    this.#state = next;
    if (next.kind === 'held' || next.kind === 'idle') return;
    this.#keeping?.end();
    this.#keeping = undefined;
    this.#session.schedule.delete(this);
    this.#confirming?.end('closed');
    this.lock.unwatch(this);
    if (next.kind === 'lost' || (next.isConfirmed && next.to === 'all')) this.#recordOwners();
    if (next === RELEASED && this.#isInDoubt)
      this.#session.cleanup.remove(this.#removable, this.ownerId);
    // Until its release is confirmed, the grant stays in the session's list, so that a closing client waits for it.
    if (next.kind === 'lost' || next.isConfirmed) this.#forget();
    if (next.kind === 'lost') for (const hold of [...this.#holds]) hold.lost(next.error);
  }

  /**
   * Records its owner and the earlier ones as gone: after a failover the new server may have missed that. Not recorded earlier, since until
   * then these owners keep others out.
   */
  #recordOwners(): void {
    const { released } = this.#session.cleanup;
    if (!released) return;
    for (const { ownerId, deadline } of this.#chain.owners)
      released.add(this.lock, ownerId, leftMs(deadline));
    released.add(this.#removable, this.ownerId, leftMs(this.#deadline));
  }

  #forget(): void {
    this.#session.grants.delete(this);
    this.lock.forget?.(this.ownerId);
    this.#onForgotten?.();
  }

  /** Resolves when the grant, which has no hold, is given up, whether its release succeeded or failed. */
  async whenSettled(): Promise<void> {
    if (this.#session.grants.has(this))
      await new Promise<void>((resolve) => (this.#onForgotten = resolve));
  }

  /** Ends the grant as lost and notifies its holds at once. */
  lose(lossReason: LossReason): LockLostError {
    if (this.#state.kind === 'lost') return this.#state.error;
    const holdIds = this.#holdIds;
    const event = lossOf(this, lossReason, holdIds);
    const isUnused = this.wasKept && holdIds.length === 0;
    const isOurDoing = lossReason === 'closed' || lossReason === 'forced';
    this.#become({ kind: 'lost', error: event.error });
    // Nobody has lost anything if nobody was inside: it was kept, or the waiter that was handed the lock had given up.
    if (isUnused && isOurDoing) return event.error;
    if (this.#hadHolds) this.#tellLoss(event);
    // This process no longer relies on the grant, but the server may still have this owner.
    const isUncertain = lossReason === 'expired' || lossReason === 'unreachable';
    const mayStand = isUncertain || this.lock.leavesRemains;
    // (A closing client releases the owner itself, but no earlier one.)
    if (this.#isInDoubt || (mayStand && lossReason !== 'closed')) this.#abandon();
    return event.error;
  }

  #tellLoss(event: ReturnType<typeof lossOf>): void {
    const { lossReason, holdIds, ownerId } = event;
    const { name: lockName, kind } = this.lock;
    this.#session.events.emit('lost', () => event);
    this.#session.events.publish('lost', () => ({ lockName, kind, ownerId, lossReason, holdIds }));
  }

  /** The MultiLock of which this lock is a member was lost: notifies the holds of this grant and has the clean-up remove its owner. */
  loseAsMember(error: LockLostError): void {
    if (this.#state.kind !== 'held') return;
    this.#become({ kind: 'lost', error });
    this.#abandon();
  }

  /** The server no longer has this owner. A key that is gone after the lease has ended counts as expired, not as deleted. */
  #loseTo(reply: Exclude<KeepReply, 'kept'>): LockLostError {
    return this.lose(reply === 'deleted' && leftMs(this.#deadline) <= 0 ? 'expired' : reply);
  }

  /** Nobody relies on the grant any more, but the server may still have its owner: the clean-up removes it. */
  #abandon(): void {
    this.#become(RELEASING);
    if (this.#predecessor) return; // it sees to both owners when the hand-over is answered, or has failed
    this.#forget();
    this.#session.cleanup.remove(this.#removable, this.ownerId);
  }

  /**
   * Removes the owner from the server. Until the hand-over is answered the predecessor removes both owners, and detects whether its own
   * grant was lost.
   */
  async giveBack(): Promise<boolean> {
    const predecessor = this.#predecessor;
    if (!predecessor) return await this.#giveUp();
    await predecessor.#handingOver;
    return true;
  }

  // Changes of the hold count and the lease.

  /**
   * Adds a hold that the server has counted and confirmed. `begin` creates it within the same turn, so that no release can change the
   * count in between. Returns undefined if `begin` does, or if the grant was released in the meantime.
   *
   * @throws LockUpgradeError the new hold is not shared, but readers may already hold the lock beside this grant
   */
  async reenter<H extends GrantedHold>(
    request: ReentryTerms,
    waitLimit: WaitLimit,
    begin: () => H | undefined,
  ): Promise<H | undefined> {
    const { leaseMs, isShared } = request;
    // The server does not count the holds of a grant that is kept.
    if (mayBeKept(request) && this.isHeld && this.#mayKeep()) return begin();
    let hold: H | undefined;
    const confirmed = (): unknown => (hold = begin());
    await this.#confirm(leaseMs, waitLimit, 1, confirmed, isShared);
    return hold;
  }

  /** Extends the lease to at least `leaseMs` from now. Returns false if the grant was released in the meantime. */
  async extend(leaseMs: number): Promise<boolean> {
    let isExtended = false;
    try {
      await this.#session.bounded(this.lock.name, 'not known to be extended', (waitLimit) =>
        this.#confirm(leaseMs, waitLimit, 0, () => (isExtended = true), true),
      );
    } catch (error) {
      // Closing the client loses the lock. Throw the loss in preference to the ClosedError, whichever was detected first.
      throw error instanceof ClosedError ? (this.loss ?? error) : error;
    }
    return isExtended;
  }

  /**
   * Ends the grant for this client, but not on the server, where another process may adopt the owner: calls `exported` at that moment.
   * Returns false if it did not: the grant was released meanwhile, or has other holds.
   */
  async export(leaseMs: number, exported: () => void): Promise<boolean> {
    let isExported = false;
    const end = (): void => {
      isExported = this.holdCount === 1;
      if (!isExported) return;
      this.#become(EXPORTED);
      exported();
    };
    const wantedMs = Math.max(leaseMs, this.restMs);
    try {
      await this.#session.bounded(this.lock.name, 'not known to be exported', (waitLimit) =>
        this.#confirm(wantedMs, waitLimit, 0, end, true, true),
      );
    } catch (error) {
      throw this.loss ?? error; // the lease may have ended while there was no answer
    }
    return isExported;
  }

  /**
   * Confirms the lock on the server for `leaseMs` from now, with `more` holds added. `isShared`: whether the added holds are shared.
   * `isExport`: the server is told that its one hold ends.
   */
  async #confirm(
    leaseMs: number,
    waitLimit: WaitLimit,
    more: number,
    confirmed: () => void,
    isShared: boolean,
    isExport = false,
  ): Promise<void> {
    if (!this.#turns.tryTake() && !(await this.#turns.take(waitLimit, false, true))) return;
    const wasKept = this.isKeepable;
    try {
      this.#throwIfLost();
      if (this.isReleased) return;
      if (this.isShared && !isShared) throw upgradeRefused(this.lock.name);
      const { lockWatchdogTimeoutMs } = this.#session;
      // Not less than this process relies on: a lock that has lost its expiry gets exactly this lease.
      const leastMs = Math.max(leaseMs, leaseFor(leftMs(this.#deadline)));
      const wantedMs = this.#keeping ? Math.max(leastMs, lockWatchdogTimeoutMs) : leastMs;
      this.#stopKeeping(); // this command sets a count, which says that somebody is inside
      const holdCount = Math.max(this.holdCount + more, 1);
      const count = isExport && holdCount === 1 ? EXPORTED_COUNT : holdCount;
      const sentAt = await this.#setCount(count, wantedMs, waitLimit, isShared);
      this.#prolong(deadlineOf(sentAt, wantedMs));
      if (this.remaining() > 0) confirmed(); // a grant without holds is not lost when its deadline passes; it is merely over
    } catch (error) {
      if (wasKept) this.#becomeLikeOthers(); // this caller has gone; the lease that it did not get is needed all the same
      throw this.#takenIfConflict(error);
    } finally {
      this.#passTurn();
    }
  }

  /**
   * Sets the hold count and the lease on the server, and whether others may hold the lock beside this owner. Returns when the command
   * was sent. Throws if the lock is lost.
   */
  async #setCount(
    holdCount: number,
    leaseMs: number,
    waitLimit: WaitLimit,
    isShared = true,
  ): Promise<Instant> {
    const { lock, ownerId } = this;
    this.#isShared ||= isShared && this.#onlyReads;
    const sentAt = await this.#ask(
      () => lock.reenter(ownerId, holdCount, leaseMs, waitLimit, this.#isShared),
      waitLimit,
    );
    this.#unmarked();
    return sentAt;
  }

  /** A count was set, so the mark of a kept lock is gone. */
  #unmarked(): void {
    if (!this.#isMarked) return;
    this.#isMarked = false;
    if (this.#state.kind === 'held') this.#watch();
  }

  /** Sends a command that is answered with whether the lock is still held. Returns when it was sent. Throws if the lock is lost. */
  async #ask(send: () => Promise<KeepReply>, waitLimit: WaitLimit): Promise<Instant> {
    const wasReleased = this.isReleased;
    const { connection, clock } = this.#session;
    for (;;) {
      let sentAt = now(clock);
      const reply = await retry(connection, waitLimit, this.#named, () => {
        sentAt = now(clock);
        return send();
      });
      this.#throwIfLost();
      // A grant that was given up in the meantime is not lost: the clean-up has removed its owner.
      const isGivenUp = this.isReleased && !wasReleased;
      if (reply === 'kept' || isGivenUp) return sentAt;
      if (!this.#handingOverAgain) throw this.#loseTo(reply);
      await waitLimit.within(this.#handingOverAgain); // this owner may be there afterwards
    }
  }

  #throwIfLost(): void {
    if (this.loss) throw this.loss;
  }

  /** The lock for `retry`, without `keyInTheWay`: here a key conflict means that the lock is lost, so `retry` need not inspect the key. */
  get #named(): { name: string } {
    return { name: this.lock.name };
  }

  /** After a key conflict the lock is lost: its key has been replaced by something else. */
  #takenIfConflict(error: unknown): unknown {
    return error instanceof KeyConflictError ? this.lose('taken') : error;
  }

  /**
   * The lock was handed over with the lease of a place in the queue: sets the requested lease in the background. That needs no turn,
   * since it never takes back what another command has confirmed.
   */
  confirmHandOver(leaseMs: number, confirm: () => Promise<KeepReply>): void {
    const { clock, acquisitions: registry } = this.#session;
    const waitLimit = new WaitLimit({ clock, limitMs: this.remaining(), registry });
    this.#confirming = waitLimit;
    this.#ask(confirm, waitLimit)
      .then((sentAt) => {
        this.#prolong(deadlineOf(sentAt, leaseMs));
      })
      // Without an answer the grant keeps its deadline. A loss has already been reported.
      .catch((error: unknown) => this.#takenIfConflict(error))
      .finally(() => {
        waitLimit.dispose();
      });
  }

  // Downgrade: from now on all holds only read.

  /** A new server may have missed a downgrade that the old one confirmed: sends it again. */
  serverMayHaveChanged(): void {
    if (this.isShared && !this.lock.isShared && this.isHeld) this.#share();
  }

  /** Ends a turn: a call that had it has begun to write by now, or never will. */
  #passTurn(): void {
    const isDue = this.#owesShare && this.#onlyReads;
    this.#owesShare = false;
    if (isDue) this.#share();
    this.#turns.pass();
  }

  /** A downgrade was not answered, or got no turn: the clean-up sends it as soon as the server is reachable. */
  #shareLater(): void {
    // The call that has the turn may be about to write, unless writing is already refused.
    if (this.#turns.isTaken && !this.isShared) this.#owesShare = true;
    else this.#share();
  }

  #share(): void {
    this.#isShared = true;
    const { lock, ownerId, holdCount } = this;
    const share = async (): Promise<boolean> => {
      await lock.reenter(ownerId, holdCount, 0, this.#session.untilClosed, true);
      return false; // it removes nothing
    };
    this.#session.cleanup.remove({ id: idOf('downgrade', lock.id), release: share }, ownerId);
  }

  // Keeping: between its holds, the server is asked nothing.

  get #isHeldOrIdle(): boolean {
    return this.#state.kind === 'held' || this.#state.kind === 'idle';
  }

  /**
   * Whether a hold may begin, or the last one end, without asking the server: it confirmed the grant a short while ago, nothing else is
   * under way, and other clients can make themselves heard.
   */
  #mayKeep(at: Instant = now(this.#session.clock)): boolean {
    const keeping = this.#keeping;
    if (!keeping?.mayGoOn(at) || !this.#session.connection.isReady || this.#session.isClosed)
      return false;
    const isProven = elapsedMs(this.#confirmedAt, at) <= keeping.keepMs;
    return isProven && leftMs(this.#deadline, at) >= keeping.leaseMs / 3 && !this.#turns.isTaken;
  }

  take(): boolean {
    if (!this.isIdle) return false;
    const at = now(this.#session.clock);
    const mayTake = this.#mayKeep(at);
    if (mayTake) this.#lend(at);
    else this.letGo();
    return mayTake;
  }

  /** Has its next holder begin now. */
  #lend(at: Instant): void {
    this.#become(HELD);
    this.#since = at;
  }

  /** After the last hold: lends the grant to the next caller of this client, or keeps it for one. Returns false if it must be released. */
  #lendOrIdle(): boolean {
    if (!this.#keeping) return false;
    const at = now(this.#session.clock);
    const next = this.lock.nextWaiter;
    const mayServe = next ? next.takesKept : !this.lock.hasWaiters;
    if (!mayServe || !this.#mayKeep(at)) return false;
    if (!next) {
      this.#become(IDLE);
      this.#keeping.idles(at);
      return true;
    }
    this.#lend(at);
    // (If a loop of such calls has had this turn of the event loop for long enough, the waiter enters in the next one.)
    const pause = pauseIfLong(KEPT_WEIGHT);
    if (!pause) next.accept(this);
    else {
      next.expect();
      void pause.then(() => {
        next.accept(this);
      });
    }
    return true;
  }

  letGo(): void {
    if (!this.#keeping) return;
    const wasIdle = this.isIdle;
    if (wasIdle) this.#become(HELD);
    this.#stopKeeping();
    if (!wasIdle) this.#becomeLikeOthers();
    else if (leftMs(this.#deadline) > 0) this.decline();
    else this.#abandon();
  }

  #stopKeeping(): void {
    if (!this.#keeping) return;
    this.#keeping.end();
    this.#keeping = undefined;
    this.#noticeEnd();
  }

  /** Sets a count and the watchdog's lease on the server, repeated until it is answered or the lease is over. */
  #becomeLikeOthers(): void {
    if (!this.#isHeldOrIdle) return;
    const { acquisitions: registry, lockWatchdogTimeoutMs } = this.#session;
    this.renewing(lockWatchdogTimeoutMs);
    const confirm = (limit: WaitLimit): Promise<void> =>
      this.#confirm(lockWatchdogTimeoutMs, limit, 0, () => undefined, true);
    const options = { limitMs: leftMs(this.#deadline), registry };
    this.#session
      .bounded(this.lock.name, 'not known to be extended', confirm, options)
      .catch(() => undefined); // the grant keeps its deadline, and a loss has been reported
  }

  // Release.

  /** For how much longer the lock stays taken though it is released, in milliseconds. */
  get restMs(): number {
    if (this.#takenUntilMs === 0) return 0;
    return Math.max(Math.ceil(this.#takenUntilMs - this.#session.clock.nowMs()), 0);
  }

  /** Sends the release of this owner. */
  #giveUp(): Promise<boolean> {
    return releaseAt(this.lock, this.ownerId, this.#takenUntilMs, this.#session.clock);
  }

  /** This owner, for the clean-up; and before it the earlier ones, if the server may have one of them. */
  get #removable(): Removable {
    const { lock } = this;
    if (this.restMs === 0 && !this.#isInDoubt) return lock;
    const former = this.#isInDoubt ? this.#chain.owners : [];
    const release = async (): Promise<boolean> => {
      const older = former.map(({ ownerId }) => lock.release(ownerId));
      const [isReleased] = await Promise.all([this.#giveUp(), ...older]);
      return isReleased;
    };
    return { id: lock.id, release };
  }

  /** Ends a hold; releases the lock with the last one. May be called again after a failure. */
  release(hold: GrantedHold, isRepeat: boolean, done: Done): void {
    this.#drop(hold);
    const isLast = this.holdCount === 0 && this.#state.kind === 'held';
    if (isLast ? this.#lendOrIdle() : this.#keeping) {
      done();
      return;
    }
    const isSimple = isLast && this.#session.connection.isReady && !this.#nextWaiter;
    if (isSimple && this.#turns.tryTake()) this.#releaseAtOnce(done);
    else this.#releaseUntilAnswered(isRepeat, done);
  }

  /** The caller has the turn: sends one command, and repeats it only if the first did not settle the release. */
  #releaseAtOnce(done: Done): void {
    const { clock, commandTimeoutMs, schedule } = this.#session;
    this.#become(RELEASING);
    const answer = this.#giveUp();
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

  /** Repeats the release until it is answered, within `commandTimeout`. `begun`: the first command, if it was sent already. */
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
      // Which owners it leaves behind is known only when it ends: a closing client waits for that.
      this.#session.cleanup.expect(this.#handingOver);
      await waitLimit.within(handedOver);
      return;
    }
    try {
      this.#throwIfLost();
      if (this.holdCount > 0) {
        await this.#setCount(this.holdCount, 0, waitLimit);
        return;
      }
      if (this.#state.kind === 'released' && this.#state.isConfirmed) return; // an earlier release, of another hold, has done it
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
      const sent = answer ?? this.#giveUp();
      answer = undefined;
      return sent;
    });
    // Owner absent on a repeat: the first command was executed and its answer lost. Absent on the first command: the lock was lost.
    if (!isReleased && !mayBeDone) throw await this.#howLost(waitLimit);
    this.#become(RELEASED);
  }

  /** The server does not have the owner, so the grant is lost. Tries to find out how. */
  async #howLost(waitLimit: WaitLimit): Promise<LockLostError> {
    try {
      await this.#setCount(1, 0, waitLimit);
    } catch (error) {
      if (error instanceof KeyConflictError) return this.lose('taken');
      if (error instanceof LockLostError) return error;
    }
    return this.#loseTo('deleted');
  }

  // Hand-over to the next waiter of this client: the release names the successor.

  get #chain(): Origin {
    return this.#origin ?? { owners: [], acquiredAt: this.#grantedAt };
  }

  /** The waiter to which a release hands the lock over; undefined: none, the lock becomes free for everybody. */
  get #nextWaiter(): NextWaiter | undefined {
    const next = this.lock.nextWaiter;
    const { isClosed, connection } = this.#session;
    if (!next || this.#state.kind !== 'held' || isClosed || !connection.isReady) return undefined;
    if (this.restMs > 0) return undefined;
    const { owners, acquiredAt } = this.#chain;
    if (owners.length >= MOST_HAND_OVERS || elapsedMs(acquiredAt) >= LONGEST_CHAIN_MS)
      return undefined;
    // Until the answer arrives the successor relies on the rest of this lease, which must leave time for the call to fail and be repeated.
    return leftMs(this.#deadline) >= this.#deadline.usableMs / 2 ? next : undefined;
  }

  /**
   * Releases the lock to the next waiter with one script call, repeated until it is answered. The waiter enters when the call is sent, or,
   * if it needs a token, when the answer arrives. Until the answer, neither of the two grants has another command under way.
   */
  async #handOver(next: NextWaiter): Promise<void> {
    const session = this.#session;
    const { clock, connection, commandTimeoutMs } = session;
    const { lock, ownerId } = this;
    const successorId = session.newOwnerId();
    const lease = deadlineOf(now(clock), next.leaseMs);
    const { owners, acquiredAt } = this.#chain;
    const origin = { owners: [...owners, { ownerId, deadline: this.#deadline }], acquiredAt };
    const successor = (deadline: Deadline, token?: bigint): Grant =>
      new Grant(session, lock, successorId, deadline, token, origin);
    const entered = next.needsAnswer ? undefined : successor(earlier(lease, this.#deadline));
    // A waiter that needs the answer keeps waiting if none comes. Half of `commandTimeout` leaves time for a release without a successor.
    const limitMs = entered ? entered.remaining() : commandTimeoutMs / 2;
    const limit = new WaitLimit({ clock, limitMs });
    if (entered) entered.#entersAfter(this);
    this.#become(RELEASING);
    // Whether the current call is a repeat of one that may have run (`isRepeat`); whether any copy may have run (`mayBeDone`).
    // (`as boolean`: the compiler does not see that a callback sets them.)
    let isRepeat = false as boolean;
    let mayBeDone = false as boolean;
    const answer = retry(connection, limit, this.#named, async (isSentAgain) => {
      isRepeat = isSentAgain;
      // The answer to a call that may have run is awaited in any case: only it says whether this grant was lost before.
      if (entered && !entered.isHeld && !mayBeDone) throw new WaitEnded('closed');
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
      // Both owners absent at the first call: this grant was lost before. Absent on a repeat: an earlier call was executed, and the
      // successor has been lost since.
      if (outcome !== 'done' && !isRepeat) throw this.#loseTo(outcome);
      if (outcome === 'done') this.#become(HANDED_OVER);
      if (entered) entered.#handedOver(outcome, lease);
      else if (outcome === 'done') next.accept(successor(lease, token));
      else next.tryItself();
      // Only now: earlier owners are removed when the successor knows of its loss.
      if (outcome !== 'done') this.#become(RELEASED);
    } catch (error) {
      const failure = entered ? this.#takenIfConflict(error) : error;
      const loss = failure instanceof LockLostError ? failure : undefined;
      if (entered && entered.holdCount > 0) entered.lose(loss?.lossReason ?? 'unreachable');
      if (!entered) next.tryItself();
      const thrown = loss ?? (await this.#releaseAfterAll(mayBeDone));
      if (entered) entered.#notHandedOver(thrown);
      // Only now: the clean-up also removes this owner, after which a loss of it could no longer be detected.
      const removable = this.#removable;
      const release = async (): Promise<boolean> => {
        await removable.release(ownerId); // first, or a late hand-over would replace this owner with the successor
        return await lock.release(successorId);
      };
      session.cleanup.remove({ id: lock.id, release }, successorId);
      if (thrown) throw thrown;
    } finally {
      limit.dispose();
      this.#handingOver = undefined;
      this.#passTurn();
    }
  }

  /** As the successor: keeps the turn, so that this grant sends nothing until the hand-over is answered. */
  #entersAfter(predecessor: Grant): void {
    this.#predecessor = predecessor;
    this.#turns.tryTake();
    this.#isRenewalUnanswered = true;
  }

  /**
   * As the successor: the server has answered the hand-over. If it is done, the lease counts from when the call was first sent; otherwise
   * this grant has been lost since.
   */
  #handedOver(outcome: HandOverReply['outcome'], lease: Deadline): void {
    this.#predecessor = undefined;
    this.#isRenewalUnanswered = false;
    if (outcome === 'done') this.#prolong(lease);
    else if (this.#state.kind === 'held') this.#loseTo(outcome);
    if (this.#state.kind === 'held') this.#watch();
    else if (outcome === 'done' || this.isReleased) this.#abandon(); // lost or given up meanwhile
    this.#passTurn();
  }

  /**
   * Another server has taken over. It may have missed hand-overs and have one of the earlier owners, so each of them hands over to this one
   * again. Until that is answered, no other answer counts as a loss.
   */
  handOverAgain(): void {
    const { owners } = this.#chain;
    const { transfer } = this.lock;
    // Before the hand-over to this owner is answered, its predecessor does it.
    if (owners.length === 0 || !transfer || this.#predecessor || this.#handingOverAgain) return;
    const { clock, connection, lockWatchdogTimeoutMs } = this.#session;
    const limit = new WaitLimit({ clock, limitMs: leftMs(this.#deadline) });
    const hasTurn = this.#turns.tryTake(); // a call that has it finds the present owner, or asks again
    let deadline = this.#deadline;
    const send = (): Promise<HandOverReply[]> => {
      const sentAt = now(clock);
      const restMs = leaseFor(leftMs(this.#deadline, sentAt)); // a lease that the caller has fixed stays as it is
      const leaseMs = this.isWatched ? Math.max(restMs, lockWatchdogTimeoutMs) : restMs;
      deadline = deadlineOf(sentAt, leaseMs);
      const adopt = ({ ownerId }: FormerOwner): Promise<HandOverReply> =>
        transfer.adopt(ownerId, this.ownerId, leaseMs, limit);
      return Promise.all(owners.map(adopt));
    };
    this.#isInDoubt = true;
    this.#isRenewalUnanswered = true;
    this.#confirming = limit;
    this.#handingOverAgain = retry(connection, limit, this.#named, send)
      .then((replies) => {
        const [{ outcome } = { outcome: 'deleted' as const }] = replies;
        this.#isInDoubt = false;
        if (outcome === 'done' || replies.some((reply) => reply.outcome === 'done'))
          this.#prolong(deadline);
        else if (this.#state.kind === 'held') this.#loseTo(outcome);
      })
      // Then the server may still have an earlier owner, or this one: a renewal finds out.
      .catch((error: unknown) => this.#takenIfConflict(error))
      .finally(() => {
        this.#handingOverAgain = undefined;
        limit.dispose();
        this.#watch();
        if (hasTurn) this.#passTurn();
      })
      .then(() => undefined);
  }

  /** As the successor: the hand-over has failed. `loss`, if the predecessor was lost: then this grant is lost for its holds, too. */
  #notHandedOver(loss: unknown): void {
    if (loss instanceof LockLostError && this.#hadHolds) this.lose(loss.lossReason);
    this.#become(RELEASING);
    this.#forget();
    this.#passTurn();
  }

  /** After a failed hand-over: a plain release. Returns its error. `isRepeat`: the hand-over may have released the lock already. */
  async #releaseAfterAll(isRepeat: boolean): Promise<Error | undefined> {
    const release = (waitLimit: WaitLimit): Promise<void> => this.#sendRelease(waitLimit, isRepeat);
    try {
      await this.#session.bounded(this.lock.name, 'not known to be released', release);
      return undefined;
    } catch (error) {
      if (isUnanswered(error)) this.#abandon();
      return this.#takenIfConflict(error) as Error;
    }
  }
}
