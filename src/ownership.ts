// One owner of one lock on the server, from its outermost acquisition to its end. All holds that re-entered it
// share it: its lease, its deadline, its fate.

import { elapsedMs, now, setTimer, type Instant } from './clock.js';
import type { Client } from './client.js';
import { LockLostError, UnavailableError, type LossReason } from './errors.js';
import { insist } from './insist.js';
import type { KeepReply, LockBackend, Renewable } from './backend.js';
import { later, leftMs, validity, type Validity } from './validity.js';
import { Patience, PatienceOver } from './waiting/patience.js';

/** A hold as its owner sees it. */
export interface OwnedHold {
  readonly isWatched: boolean;
  /** The lock is lost. */
  lost(error: LockLostError): void;
}

type State =
  | { readonly kind: 'held'; readonly validity: Validity; readonly confirmedAt: Instant }
  | { readonly kind: 'lost'; readonly error: LockLostError }
  | { readonly kind: 'released' };

export class Ownership implements Renewable {
  readonly lock: LockBackend;
  readonly ownerId: string;
  readonly #client: Client;
  readonly #acquiredAt: Instant;
  readonly #holds = new Set<OwnedHold>();
  #state: State;
  #deadlineTimer: NodeJS.Timeout | undefined;
  /** A renewal was sent and not answered: if the deadline passes now, it is for want of an answer. */
  #isRenewalUnanswered = false;
  /** The longest lease that was asked for: how long its key may stay on the server if nobody removes it. */
  #longestLeaseMs: number;
  /** What changes the hold count on the server goes one after another. */
  #chain: Promise<unknown> = Promise.resolve();

  /** The server confirmed an acquisition that was sent at `sentAt`. */
  constructor(
    client: Client,
    lock: LockBackend,
    ownerId: string,
    sentAt: Instant,
    leaseMs: number,
  ) {
    this.#client = client;
    this.lock = lock;
    this.ownerId = ownerId;
    this.#acquiredAt = sentAt;
    this.#longestLeaseMs = leaseMs;
    this.#state = { kind: 'held', validity: validity(sentAt, leaseMs), confirmedAt: sentAt };
    client.ownerships.add(this);
    this.#awaitDeadline();
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
    return this.#holds.size;
  }

  get heldForMs(): number {
    return elapsedMs(this.#acquiredAt);
  }

  /** Milliseconds for which this process may rely on it. */
  remaining(): number {
    return this.isHeld && this.#state.kind === 'held'
      ? Math.max(leftMs(this.#state.validity), 0)
      : 0;
  }

  /** A hold begins; the server counts it already. */
  add(hold: OwnedHold): void {
    this.#holds.add(hold);
    if (this.#state.kind === 'lost') hold.lost(this.#state.error);
    else if (hold.isWatched) this.lock.watch(this);
  }

  /** One more hold, counted and confirmed on the server. False when it was released in the meantime. */
  reenter(leaseMs: number, patience: Patience): Promise<boolean> {
    return this.#inTurn(patience, () => this.#confirm(this.#holds.size + 1, leaseMs, patience));
  }

  /** The lease ends no earlier than `leaseMs` from now. False when it was released in the meantime. */
  extend(leaseMs: number): Promise<boolean> {
    return this.#bounded('extended', (patience) =>
      this.#inTurn(patience, () => this.#confirm(this.#holds.size, leaseMs, patience)),
    );
  }

  /** A hold ends; with the last one the lock is free. Call it again after a failure. */
  async remove(hold: OwnedHold, isRepeat: boolean): Promise<void> {
    this.#holds.delete(hold);
    if (![...this.#holds].some(({ isWatched }) => isWatched)) this.lock.unwatch(this);
    try {
      await this.#bounded('released', (patience) =>
        this.#inTurn(patience, () => this.#release(patience, isRepeat)),
      );
    } catch (error) {
      if (error instanceof UnavailableError && this.#holds.size === 0) this.#abandon();
      throw error;
    }
  }

  /** Not renewed from now on, whatever its holds say: it ends with its lease at the latest. */
  stopRenewing(): void {
    this.lock.unwatch(this);
  }

  lose(lossReason: LossReason, cause?: unknown): LockLostError {
    if (this.#state.kind === 'lost') return this.#state.error;
    const error = lockLost(this, lossReason, cause);
    this.#become({ kind: 'lost', error });
    for (const hold of this.#holds) hold.lost(error);
    this.#client.events.tell('lost', () => ({
      lockName: this.lock.name,
      ownerId: this.ownerId,
      lossReason,
      heldSince: new Date(this.#acquiredAt.wallMs),
      heldForMs: this.heldForMs,
      error,
    }));
    // The server may still keep what we do not dare to rely on.
    if (lossReason === 'expired' || lossReason === 'unreachable') this.#abandon();
    return error;
  }

  checkDeadline(): void {
    // Without holds it is being released: nobody relies on it, and the server's answer tells whether it was lost.
    if (this.#state.kind !== 'held' || this.#holds.size === 0 || leftMs(this.#state.validity) > 0)
      return;
    this.lose(this.#isRenewalUnanswered ? 'unreachable' : 'expired');
  }

  isDue(minAgeMs: number): boolean {
    return this.#state.kind === 'held' && elapsedMs(this.#state.confirmedAt) >= minAgeMs;
  }

  renewing(): void {
    this.#isRenewalUnanswered = true;
  }

  renewed(reply: KeepReply, sentAt: Instant, leaseMs: number): void {
    if (!this.isHeld) return;
    this.#isRenewalUnanswered = false;
    if (reply !== 'kept') {
      this.#loseTo(reply);
      return;
    }
    this.#prolong(sentAt, leaseMs);
    this.#client.events.tell('renewed', () => ({
      lockName: this.lock.name,
      ownerId: this.ownerId,
      leaseMs,
    }));
  }

  async #confirm(holdCount: number, leaseMs: number, patience: Patience): Promise<boolean> {
    this.#throwIfLost();
    if (this.#state.kind === 'released') return false;
    let sentAt = now();
    this.#longestLeaseMs = Math.max(this.#longestLeaseMs, leaseMs);
    const reply = await insist(this.#client.connection, patience, this.lock.name, () => {
      sentAt = now();
      return this.lock.reenter(this.ownerId, holdCount, leaseMs);
    });
    this.#throwIfLost();
    if (reply !== 'kept') throw this.#loseTo(reply);
    this.#prolong(sentAt, leaseMs);
    return true;
  }

  async #release(patience: Patience, isRepeat: boolean): Promise<void> {
    this.#throwIfLost();
    const holdCount = this.#holds.size;
    const reply = await insist(this.#client.connection, patience, this.lock.name, (isSentAgain) => {
      isRepeat ||= isSentAgain;
      return this.lock.release(this.ownerId, holdCount);
    });
    // Gone on a repeat: the first try was executed, its answer was lost.
    const isDone = reply === 'kept' || (isRepeat && holdCount === 0);
    if (isDone && holdCount === 0) this.#become({ kind: 'released' });
    else if (!isDone) throw this.#loseTo(reply);
  }

  /** The server has no such owner any more. A key that went after its lease was over was not deleted, it expired. */
  #loseTo(reply: Exclude<KeepReply, 'kept'>): LockLostError {
    const isOver = this.#state.kind === 'held' && leftMs(this.#state.validity) <= 0;
    return this.lose(reply === 'deleted' && isOver ? 'expired' : reply);
  }

  #throwIfLost(): void {
    if (this.loss) throw this.loss;
  }

  #prolong(sentAt: Instant, leaseMs: number): void {
    if (this.#state.kind !== 'held') return;
    this.#become({
      kind: 'held',
      validity: later(this.#state.validity, validity(sentAt, leaseMs)),
      confirmedAt: sentAt,
    });
    this.checkDeadline();
  }

  /** The one place where the state changes; what is lost or released stays so. */
  #become(next: State): void {
    if (this.#state.kind !== 'held') return;
    this.#state = next;
    if (next.kind === 'held') return;
    clearTimeout(this.#deadlineTimer);
    this.lock.unwatch(this);
    this.#client.ownerships.delete(this);
  }

  /** Nobody relies on it any more, but it may stand on the server. */
  #abandon(): void {
    this.#become({ kind: 'released' });
    this.#client.leftovers.remove(this.lock, this.ownerId, this.#longestLeaseMs);
  }

  #awaitDeadline(): void {
    if (this.#state.kind !== 'held') return;
    this.#deadlineTimer = setTimer(() => {
      this.checkDeadline();
      this.#awaitDeadline(); // it was prolonged in the meantime
    }, leftMs(this.#state.validity));
  }

  async #inTurn<T>(patience: Patience, operation: () => Promise<T>): Promise<T> {
    const before = this.#chain;
    let done!: () => void;
    const after = new Promise<void>((resolve) => (done = resolve));
    this.#chain = before.then(() => after); // also when we give up waiting: what is before us goes on
    try {
      await patience.within(before);
      return await operation();
    } finally {
      done();
    }
  }

  /** Runs an operation that `commandTimeout` bounds. */
  async #bounded<T>(done: string, operation: (patience: Patience) => Promise<T>): Promise<T> {
    const limitMs = this.#client.commandTimeoutMs;
    const patience = new Patience({ limitMs });
    try {
      return await operation(patience);
    } catch (error) {
      if (!(error instanceof PatienceOver)) throw error;
      throw this.#client.unavailable(
        this.lock.name,
        `not known to be ${done}: Redis did not answer within ${String(limitMs)} ms`,
      );
    } finally {
      patience.dispose();
    }
  }
}

const WHAT_HAPPENED: Record<LossReason, string> = {
  expired: 'its lease ended before it was released or renewed',
  taken: 'somebody else holds it',
  deleted: 'its key is gone from the server',
  forced: 'it was freed by forceUnlock',
  unreachable: 'Redis did not confirm a renewal before its lease ended',
  closed: 'its client was closed, or its run ended, while it was held',
};

function lockLost(
  { lock, ownerId, heldForMs }: Ownership,
  lossReason: LossReason,
  cause: unknown,
): LockLostError {
  return new LockLostError(
    `lock "${lock.name}" lost after ${String(Math.round(heldForMs))} ms by ${ownerId}: ${WHAT_HAPPENED[lossReason]}`,
    { lockName: lock.name, lossReason, cause },
  );
}
