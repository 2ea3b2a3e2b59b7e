// One successful acquisition, as the caller has it in hand.

import { LockLostError, LockNotHeldError, UnavailableError } from './errors.js';
import type { Client } from './client.js';
import type { Holder } from './holder.js';
import { parseLease } from './options.js';
import type { Ownership } from './ownership.js';
import { lockScope } from './scope.js';

/** How a hold came to be, and so what may undo it. */
export type HoldOrigin = 'lock' | 'acquire' | 'withLock';

/**
 * A lock that was acquired. It is a capability: whoever has it may release it, from anywhere.
 *
 * `await using hold = await lock.acquire()` releases it at the end of the block.
 */
export class Hold implements AsyncDisposable {
  readonly #client: Client;
  readonly #holder: Holder;
  readonly #origin: HoldOrigin;
  /** @internal */
  readonly isWatched: boolean;
  #aborter: AbortController | undefined;
  #loss: LockLostError | undefined;
  #release: Promise<void> | undefined;
  #isGivenUp = false;

  /** @internal */
  constructor(client: Client, holder: Holder, origin: HoldOrigin, isWatched: boolean) {
    this.#client = client;
    this.#holder = holder;
    this.isWatched = isWatched;
    this.#origin = origin;
    holder.add(this);
    holder.ownership.add(this);
  }

  /** The lock's name, as it was given to `getLock`. */
  get lockName(): string {
    return this.#ownership.lock.name;
  }

  /** The owner on the server: `<clientId>:<n>`. Nested acquisitions share it. */
  get ownerId(): string {
    return this.#ownership.ownerId;
  }

  /**
   * Aborts when the lock is lost; its reason is a {@link LockLostError}. Give it to whatever the lock guards.
   * It does not abort when the hold is released.
   */
  get signal(): AbortSignal {
    this.#ownership.checkDeadline();
    if (!this.#aborter) {
      this.#aborter = new AbortController();
      if (this.#loss) this.#aborter.abort(this.#loss);
    }
    return this.#aborter.signal;
  }

  /** Milliseconds for which this process may still rely on the lock; 0 when it was lost or released. */
  remaining(): number {
    return this.#isGivenUp ? 0 : this.#ownership.remaining();
  }

  /**
   * Makes the lease end no earlier than `lease` from now. Never shortens it; a watched hold stays watched.
   *
   * @param lease - milliseconds, a whole number of at least 1
   * @throws {@link LockLostError} the lock was lost
   * @throws {@link LockNotHeldError} the hold was released
   * @throws {@link UnavailableError} Redis did not answer within `commandTimeout`; the lease may be the old one
   * @throws {@link OptionError} the lease is not usable
   */
  async extend(lease: number): Promise<void> {
    const leaseMs = parseLease(lease, 'lease', this.lockName);
    this.#assertHeld('extend');
    if (!(await this.#ownership.extend(leaseMs))) throw this.#notHeld('extend');
  }

  /**
   * Gives the lock up: one round trip. Once more is harmless. After a failure it may be repeated; meanwhile the lock
   * is removed from the server as soon as that can be reached.
   *
   * @throws {@link LockLostError} the lock was lost before
   * @throws {@link UnavailableError} Redis did not answer within `commandTimeout`
   */
  release(): Promise<void> {
    this.#release ??= this.#giveUp();
    return this.#release;
  }

  /**
   * Runs `fn` with this hold as the nearest holder: acquisitions of the same lock inside re-enter it. Does not release it.
   *
   * @returns what `fn` returns
   * @throws {@link LockLostError} the lock was lost before
   * @throws {@link LockNotHeldError} the hold was released before
   */
  async run<T>(fn: () => T | Promise<T>): Promise<T> {
    this.#assertHeld('run within');
    return await lockScope(this.#ownership.lock.id, this.#holder).run(fn);
  }

  /** Releases it at the end of an `await using` block. @throws {@link LockLostError} the lock was lost */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.releaseQuietly();
  }

  /** Releases; that Redis could not be reached is an event, not an error: what the lock guarded is done. @internal */
  async releaseQuietly(): Promise<void> {
    try {
      await this.release();
    } catch (error) {
      if (!(error instanceof UnavailableError)) throw error;
      this.#client.events.tell('error', () => ({
        error,
        lockName: this.lockName,
        ownerId: this.ownerId,
      }));
    }
  }

  /** Whether `unlock()` may undo it. @internal */
  get isUnlockable(): boolean {
    return this.#origin === 'lock' && !this.#isGivenUp;
  }

  /** Its lease is not renewed any more. @internal */
  stopRenewing(): void {
    this.#ownership.stopRenewing();
  }

  /** Takes it from whoever has it: the scope that it was acquired in has ended. @internal */
  async revoke(error: LockLostError): Promise<void> {
    const released = this.releaseQuietly();
    this.lost(error);
    await released;
  }

  /** The ownership was lost. @internal */
  lost(error: LockLostError): void {
    if (this.#loss) return;
    this.#loss = error;
    this.#aborter?.abort(error);
    if (!this.#holder.scope) this.#client.anonymous.lost(this.#ownership.lock.id, this, error);
    this.#holder.disturb();
  }

  get #ownership(): Ownership {
    return this.#holder.ownership;
  }

  async #giveUp(): Promise<void> {
    const ownership = this.#ownership;
    try {
      const isRepeat = this.#isGivenUp;
      this.#isGivenUp = true;
      this.#throwIfLost();
      await ownership.remove(this, isRepeat);
      const { heldForMs, holdCount } = ownership;
      const { lockName, ownerId } = this;
      this.#client.events.tell('released', () => ({ lockName, ownerId, holdCount, heldForMs }));
    } catch (error) {
      if (error instanceof UnavailableError) this.#release = undefined;
      if (error instanceof LockLostError) this.lost(error); // found out by this very release
      throw error;
    } finally {
      this.#holder.remove(this);
      if (!this.#holder.scope) this.#client.anonymous.delete(ownership.lock.id, this);
    }
  }

  #throwIfLost(): void {
    const loss = this.#loss ?? this.#ownership.loss;
    if (loss) throw loss;
  }

  #assertHeld(what: string): void {
    this.#throwIfLost();
    if (this.#isGivenUp) throw this.#notHeld(what);
  }

  #notHeld(what: string): LockNotHeldError {
    return new LockNotHeldError(
      `lock "${this.lockName}": cannot ${what} a hold that was released`,
      {
        lockName: this.lockName,
      },
    );
  }
}
