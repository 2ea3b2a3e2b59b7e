// A lock of one name, on one server or on a quorum of servers. It acquires by an `Acquisition`, and queries its backend.

import { acquire } from '../core/acquisition.js';
import type { HoldOrigin, LockBackend, MemberTerms } from '../core/protocol.js';
import type { Session, SessionGrant } from '../core/session.js';
import { BaseLock, type DefaultWaits, type HeldHere } from './base-lock.js';
import { nothingToUnlock } from '../core/misuse.js';
import { type AcquireRequest, shown } from '../api/options.js';
import { inTurn, pauseIfLong } from '../runtime/node.js';
import {
  actingScope,
  currentScope,
  holdersAround,
  nearestHolder,
  type Scope,
} from '../scopes/scope.js';
import type { HoldWatch } from '../core/hold-watch.js';
import type { SingleHold } from '../core/hold.js';
import { explainWrongCalls, KINDS } from '../core/wrong-calls.js';
import { type HoldInScope, type MarkedLock, undo, undoneNext } from '../scopes/anonymous.js';
import { OptionError } from '../api/errors.js';

export class SingleLock<Backend extends LockBackend = LockBackend> extends BaseLock {
  static {
    explainWrongCalls(SingleLock, KINDS.lock);
  }

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

  /** For locks that are made of this one. */
  get parts(): { session: Session; backend: Backend } {
    return { session: this.#session, backend: this.#backend };
  }

  protected override get kind(): string {
    return this.#backend.kind;
  }

  protected override get holdWatch(): HoldWatch | undefined {
    return this.#session.holdWatch;
  }

  protected override get defaultWaits(): DefaultWaits {
    return this.#session;
  }

  override get held(): HeldHere | undefined {
    for (const grant of this.#session.grants.of(this.id)) {
      const remainingMs = this.#isOfOurHalf(grant) ? grant.remaining() : 0;
      if (remainingMs > 0) return { ownerId: grant.ownerId, remainingMs };
    }
    return undefined;
  }

  override get isKept(): boolean {
    return this.#session.grants.of(this.id).some(({ isIdle }) => isIdle);
  }

  /** Equal for all objects that are the same lock of the same client. */
  get id(): string {
    return this.#backend.id;
  }

  override get marked(): readonly [MarkedLock] {
    return [{ holds: this.#session.anonymous, lock: this.#backend }];
  }

  override async unlock(): Promise<void> {
    if (this.#session.isClosed) throw await inTurn(this.#session.closedError(this.name));
    const undone = actingScope(currentScope())
      ? this.#holdOfRun()?.release()
      : undo(this.marked[0]);
    if (!undone) throw await inTurn(nothingToUnlock(this.#backend, this.isHeldAround, this.marked));
    await undone;
  }

  /** Whether the caller is inside a hold of this lock; for one half of a read-write lock, of that half. */
  get isHeldAround(): boolean {
    const half = this.#backend.isShared ?? false;
    return holdersAround(currentScope(), this.id).some(({ holds }) =>
      holds.some(({ isShared }) => isShared === half),
    );
  }

  /** Whether `unlock()` has a hold to undo, or a loss to report. */
  get isUnlockable(): boolean {
    if (actingScope(currentScope())) return this.#holdOfRun() !== undefined;
    return undoneNext(this.marked[0]) !== undefined;
  }

  /** Whether all that is left for `unlock()` is to repeat a release that failed, outside any run. */
  get isReleaseToRepeat(): boolean {
    return this.isUnlockable && undoneNext(this.marked[0])?.isOwed === false;
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
    const count = await this.#session.ask(this.#backend, async () => {
      const counted = await this.#backend.holdCount(ownerId);
      if (counted === 0) await this.#backend.remainTimeToLive(); // throws if the key holds something else
      return counted;
    });
    const { isShared } = this.#backend;
    if (count === 0 || isShared === undefined) return count;
    // For a read-write lock the server knows only that the owner has it; how often, and to read or to write, only this client knows.
    for (const grant of this.#session.grants.of(this.id))
      if (grant.ownerId === ownerId && this.#isOfOurHalf(grant)) return grant.countOf(isShared);
    return 0;
  }

  override async remainTimeToLive(): Promise<number> {
    return await this.#session.ask(this.#backend, () => this.#backend.remainTimeToLive());
  }

  override async forceUnlock(): Promise<boolean> {
    const { lockWatchdogTimeoutMs, grants } = this.#session;
    const owners = await this.#session.askOnce(this.#backend, 'not known to be forced', () =>
      this.#backend.forceUnlock(2 * lockWatchdogTimeoutMs),
    );
    for (const grant of grants.of(this.#backend.id))
      if (owners.includes(grant.ownerId)) grant.lose('forced');
    return owners.length > 0;
  }

  override acquireHold(
    request: AcquireRequest & MemberTerms,
    origin: HoldOrigin,
    scope?: Scope,
    newOwnerId?: () => string,
  ): Promise<SingleHold> {
    return acquire(this.#session, this.#backend, request, origin, scope, newOwnerId);
  }

  /** Whether a grant of this lock has holds of this half; always true if this is not half of a read-write lock. */
  #isOfOurHalf(grant: SessionGrant): boolean {
    const { isShared } = this.#backend;
    return isShared === undefined || grant.countOf(isShared) > 0;
  }

  /** The hold that `unlock()` undoes: that of the latest `lock()` or `tryLock()` of the innermost run. */
  #holdOfRun(): HoldInScope | undefined {
    const position = currentScope();
    const own = actingScope(position)?.holders(this.#backend.id) ?? [];
    const around = holdersAround(position, this.#backend.id);
    const half = this.#backend.isShared ?? false;
    return own
      .filter((holder) => around.includes(holder) || holder.hasEnded) // an ended holder may have lost holds whose unlock() is still to come
      .flatMap((holder) => [...holder.holds])
      .findLast(({ isUnlockable, isShared }) => isUnlockable && isShared === half);
  }

  /** The owner by which the caller holds the lock. */
  protected get currentOwnerId(): string | undefined {
    const position = currentScope();
    const holder = nearestHolder(position, this.#backend.id);
    if (holder) return holder.grant.ownerId;
    return actingScope(position) ? undefined : undoneNext(this.marked[0])?.hold?.ownerId;
  }
}

// The members of locks that are made of other locks.

/** Parses the members of `what`: at least one, each only once, and no Redlock together with one of its own members. */
export function parseMembers(
  what: string,
  locks: readonly unknown[],
  right: string,
  isRight: (backend: LockBackend) => boolean,
): SingleLock[] {
  if (locks.length === 0)
    throw new OptionError(`${what} has no members: it needs at least one lock`);
  const members = locks.map((lock, index) => {
    if (isSingleLock(lock) && isRight(lock.parts.backend)) return lock;
    throw new OptionError(
      `member ${String(index + 1)} of ${what} is ${shownMember(lock)}: ${right}`,
    );
  });
  const ids = new Set<string>();
  for (const { name, parts } of members) {
    // A Redlock holds its members, so a caller that holds one of the two and waits for the other would wait for itself.
    for (const id of parts.backend.memberIds ?? [parts.backend.id]) {
      if (ids.has(id))
        throw new OptionError(`${what} has "${name}" twice: each member must be another lock`);
      ids.add(id);
    }
  }
  return members;
}

/** A type guard for locks of any backend: `instanceof` alone would narrow to `SingleLock<any>`. */
function isSingleLock(given: unknown): given is SingleLock {
  return given instanceof SingleLock;
}

/** Describes what was given as a member, with a hint at the likely mistake. */
export function shownMember(given: unknown): string {
  if (given instanceof BaseLock) return `"${given.name}"`;
  if (has(given, 'getLock')) return 'a client (was getLock() forgotten?)';
  if (has(given, 'readLock')) return 'a read-write lock (was readLock() or writeLock() forgotten?)';
  if (has(given, 'setPermits')) return 'a semaphore';
  if (has(given, 'tryLock') && has(given, 'withLock'))
    return 'a lock of another copy of holdfast (is the package installed twice?)';
  return shown(given);
}

/** Checks by shape, since a lock of another copy of this package is an instance of another class. */
function has(given: unknown, method: string): boolean {
  return (
    typeof given === 'object' &&
    given !== null &&
    typeof (given as Record<string, unknown>)[method] === 'function'
  );
}
