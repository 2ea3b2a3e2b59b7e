// A hold of one lock on one server, or of one lock over a quorum of them.

import { inspect, type InspectOptionsStylized } from 'node:util';
import { type HoldDescription, inspected, shownToken } from '../api/description.js';
import { isUnanswered, LockLostError } from '../api/errors.js';
import type { Session } from './session.js';
import type { AcquirableLock, CallersRequest, HoldOrigin, HoldTerms, OwnHold } from './protocol.js';
import { parseLease } from '../api/options.js';
import { Grant } from './grant.js';
import { heldWithoutToken, releasedAlready, upgradeRefused } from './messages.js';
import { inTurn } from '../runtime/node.js';
import { currentScope, type Holder, holdersAround, nearestHolder, Scope } from '../scopes/scope.js';

export class SingleHold implements OwnHold {
  readonly #session: Session;
  readonly #holder: GrantHolder;
  #origin: HoldOrigin;
  readonly isShared: boolean;
  isWatched: boolean;
  #aborter: AbortController | undefined;
  #loss: LockLostError | undefined;
  #release: Promise<void> | undefined;
  #isGivenUp = false;
  /** Whether it was lost while its owner keeps the lock: the `unlock()` that is yet to come for it must find it, and undo no other hold. */
  isLostBeforeUnlock = false;
  #onEnd: (() => void) | undefined;

  constructor(session: Session, holder: GrantHolder, { origin, isShared, isWatched }: HoldTerms) {
    this.#session = session;
    this.#holder = holder;
    this.isShared = isShared;
    this.isWatched = isWatched;
    this.#origin = origin;
    holder.add(this);
    holder.grant.add(this);
  }

  get lockName(): string {
    return this.#grant.lock.name;
  }

  get ownerId(): string {
    return this.#grant.ownerId;
  }

  get members(): readonly [this] {
    return [this];
  }

  get token(): bigint | undefined {
    return this.#grant.token;
  }

  /** How long its owner has held the lock, in milliseconds. */
  get heldForMs(): number {
    return this.#grant.heldForMs;
  }

  get signal(): AbortSignal {
    this.#grant.checkDeadline();
    if (!this.#aborter) {
      this.#aborter = new AbortController();
      if (this.#loss) this.#aborter.abort(this.#loss);
    }
    return this.#aborter.signal;
  }

  remaining(): number {
    return this.#isGivenUp ? 0 : this.#grant.remaining();
  }

  async extend(lease: number): Promise<void> {
    const leaseMs = parseLease(lease, 'lease', this.lockName);
    const refusal = this.#refusal('extend');
    if (refusal) throw await inTurn(refusal);
    if (!(await this.#grant.extend(leaseMs))) throw releasedAlready(this.lockName, 'extend');
  }

  release(): Promise<void> {
    return (this.#release ??= this.#giveUp());
  }

  async run<T>(fn: () => T | Promise<T>): Promise<T> {
    const scope = new Scope(currentScope(), false);
    this.enterInto(scope);
    return await scope.run(fn);
  }

  /** Makes it the nearest holder of its lock in this scope. */
  enterInto(scope: Scope): void {
    const refusal = this.#refusal('run within');
    if (refusal) throw refusal;
    scope.enter(this.#grant.lock.id, this.#holder);
  }

  toJSON(): HoldDescription {
    const loss = this.#loss ?? (this.#isGivenUp ? undefined : this.#grant.loss);
    const state = loss ? 'lost' : this.#isGivenUp ? 'released' : 'held';
    const { lockName, ownerId, token } = this;
    const remainingMs = Math.round(this.remaining());
    return { lockName, state, ownerId, remainingMs, ...shownToken(token) };
  }

  /** For `util.inspect` and `console.log`. @internal */
  [inspect.custom](depth: number, options: InspectOptionsStylized): string {
    return inspected('Hold', this.toJSON(), depth, options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.releaseQuietly();
  }

  releaseQuietly(): Promise<void> {
    return quietly(this.#session, this, this.release());
  }

  /** Whether `unlock()` may undo it. */
  get isUnlockable(): boolean {
    return this.#origin === 'lock' && !this.#isGivenUp;
  }

  /** Makes it a member of a MultiLock of `client`, acquired by a call of kind `origin`. That client takes it back when it closes. */
  becomeMember(client: Session, origin: HoldOrigin): void {
    this.#origin = origin;
    if (client === this.#session) return;
    client.memberHolds.add(this);
    this.#onEnd = () => client.memberHolds.delete(this);
  }

  get lastsForMs(): number {
    return this.isWatched ? Infinity : this.remaining();
  }

  /** Has the lease renewed no longer for this hold; another hold of the same owner may still want that. */
  stopRenewing(): void {
    this.isWatched = false;
  }

  /** Takes the hold from its caller: its run has ended, or the client is closing whose MultiLock it is a member of. */
  async revoke(error: LockLostError): Promise<void> {
    // An unlock() that is yet to come for this hold must learn of the loss.
    if (!this.#holder.scope) this.#session.anonymous.lost(this.#grant.lock.id, this, error);
    const released = this.releaseQuietly();
    this.lost(error);
    await released;
  }

  /** The MultiLock that it is a member of was lost. What its owner held before that, or holds in addition, stays held. */
  async loseAsMember(error: LockLostError): Promise<void> {
    if (this.#grant.loss || this.#loss || this.#isGivenUp) return; // it was lost itself, perhaps just now, or given up before
    if (!this.#holder.parent && this.#grant.holdCount <= 1) {
      this.#grant.loseAsMember(error);
      emitReleased(this.#session, this.#grant, 0);
      return;
    }
    this.isLostBeforeUnlock = true;
    const released = whenSettled((done) => {
      this.#grant.release(this, false, (failure) => {
        if (!failure) emitReleased(this.#session, this.#grant);
        done(failure);
      });
    });
    this.lost(error);
    this.#holder.lostBeforeUnlock(this);
    await quietly(this.#session, this, released);
  }

  /** The grant was lost. */
  lost(error: LockLostError): void {
    if (this.#loss) return;
    this.#loss = error;
    this.#onEnd?.();
    this.#aborter?.abort(error);
    if (!this.#holder.scope) this.#session.anonymous.lost(this.#grant.lock.id, this, error);
    this.#holder.wakeWaiters();
  }

  get #grant(): Grant {
    return this.#holder.grant;
  }

  #giveUp(): Promise<void> {
    const isRepeat = this.#isGivenUp;
    this.#isGivenUp = true;
    const loss = this.#loss ?? this.#grant.loss;
    return whenSettled((settle) => {
      const done = (error?: Error): void => {
        this.#ended(error);
        settle(error);
      };
      if (loss) done(loss);
      else this.#grant.release(this, isRepeat, done);
    });
  }

  /** The release is settled; `error`: it failed, or the lock was lost before. */
  #ended(error: Error | undefined): void {
    if (!error) emitReleased(this.#session, this.#grant);
    if (isUnanswered(error)) this.#release = undefined;
    if (error instanceof LockLostError) this.lost(error); // found out by this very release
    this.#leave();
  }

  #leave(): void {
    this.#onEnd?.();
    this.#holder.remove(this);
    if (!this.#holder.scope) this.#session.anonymous.delete(this.#grant.lock.id, this);
  }

  /** Why it is of no use any more; undefined: it is held. */
  #refusal(what: string): Error | undefined {
    const released = this.#isGivenUp ? releasedAlready(this.lockName, what) : undefined;
    return this.#loss ?? this.#grant.loss ?? released;
  }
}

// Tells of the end of a hold by `released`, and of the failure of a release that no caller waits for by `error`.

/** The grant of the hold that has ended. */
interface Ended {
  readonly ownerId: string;
  readonly holdCount: number;
  readonly heldForMs: number;
  readonly lock: { readonly name: string };
  readonly token: bigint | undefined;
}

function emitReleased(session: Session, grant: Ended, holdCount = grant.holdCount): void {
  session.events.emit('released', () => ({
    lockName: grant.lock.name,
    ownerId: grant.ownerId,
    holdCount,
    heldForMs: grant.heldForMs,
    ...shownToken(grant.token),
  }));
}

/** Awaits a release; that Redis could not be asked becomes an `error` event, and no rejection. */
function quietly(
  session: Session,
  { lockName, ownerId }: { readonly lockName: string; readonly ownerId: string },
  releasing: Promise<void>,
): Promise<void> {
  return releasing.catch((error: unknown) => {
    if (!isUnanswered(error)) throw error;
    session.events.emit('error', () => ({ error, lockName, ownerId }));
  });
}

/** A release that calls back when it is settled, with the error if it failed, as a promise. */
function whenSettled(release: (done: (error?: Error) => void) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    release((error) => {
      if (error) reject(error);
      else resolve();
    });
  });
}

// Runs what a hold guards, and releases the hold whatever happens.

/** Rejects with the error of `fn` if it fails; with the loss of the lock only if `fn` succeeded. */
export async function whileHeld<Held extends OwnHold, T>(
  acquiring: Promise<Held>,
  fn: (hold: Held) => T | Promise<T>,
): Promise<T> {
  const hold = await acquiring;
  let result: T;
  try {
    result = await fn(hold);
  } catch (error) {
    await hold.releaseQuietly().catch(() => undefined); // that it was lost is told by its signal and the event
    throw error;
  }
  await hold.releaseQuietly();
  return result;
}

// The holders that an acquisition may re-enter. Scopes know holders of anything that is `Held`; all that there are have a `Grant`,
// since the core makes them.

export type GrantHolder = Holder<Grant>;

/**
 * The holder that an acquisition in `position` re-enters: `own` is one of the acting scope, whose hold count goes up; `outer` is
 * another one around the caller, whose child the acquisition becomes.
 */
export function holderToReenter(
  position: Scope | undefined,
  acting: Scope | undefined,
  lockId: string,
): { readonly own?: GrantHolder | undefined; readonly outer?: GrantHolder | undefined } {
  const own = acting?.holders(lockId) ?? [];
  const around = own.length > 0 ? holdersAround(position, lockId) : [];
  const last = around.findLast((holder) => own.includes(holder));
  return last ? { own: ofGrant(last) } : { outer: ofGrant(nearestHolder(position, lockId)) };
}

/** Throws if the request cannot re-enter this holder: it was lost, or it is shared or has no token, but the request needs more. */
export function assertEnterable(
  { grant, isShared }: GrantHolder,
  lock: AcquirableLock,
  request: CallersRequest,
): void {
  if (grant.loss) throw grant.loss;
  if (isShared && !request.isShared) throw upgradeRefused(lock.name);
  if (lock.isFenced && grant.token === undefined) throw heldWithoutToken(lock.name);
}

function ofGrant(holder: Holder | undefined): GrantHolder | undefined {
  return holder && isOfGrant(holder) ? holder : undefined;
}

function isOfGrant(holder: Holder): holder is GrantHolder {
  return holder.grant instanceof Grant;
}
