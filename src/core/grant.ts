// What a server gave one owner of a lock. All holds that re-entered the lock share the grant, and it may outlive them: it is passed on
// within the process, or released.

import { isUnanswered, KeyConflictError, LockLostError } from '../api/errors.js';
import type { WaitLimit } from '../runtime/wait-limit.js';
import { CountedGrant } from './counted-grant.js';
import { notReleased } from './refusals.js';
import type { GrantedHold } from './granted-lock.js';
import { Relay } from './relay.js';
import { retry } from './retry.js';
import { sendRelease, type BegunRelease } from './send-release.js';

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
