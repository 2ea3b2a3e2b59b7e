// How long one owner has one lock: its holds, its lease, and how it ends.

import type { HeldLease, KeepReply, LockBackend } from './backend.js';
import type { Session } from './session.js';
import { elapsedMs, now, type Instant } from '../runtime/clock.js';
import type { LockLostError, LossReason } from '../api/errors.js';
import { Lease } from './lease.js';
import { lockLost } from './loss.js';
import type { Validity } from './validity.js';

/** A hold as its owner sees it. */
export interface OwnedHold {
  readonly isWatched: boolean;
  /** The lock is lost. */
  lost(error: LockLostError): void;
}

type State =
  | { readonly kind: 'held' }
  | { readonly kind: 'lost'; readonly error: LockLostError }
  // From the moment in which its release is sent: that may arrive late, so the owner must not be used again.
  | { readonly kind: 'released'; readonly isConfirmed: boolean };

const HELD: State = { kind: 'held' };

export abstract class Tenure implements HeldLease {
  readonly lock: LockBackend;
  readonly ownerId: string;
  protected readonly session: Session;
  protected readonly holds: OwnedHold[] = [];
  readonly #acquiredAt: Instant = now();
  readonly #lease: Lease;
  #state: State = HELD;
  /** A renewal was sent and not answered: if the deadline passes now, it is for want of an answer. */
  #isRenewalUnanswered = false;

  constructor(session: Session, lock: LockBackend, ownerId: string, confirmed: Validity) {
    this.session = session;
    this.lock = lock;
    this.ownerId = ownerId;
    this.#lease = new Lease(confirmed);
    session.ownerships.add(this);
  }

  get isHeld(): boolean {
    this.checkDeadline();
    return this.#state.kind === 'held';
  }

  /** Why it was lost; undefined while it is held and after it was released. */
  get loss(): LockLostError | undefined {
    this.checkDeadline();
    return this.#state.kind === 'lost' ? this.#state.error : undefined;
  }

  get isReleased(): boolean {
    return this.#state.kind === 'released';
  }

  /** Whether the server said that it is. */
  protected get isReleaseConfirmed(): boolean {
    return this.#state.kind === 'released' && this.#state.isConfirmed;
  }

  get holdCount(): number {
    return this.holds.length;
  }

  get heldForMs(): number {
    return elapsedMs(this.#acquiredAt);
  }

  /** Milliseconds for which this process may rely on it. */
  remaining(): number {
    return this.isHeld ? Math.max(this.#lease.leftMs, 0) : 0;
  }

  /** A hold begins; the server counts it already. */
  add(hold: OwnedHold): void {
    this.holds.push(hold);
    if (this.#state.kind === 'lost') hold.lost(this.#state.error);
    else if (this.holds.length === 1) this.lock.watch(this);
    if (this.#state.kind === 'held') this.session.deadlines.add(this);
  }

  /** A hold ends. */
  protected drop(hold: OwnedHold): void {
    const index = this.holds.indexOf(hold);
    if (index >= 0) this.holds.splice(index, 1);
    if (this.holds.length === 0) this.lock.unwatch(this);
  }

  /** Whether its lease is prolonged when it is due. One of a fixed lease is only looked after. */
  get isWatched(): boolean {
    return this.holds.some(({ isWatched }) => isWatched);
  }

  /** It was lost: whoever relies on it learns it now. */
  lose(lossReason: LossReason): LockLostError {
    if (this.#state.kind === 'lost') return this.#state.error;
    const { ownerId, heldForMs } = this;
    const lost = { lockName: this.lock.name, ownerId, heldForMs };
    const error = lockLost(lost, lossReason);
    this.#become({ kind: 'lost', error });
    for (const hold of [...this.holds]) hold.lost(error);
    const heldSince = new Date(this.#acquiredAt.wallMs);
    this.session.events.emit('lost', () => ({ ...lost, lossReason, heldSince, error }));
    // The server may still keep what we do not dare to rely on.
    const mayStand = lossReason === 'expired' || lossReason === 'unreachable';
    if (mayStand || (this.lock.leavesRemains && lossReason !== 'closed')) this.abandon();
    return error;
  }

  /** The lock of several that it is part of was lost: its holders learn that, and the server is told. */
  forsake(error: LockLostError): void {
    if (this.#state.kind !== 'held') return;
    this.#become({ kind: 'lost', error });
    for (const hold of [...this.holds]) hold.lost(error);
    this.abandon();
  }

  get leaseLeftMs(): number {
    return this.#lease.leftMs;
  }

  checkDeadline(): void {
    // Without holds it is being released: nobody relies on it, and the server's answer tells whether it was lost.
    if (this.#state.kind !== 'held' || this.holds.length === 0 || !this.#lease.isOver) return;
    this.lose(this.#isRenewalUnanswered ? 'unreachable' : 'expired');
  }

  get ageMs(): number {
    return this.#state.kind === 'held' ? this.#lease.ageMs : -1;
  }

  renewing(leaseMs: number): void {
    this.#isRenewalUnanswered = leaseMs > 0; // a mere look would not have prolonged it
  }

  renewed(reply: KeepReply, sentAt: Instant, leaseMs: number): void {
    if (!this.isHeld) return;
    this.#isRenewalUnanswered = false;
    if (reply !== 'kept') {
      this.loseTo(reply);
      return;
    }
    this.prolong(sentAt, leaseMs);
    if (leaseMs === 0) return;
    const { ownerId, lock } = this;
    this.session.events.emit('renewed', () => ({ lockName: lock.name, ownerId, leaseMs }));
  }

  protected throwIfLost(): void {
    if (this.loss) throw this.loss;
  }

  /** The server confirmed `leaseMs` more, asked for at `sentAt`. */
  protected prolong(sentAt: Instant, leaseMs: number): void {
    if (this.#state.kind !== 'held') return;
    this.#lease.prolong(sentAt, leaseMs);
    this.checkDeadline();
  }

  /** The server has no such owner any more. A key that went after its lease was over was not deleted, it expired. */
  protected loseTo(reply: Exclude<KeepReply, 'kept'>): LockLostError {
    return this.lose(reply === 'deleted' && this.#lease.isOver ? 'expired' : reply);
  }

  /** Its release is on its way, or confirmed. */
  protected end(isConfirmed: boolean): void {
    if (this.#state.kind !== 'lost') this.#become({ kind: 'released', isConfirmed });
  }

  /** It was lost, or its release is on its way. */
  protected abstract ended(): void;

  /** The one place where the state changes; what is lost or released never comes back. */
  #become(next: State): void {
    if (this.#state.kind === 'lost' || next.kind === 'held') return;
    this.#state = next;
    this.session.deadlines.delete(this);
    this.ended();
    this.lock.unwatch(this);
    // A closing client waits for a release that is on its way.
    if (next.kind === 'lost' || next.isConfirmed) this.#forget();
  }

  #forget(): void {
    this.session.ownerships.delete(this);
    this.lock.forget?.(this.ownerId);
  }

  /** Nobody relies on it any more, but it may stand on the server. */
  protected abandon(): void {
    this.end(false);
    this.#forget();
    this.session.cleanup.remove(this.lock, this.ownerId);
  }
}
