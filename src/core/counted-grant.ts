// A grant as far as the server counts its holds: what confirms the count, or prolongs the lease, goes one command after another.

import { ClosedError, KeyConflictError } from '../api/errors.js';
import { upgradeRefused } from './refusals.js';
import { now, type Instant } from '../runtime/clock.js';
import { Turns } from '../scopes/turns.js';
import { WaitLimit } from '../runtime/wait-limit.js';
import { deadlineOf } from './deadline.js';
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
  #isShared: boolean = this.lock.isShared ?? false;

  /** From when the server is asked to let them in: it may have done so, whatever it answers. */
  override get isShared(): boolean {
    return this.#isShared;
  }

  /**
   * One more hold, counted and confirmed on the server. `begin` makes it, within the same turn, so that no release can
   * count in between; undefined when it does not, or when the grant was released in the meantime.
   *
   * @throws LockUpgradeError the hold is not to be shared, and others may be in already that share the grant's lock
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
        this.prolong(deadlineOf(sentAt, leaseMs));
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

  /** Confirms that the lock is held, `more` times than now, and for `leaseMs` from now. `isShared`: what is added only reads. */
  protected async confirm(
    leaseMs: number,
    waitLimit: WaitLimit,
    more: number,
    confirmed: () => void,
    isShared = true,
  ): Promise<void> {
    if (!this.turns.tryTake() && !(await this.turns.take(waitLimit))) return;
    try {
      this.throwIfLost();
      if (this.isReleased) return;
      if (this.isShared && !isShared) throw upgradeRefused(this.lock.name);
      const sentAt = await this.keep(this.holdCount + more, leaseMs, waitLimit, isShared);
      this.prolong(deadlineOf(sentAt, leaseMs));
      if (this.isHeld) confirmed();
    } catch (error) {
      throw this.takenIfConflict(error);
    } finally {
      this.turns.pass();
    }
  }

  /** Tells the server the hold count, the lease, and whether others may read beside it; returns when that was sent. Throws if the lock is lost. */
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

  /** It is not known whether the server lets others read beside those who still do: asks for that again as soon as it can be reached. */
  protected shareLater(): void {
    const { lock, ownerId, holdCount } = this;
    const share = async (): Promise<boolean> => {
      await lock.reenter(ownerId, holdCount, 0, this.session.untilClosed, true);
      return true;
    };
    this.session.cleanup.remove({ id: `${lock.id} shared`, release: share }, ownerId);
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
