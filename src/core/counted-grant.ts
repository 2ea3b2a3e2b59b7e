// A grant's hold count and lease on the server: the commands that set or confirm the count go one after another.

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
