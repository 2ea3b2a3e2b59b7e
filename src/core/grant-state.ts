// The state of a grant: held until its deadline, lost, or released.

import { elapsedMs, now, type Instant } from '../runtime/clock.js';
import type { LockLostError, LossReason, SeenHolder } from '../api/errors.js';
import type { Due, Scheduled } from '../runtime/schedule.js';
import { later, leftMs, type Deadline } from './deadline.js';
import { GrantHolds } from './grant-holds.js';
import type { Granted, GrantedHold, GrantedLock, Heir } from './granted-lock.js';
import { lossOf } from './loss.js';
import type { KeepReply } from './replies.js';
import type { Session } from './session.js';
import type { Renewal } from './renewal.js';

type State =
  // Also without any hold: one has just ended and its release waits for its turn, or the next hold is about to begin.
  | { readonly kind: 'held' }
  | { readonly kind: 'lost'; readonly error: LockLostError }
  // From the moment in which its release is sent: that may arrive late, so the owner must not be used again.
  | { readonly kind: 'released'; readonly isConfirmed: boolean };

const HELD: State = { kind: 'held' };

export abstract class GrantState extends GrantHolds implements Granted, Due {
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
    if (leaseMs > 0) this.renewalLimit?.renewing();
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
