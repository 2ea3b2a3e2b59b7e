// A lock of one name, on one server or on a quorum of them: acquires by an acquisition, and looks through its backend.

import { acquire } from '../core/acquire.js';
import type { LockBackend } from '../core/backend.js';
import type { Session } from '../core/session.js';
import type { HoldOrigin } from '../core/own-hold.js';
import { BaseLock, type HeldHere } from './base-lock.js';
import { nothingToUnlock } from '../core/lock-calls.js';
import type { MemberTerms } from '../core/request.js';
import type { AcquireRequest } from '../api/options.js';
import { inTurn, pauseIfLong } from '../runtime/loop-turns.js';
import {
  actingScope,
  currentScope,
  holdersAround,
  nearestHolder,
  type Scope,
} from '../scopes/scope.js';
import type { SingleHold } from '../core/single-hold.js';
import type { HoldInScope } from '../scopes/held.js';
import { hasFailed, type MarkedLock } from '../scopes/unlock-marks.js';

export class SingleLock<Backend extends LockBackend = LockBackend> extends BaseLock {
  readonly #session: Session;
  readonly #backend: Backend;

  constructor(session: Session, backend: Backend) {
    super();
    this.#session = session;
    this.#backend = backend;
  }

  override get name(): string {
    return this.#backend.name;
  }

  /** What locks that are made of this one need of it. */
  get parts(): { session: Session; backend: Backend } {
    return { session: this.#session, backend: this.#backend };
  }

  protected override get kind(): string {
    return this.#backend.kind;
  }

  protected override get defaultWaitMs(): number {
    return this.#session.defaultWaitMs;
  }

  override get held(): HeldHere | undefined {
    const grant = this.#session.grantOf(this.#backend.id);
    return grant && { ownerId: grant.ownerId, remainingMs: grant.remaining() };
  }

  /** The same for the same lock of the same client, whatever object stands for it. */
  get id(): string {
    return this.#backend.id;
  }

  override get marked(): readonly [MarkedLock] {
    return [{ holds: this.#session.anonymous, lock: this.#backend }];
  }

  override async unlock(): Promise<void> {
    if (this.#session.isClosed) throw await inTurn(this.#session.closedError(this.name));
    if (!this.isUnlockable) {
      const { isHeldAround } = this;
      throw await inTurn(
        nothingToUnlock(this.#session, this.#backend, isHeldAround, this.#hasFailedHere),
      );
    }
    if (actingScope(currentScope())) await this.#holdOfRun()?.release();
    else await this.#session.anonymous.unlock(this.#backend);
  }

  /** Whether the caller is inside a hold of it; of one half of a read-write lock, of that half. */
  get isHeldAround(): boolean {
    const half = this.#backend.isShared ?? false;
    return holdersAround(currentScope(), this.id).some(({ holds }) =>
      holds.some(({ isShared }) => isShared === half),
    );
  }

  /** Whether `unlock()` has something to undo, or to tell the loss of. */
  get isUnlockable(): boolean {
    if (actingScope(currentScope())) return this.#holdOfRun() !== undefined;
    return !this.#hasFailedHere && this.#session.anonymous.isUnlockable(this.#backend);
  }

  override async isLocked(): Promise<boolean> {
    return await this.#session.ask(this.#backend, () => this.#backend.isLocked());
  }

  override async getHoldCount(): Promise<number> {
    const ownerId = this.currentOwnerId;
    if (this.#session.isClosed) throw await inTurn(this.#session.closedError(this.name));
    if (ownerId === undefined) {
      await pauseIfLong();
      return 0;
    }
    return await this.#session.ask(this.#backend, async () => {
      const count = await this.#backend.holdCount(ownerId);
      if (count === 0) await this.#backend.remainTimeToLive(); // throws where something else has the name
      return count;
    });
  }

  override async remainTimeToLive(): Promise<number> {
    return await this.#session.ask(this.#backend, () => this.#backend.remainTimeToLive());
  }

  override async forceUnlock(): Promise<boolean> {
    const { lockWatchdogTimeoutMs, grants } = this.#session;
    const holder = await this.#session.askOnce(this.#backend, 'not known to be forced', () =>
      this.#backend.forceUnlock(2 * lockWatchdogTimeoutMs),
    );
    for (const grant of grants) {
      const isForced = grant.ownerId === holder && grant.lock.id === this.#backend.id;
      if (isForced) grant.lose('forced');
    }
    return holder !== undefined;
  }

  override acquireHold(
    request: AcquireRequest & MemberTerms,
    origin: HoldOrigin,
    scope?: Scope,
    newOwnerId?: () => string,
  ): Promise<SingleHold> {
    return acquire(this.#session, this.#backend, request, origin, scope, newOwnerId);
  }

  /** Whether it is the caller, outside any run, whose `lock()` or `tryLock()` failed. */
  get #hasFailedHere(): boolean {
    return !actingScope(currentScope()) && hasFailed(this.marked[0]);
  }

  /** What `unlock()` undoes: the latest `lock()` or `tryLock()` of the innermost run. */
  #holdOfRun(): HoldInScope | undefined {
    const position = currentScope();
    const own = actingScope(position)?.holders(this.#backend.id) ?? [];
    const around = holdersAround(position, this.#backend.id);
    const half = this.#backend.isShared ?? false;
    return own
      .filter((holder) => around.includes(holder) || holder.hasEnded) // an ended one may have retired holds
      .flatMap((holder) => [...holder.holds])
      .findLast(({ isUnlockable, isShared }) => isUnlockable && isShared === half);
  }

  /** The owner as which the caller is inside the lock. */
  protected get currentOwnerId(): string | undefined {
    const position = currentScope();
    const holder = nearestHolder(position, this.#backend.id);
    if (holder) return holder.grant.ownerId;
    if (actingScope(position) || this.#hasFailedHere) return undefined;
    return this.#session.anonymous.next(this.#backend)?.ownerId;
  }
}
