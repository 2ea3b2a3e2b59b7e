// One owner of one lock on the server, from its outermost acquisition to its end. All holds that re-entered it
// share it: its lease, its deadline, its fate.

import { elapsedMs, now, type Instant } from './clock.js';
import type { Client } from './client.js';
import type { LockLostError } from './errors.js';
import { KeyConflictError, isUnanswered, type LossReason } from './errors.js';
import { insist } from './insist.js';
import { Lease } from './lease.js';
import { lockLost } from './loss.js';
import type { HeldLease, KeepReply, LockBackend } from './backend.js';
import type { Validity } from './validity.js';
import { Patience } from './waiting/patience.js';
import { Turns } from './waiting/turns.js';

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

export class Ownership implements HeldLease {
  readonly lock: LockBackend;
  readonly ownerId: string;
  readonly #client: Client;
  readonly #acquiredAt: Instant = now();
  readonly #lease: Lease;
  readonly #holds: OwnedHold[] = [];
  #state: State = HELD;
  /** A hand-over is being confirmed. */
  #confirming: Patience | undefined;
  /** A renewal was sent and not answered: if the deadline passes now, it is for want of an answer. */
  #isRenewalUnanswered = false;
  #shallRenew = true;
  /** What changes the hold count on the server goes one after another. */
  readonly #turns = new Turns();

  /** The server confirmed that it holds the lock. */
  constructor(client: Client, lock: LockBackend, ownerId: string, confirmed: Validity) {
    this.#client = client;
    this.lock = lock;
    this.ownerId = ownerId;
    this.#lease = new Lease(confirmed, () => {
      this.checkDeadline();
    });
    client.ownerships.add(this);
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

  get holdCount(): number {
    return this.#holds.length;
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
    this.#holds.push(hold);
    if (this.#state.kind === 'lost') hold.lost(this.#state.error);
    else if (this.#holds.length === 1) this.lock.watch(this);
    if (this.#state.kind === 'held') this.#lease.begin();
  }

  /**
   * One more hold, counted and confirmed on the server. `begin` makes it, within the same turn, so that no release can
   * count in between; undefined when it does not, or when the ownership was released in the meantime.
   */
  async reenter<H extends OwnedHold>(
    leaseMs: number,
    patience: Patience,
    begin: () => H | undefined,
  ): Promise<H | undefined> {
    let hold: H | undefined;
    await this.#confirm(leaseMs, patience, 1, () => (hold = begin()));
    return hold;
  }

  /** The lease ends no earlier than `leaseMs` from now. False when it was released in the meantime. */
  async extend(leaseMs: number): Promise<boolean> {
    let isExtended = false;
    await this.#client.bounded(this.lock.name, 'not known to be extended', (patience) =>
      this.#confirm(leaseMs, patience, 0, () => (isExtended = true)),
    );
    return isExtended;
  }

  /**
   * It was handed over with the lease of a place in line: sets, in the background, the lease that was asked for. Needs no turn:
   * it never takes back what another command confirmed.
   */
  confirmHandOver(leaseMs: number, confirm: () => Promise<KeepReply>): void {
    const patience = new Patience({
      limitMs: this.#lease.leftMs,
      registry: this.#client.acquisitions,
    });
    this.#confirming = patience;
    this.#ask(confirm, patience)
      .then((sentAt) => {
        this.#prolong(sentAt, leaseMs);
      })
      // Unanswered, it ends when it would have; a loss is told as such.
      .catch((error: unknown) => this.#takenIfConflict(error))
      .finally(() => {
        patience.dispose();
      });
  }

  /** A hold ends; with the last one the lock is free. Call it again after a failure. */
  remove(hold: OwnedHold, isRepeat: boolean): Promise<void> {
    const index = this.#holds.indexOf(hold);
    if (index >= 0) this.#holds.splice(index, 1);
    if (this.#holds.length === 0) this.lock.unwatch(this);
    return this.#client
      .bounded(this.lock.name, 'not known to be released', (patience) =>
        this.#release(patience, isRepeat),
      )
      .catch((error: unknown) => {
        if (isUnanswered(error) && this.#holds.length === 0) this.#abandon();
        throw error;
      });
  }

  /** Not renewed from now on, whatever its holds say: it ends with its lease at the latest. */
  stopRenewing(): void {
    this.#shallRenew = false;
  }

  /** Whether its lease is prolonged when it is due. One of a fixed lease is only looked after. */
  get isWatched(): boolean {
    return this.#shallRenew && this.#holds.some(({ isWatched }) => isWatched);
  }

  /** It was lost: whoever relies on it learns it now. */
  lose(lossReason: LossReason): LockLostError {
    if (this.#state.kind === 'lost') return this.#state.error;
    const { ownerId, heldForMs } = this;
    const lost = { lockName: this.lock.name, ownerId, heldForMs };
    const error = lockLost(lost, lossReason);
    this.#become({ kind: 'lost', error });
    for (const hold of [...this.#holds]) hold.lost(error);
    const heldSince = new Date(this.#acquiredAt.wallMs);
    this.#client.events.tell('lost', () => ({ ...lost, lossReason, heldSince, error }));
    // The server may still keep what we do not dare to rely on.
    const mayStand = lossReason === 'expired' || lossReason === 'unreachable';
    if (mayStand || (this.lock.leavesRemains && lossReason !== 'closed')) this.#abandon();
    return error;
  }

  /** The lock of several that it is part of was lost: its holders learn that, and the server is told. */
  forsake(error: LockLostError): void {
    if (this.#state.kind !== 'held') return;
    this.#become({ kind: 'lost', error });
    for (const hold of [...this.#holds]) hold.lost(error);
    this.#abandon();
  }

  checkDeadline(): void {
    // Without holds it is being released: nobody relies on it, and the server's answer tells whether it was lost.
    if (this.#state.kind !== 'held' || this.#holds.length === 0 || !this.#lease.isOver) return;
    this.lose(this.#isRenewalUnanswered ? 'unreachable' : 'expired');
  }

  get ageMs(): number {
    return this.#state.kind === 'held' ? this.#lease.ageMs : -1;
  }

  renewing(): void {
    this.#isRenewalUnanswered = this.isWatched; // a mere look would not have prolonged it
  }

  renewed(reply: KeepReply, sentAt: Instant, leaseMs: number): void {
    if (!this.isHeld) return;
    this.#isRenewalUnanswered = false;
    if (reply !== 'kept') {
      this.#loseTo(reply);
      return;
    }
    this.#prolong(sentAt, leaseMs);
    if (leaseMs === 0) return;
    const { ownerId, lock } = this;
    this.#client.events.tell('renewed', () => ({ lockName: lock.name, ownerId, leaseMs }));
  }

  /** Confirms that it is held, `more` times than now, and for `leaseMs` from now. */
  async #confirm(
    leaseMs: number,
    patience: Patience,
    more: number,
    confirmed: () => void,
  ): Promise<void> {
    if (!this.#turns.tryTake() && !(await this.#turns.take(patience))) return;
    try {
      this.#throwIfLost();
      if (this.#state.kind === 'released') return;
      const sentAt = await this.#keep(this.#holds.length + more, leaseMs, patience);
      this.#prolong(sentAt, leaseMs);
      if (this.isHeld) confirmed();
    } catch (error) {
      throw this.#takenIfConflict(error);
    } finally {
      this.#turns.pass();
    }
  }

  async #release(patience: Patience, isRepeat: boolean): Promise<void> {
    if (!this.#turns.tryTake() && !(await this.#turns.take(patience))) return;
    try {
      this.#throwIfLost();
      if (this.#holds.length > 0) {
        await this.#keep(this.#holds.length, 0, patience);
        return;
      }
      if (this.#state.kind === 'released') {
        if (this.#state.isConfirmed) return; // by a release of another hold that was before us
        isRepeat = true;
      }
      this.#end(false);
      const isReleased = await insist(
        this.#client.connection,
        patience,
        this.lock.name,
        (isSentAgain) => {
          isRepeat ||= isSentAgain;
          return this.lock.release(this.ownerId);
        },
      );
      // Gone on a repeat: the first try was executed, its answer was lost. Gone on the first try: it was lost.
      if (!isReleased && !isRepeat) await this.#keep(1, 0, patience);
      this.#end(true);
    } catch (error) {
      throw this.#takenIfConflict(error);
    } finally {
      this.#turns.pass();
    }
  }

  /** Tells the server the hold count and the lease; returns when that was sent. Throws if the lock is lost. */
  async #keep(holdCount: number, leaseMs: number, patience: Patience): Promise<Instant> {
    const send = (): Promise<KeepReply> => this.lock.reenter(this.ownerId, holdCount, leaseMs);
    return await this.#ask(send, patience);
  }

  /** Asks whether it is still held; returns when that was sent. Throws if it is not. */
  async #ask(send: () => Promise<KeepReply>, patience: Patience): Promise<Instant> {
    let sentAt = now();
    const reply = await insist(this.#client.connection, patience, this.lock.name, () => {
      sentAt = now();
      return send();
    });
    this.#throwIfLost();
    if (reply !== 'kept') throw this.#loseTo(reply);
    return sentAt;
  }

  /** A key that is something else now holds the lock no longer. */
  #takenIfConflict(error: unknown): unknown {
    return error instanceof KeyConflictError ? this.lose('taken') : error;
  }

  /** The server has no such owner any more. A key that went after its lease was over was not deleted, it expired. */
  #loseTo(reply: Exclude<KeepReply, 'kept'>): LockLostError {
    return this.lose(reply === 'deleted' && this.#lease.isOver ? 'expired' : reply);
  }

  #throwIfLost(): void {
    if (this.loss) throw this.loss;
  }

  #prolong(sentAt: Instant, leaseMs: number): void {
    if (this.#state.kind !== 'held') return;
    this.#lease.prolong(sentAt, leaseMs);
    this.checkDeadline();
  }

  /** Its release is on its way, or confirmed. */
  #end(isConfirmed: boolean): void {
    if (this.#state.kind !== 'lost') this.#become({ kind: 'released', isConfirmed });
  }

  /** The one place where the state changes; what is lost or released never comes back. */
  #become(next: State): void {
    if (this.#state.kind === 'lost' || next.kind === 'held') return;
    this.#state = next;
    this.#lease.end();
    this.#confirming?.end('closed');
    this.lock.unwatch(this);
    // A closing client waits for a release that is on its way.
    if (next.kind === 'lost' || next.isConfirmed) this.#client.ownerships.delete(this);
  }

  /** Nobody relies on it any more, but it may stand on the server. */
  #abandon(): void {
    this.#end(false);
    this.#client.ownerships.delete(this);
    this.#client.leftovers.remove(this.lock, this.ownerId);
  }
}
