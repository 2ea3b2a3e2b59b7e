// A grant as far as the server counts its holds: what confirms the count, or prolongs the lease, goes one command after another.

import { ClosedError, KeyConflictError } from '../api/errors.js';
import { now, type Instant } from '../runtime/clock.js';
import { Turns } from '../scopes/turns.js';
import { WaitLimit } from '../runtime/wait-limit.js';
import { GrantState } from './grant-state.js';
import type { GrantedHold } from './granted-lock.js';
import type { KeepReply } from './replies.js';
import { retry } from './retry.js';

export abstract class CountedGrant extends GrantState {
  /** The confirmation of a hand-over that is under way. */
  #confirming: WaitLimit | undefined;
  protected readonly turns: Turns = new Turns();
  /** The count on the server; undefined: a command that sets it was sent, and may come late, when it must meet nobody else's count. */
  protected countThere: number | undefined = 1;

  /**
   * One more hold, counted and confirmed on the server. `begin` makes it, within the same turn, so that no release can
   * count in between; undefined when it does not, or when the grant was released in the meantime.
   */
  async reenter<H extends GrantedHold>(
    leaseMs: number,
    waitLimit: WaitLimit,
    begin: () => H | undefined,
  ): Promise<H | undefined> {
    let hold: H | undefined;
    await this.confirm(leaseMs, waitLimit, 1, () => (hold = begin()));
    return hold;
  }

  /** The lease ends no earlier than `leaseMs` from now. False when the grant was released in the meantime. */
  async extend(leaseMs: number): Promise<boolean> {
    let isExtended = false;
    try {
      await this.session.bounded(this.lock.name, 'not known to be extended', (waitLimit) =>
        this.confirm(leaseMs, waitLimit, 0, () => (isExtended = true)),
      );
    } catch (error) {
      // Its client was closed meanwhile: that is how the lock was lost, whichever was found out first.
      throw error instanceof ClosedError ? (this.loss ?? error) : error;
    }
    return isExtended;
  }

  /**
   * The lock was handed over with the lease of a place in line: sets, in the background, the lease that was asked for. That
   * needs no turn, since it never takes back what another command confirmed.
   */
  confirmHandOver(leaseMs: number, confirm: () => Promise<KeepReply>): void {
    const registry = this.session.acquisitions;
    const waitLimit = new WaitLimit({ limitMs: this.remaining(), registry });
    this.#confirming = waitLimit;
    this.#ask(confirm, waitLimit)
      .then((sentAt) => {
        this.prolong(sentAt, leaseMs);
      })
      // Unanswered, the grant ends when it would have; a loss is told as such.
      .catch((error: unknown) => this.takenIfConflict(error))
      .finally(() => {
        waitLimit.dispose();
      });
  }

  protected override ended(): void {
    this.#confirming?.end('closed');
  }

  /** Confirms that the lock is held, `more` times than now, and for `leaseMs` from now. */
  protected async confirm(
    leaseMs: number,
    waitLimit: WaitLimit,
    more: number,
    confirmed: () => void,
  ): Promise<void> {
    if (!this.turns.tryTake() && !(await this.turns.take(waitLimit))) return;
    try {
      this.throwIfLost();
      if (this.isReleased) return;
      const sentAt = await this.keep(this.holdCount + more, leaseMs, waitLimit);
      this.prolong(sentAt, leaseMs);
      if (this.isHeld) confirmed();
    } catch (error) {
      throw this.takenIfConflict(error);
    } finally {
      this.turns.pass();
    }
  }

  /** Tells the server the hold count and the lease; returns when that was sent. Throws if the lock is lost. */
  protected async keep(holdCount: number, leaseMs: number, waitLimit: WaitLimit): Promise<Instant> {
    const send = (): Promise<KeepReply> =>
      this.lock.reenter(this.ownerId, holdCount, leaseMs, waitLimit);
    this.countThere = undefined;
    const sentAt = await this.#ask(send, waitLimit);
    this.countThere = holdCount;
    return sentAt;
  }

  /** Asks whether the lock is still held; returns when that was sent. Throws if it is not. */
  async #ask(send: () => Promise<KeepReply>, waitLimit: WaitLimit): Promise<Instant> {
    let sentAt = now();
    const reply = await retry(this.session.connection, waitLimit, this.named, () => {
      sentAt = now();
      return send();
    });
    this.throwIfLost();
    if (reply !== 'kept') throw this.loseTo(reply);
    return sentAt;
  }

  protected throwIfLost(): void {
    if (this.loss) throw this.loss;
  }

  /** What is in the way of the lock is of no interest here, so nobody looks: the lock is lost. */
  protected get named(): { name: string } {
    return { name: this.lock.name };
  }

  /** A key that is something else now holds the lock no longer. */
  protected takenIfConflict(error: unknown): unknown {
    return error instanceof KeyConflictError ? this.lose('taken') : error;
  }
}
