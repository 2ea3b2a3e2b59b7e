// A hold of one lock, on one server or on a quorum of servers.

import { inspect, type InspectOptions } from 'node:util';
import { type HoldDescription, inspected, shownToken } from '../api/description.js';
import { isUnanswered, LockExportedError, LockLostError } from '../api/errors.js';
import type { Session } from './session.js';
import type { AcquirableLock, CallersRequest, HoldOrigin, HoldTerms, OwnHold } from './protocol.js';
import { type ExportOptions, parseLease, parseOptions } from '../api/options.js';
import { Grant } from './grant.js';
import type { HoldMessage, Via } from '../api/channels.js';
import type { HeldLock } from '../api/description.js';
import { areHoldsHeard, holdBegins, holdEnds } from './telemetry.js';
import { lateWorkOf } from './late-work.js';
import {
  heldWithoutToken,
  notExportable,
  releasedAlready,
  resolvedToLateWork,
  upgradeRefused,
  usedLateMessage,
} from './messages.js';
import { exportedText, whereIs } from './adoption.js';
import { warnOfShortTime } from './misuse.js';
import { explainWrongCalls, KINDS } from './wrong-calls.js';
import { inTurn } from '../runtime/node.js';
import { currentScope, type Holder, holdersAround, nearestHolder, Scope } from '../scopes/scope.js';

/** What `extend()` is given, in words. */
export const EXTENSION = 'the lease of extend()';

export class SingleHold implements OwnHold {
  static {
    explainWrongCalls(SingleHold, KINDS.hold);
  }

  readonly #session: Session;
  readonly #holder: GrantHolder;
  #origin: HoldOrigin;
  readonly isShared: boolean;
  isWatched: boolean;
  readonly atLeastMs: number;
  #aborter: AbortController | undefined;
  #loss: LockLostError | undefined;
  #exported: LockExportedError | undefined;
  #release: Promise<void> | undefined;
  #isGivenUp = false;
  #hasFunctionEnded = false;
  /** Whether it was lost while its owner keeps the lock: its own `unlock()`, still to come, must find it and not undo another hold. */
  isLostBeforeUnlock = false;
  #onEnd: (() => void) | undefined;
  readonly label: string | undefined;
  /** When it began, on the monotonic clock. */
  readonly #sinceMs: number;
  #holdId: string | undefined;
  /** What the subscribers of `holdfast:hold` got; undefined: there were none, or its end was told. */
  #message: HoldMessage | undefined;

  constructor(
    session: Session,
    holder: GrantHolder,
    { origin, isShared, isWatched, atLeastMs, label }: HoldTerms,
  ) {
    this.#session = session;
    this.label = label;
    this.#sinceMs = session.clock.nowMs();
    this.#holder = holder;
    this.isShared = isShared;
    this.isWatched = isWatched;
    this.atLeastMs = atLeastMs;
    this.#origin = origin;
    holder.add(this);
    holder.grant.add(this);
    session.holdWatch?.began(this);
  }

  get lockName(): string {
    return this.#grant.lock.name;
  }

  get ownerId(): string {
    return this.#grant.ownerId;
  }

  /** Identifies the hold in its events. Built when it is first asked for. */
  get holdId(): string {
    return (this.#holdId ??= this.#session.newEventId());
  }

  get members(): readonly [this] {
    return [this];
  }

  get watched(): this {
    return this;
  }

  get token(): bigint | undefined {
    return this.#grant.token;
  }

  /** How long its owner has held the lock, in milliseconds. */
  get heldForMs(): number {
    return this.#grant.heldForMs;
  }

  get provenAt(): Date {
    return new Date(this.#grant.confirmedAt.wallMs);
  }

  get signal(): AbortSignal {
    this.#noticeLateUse();
    this.#grant.checkDeadline();
    if (!this.#aborter) {
      this.#aborter = new AbortController();
      const reason = this.#loss ?? this.#exported;
      if (reason) this.#aborter.abort(reason);
    }
    return this.#aborter.signal;
  }

  remaining(): number {
    this.#noticeLateUse();
    return this.#remainingMs;
  }

  get #remainingMs(): number {
    return this.#isGivenUp ? 0 : this.#grant.remaining();
  }

  assertHeld(): void {
    const refusal = this.#refusal('rely on');
    if (refusal) throw refusal;
  }

  async extend(lease: number): Promise<void> {
    const leaseMs = parseLease(lease, 'lease', this.lockName);
    warnOfShortTime(this.#session, this.#grant.lock, EXTENSION, leaseMs);
    await this.extendBy(leaseMs);
  }

  /** As `extend()`, for a lease that was parsed. */
  async extendBy(leaseMs: number): Promise<void> {
    const refusal = this.#refusal('extend');
    if (refusal) throw await inTurn(refusal);
    if (!(await this.#grant.extend(leaseMs))) throw releasedAlready(this.lockName, 'extend');
  }

  async export(options: ExportOptions = {}): Promise<string> {
    const { lockName, ownerId } = this;
    const { lease } = parseOptions('the options of export()', options, ['lease'], lockName);
    const { lock } = this.#grant;
    const { transfer, kind } = lock;
    const leaseMs =
      lease === undefined
        ? this.#session.lockWatchdogTimeoutMs
        : parseLease(lease, 'lease', lockName);
    if (lease !== undefined) warnOfShortTime(this.#session, lock, 'the lease of export()', leaseMs);
    if (!transfer) throw notExportable(lockName, `it is one of a ${kind}`);
    const where = await whereIs(this.#session, lockName, transfer);
    const refusal = this.#refusal('export');
    if (refusal) throw await inTurn(refusal);
    const isAlone = this.#grant.holdCount === 1;
    const isExported =
      isAlone &&
      (await this.#grant.export(leaseMs, () => {
        this.#passOn();
      }));
    if (!isExported)
      throw (
        this.#refusal('export') ??
        notExportable(
          lockName,
          'its owner has other holds of the lock, which must be released first',
        )
      );
    const { restMs, isShared } = this.#grant;
    const isDowngraded = isShared && !lock.isShared; // a write lock whose holds only read by now
    return exportedText({
      kind: isDowngraded ? 'ReadLock' : kind,
      name: lockName,
      ownerId,
      restMs,
      ...where,
      ...transfer.terms,
    });
  }

  /** From now on this client does nothing with the lock. */
  #passOn(): void {
    const { lockName } = this;
    const message = `lock "${lockName}" was exported: another process may have it now`;
    this.#exported = new LockExportedError(message, { lockName });
    this.#isGivenUp = true;
    this.#release = Promise.resolve();
    this.#aborter?.abort(this.#exported);
    this.#emitReleased(0);
    this.#tellEnd();
    this.#leave();
    this.#holder.wakeWaiters();
  }

  release(): Promise<void> {
    return (this.#release ??= this.#giveUp());
  }

  async run<T>(fn: () => T | Promise<T>): Promise<T> {
    const scope = new Scope(currentScope(), false);
    this.enterInto(scope);
    return await scope.run(fn);
  }

  /** Makes this hold the nearest holder of its lock in this scope. */
  enterInto(scope: Scope): void {
    const refusal = this.#refusal('run within');
    if (refusal) throw refusal;
    scope.enter(this.#grant.lock.id, this.#holder);
  }

  /** Tells the subscribers of `holdfast:hold` that it has begun. */
  tell(via: Via): void {
    if (!areHoldsHeard()) return;
    const [session, { lock }, label] = [this.#session, this.#grant, this.label];
    this.#message = holdBegins(session, { lockName: lock.name, kind: lock.kind, label }, via, this);
  }

  #tellEnd(loss?: LockLostError): void {
    this.#session.holdWatch?.ended(this);
    const message = this.#message;
    this.#message = undefined;
    if (message) holdEnds(message, this.#session.clock.nowMs() - this.#sinceMs, loss);
  }

  runInside<T>(fn: () => T): T {
    const runInside = this.#message?.runInside;
    return runInside ? runInside(fn) : fn();
  }

  functionEnded(): void {
    this.#hasFunctionEnded = true;
  }

  /** A lost or exported hold tells that by itself. */
  #noticeLateUse(): void {
    if (this.#hasFunctionEnded && !this.#loss && !this.#exported)
      warnOfLateUse(this.#session, this.lockName);
  }

  /** As `holdfast.held()` shows it. */
  get described(): HeldLock {
    const { lockName, ownerId, holdId, isWatched, token } = this;
    const { clock } = this.#session;
    const { label } = this;
    return {
      lockName,
      kind: this.#grant.lock.kind,
      ownerId,
      holdId,
      since: new Date(clock.wallMs() - (clock.nowMs() - this.#sinceMs)),
      remainingMs: Math.round(this.#remainingMs),
      watched: isWatched,
      ...(label === undefined ? {} : { label }),
      ...shownToken(token),
    };
  }

  toJSON(): HoldDescription {
    const loss = this.#loss ?? (this.#isGivenUp ? undefined : this.#grant.loss);
    const state = loss ? 'lost' : this.#isGivenUp ? 'released' : 'held';
    const { lockName, ownerId, token } = this;
    const remainingMs = Math.round(this.#remainingMs);
    return { lockName, state, ownerId, remainingMs, ...shownToken(token) };
  }

  /** For `util.inspect` and `console.log`. @internal */
  [inspect.custom](depth: number, options: InspectOptions): string {
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

  /** Makes it a member of a MultiLock of `client`, acquired by a call of kind `origin`. When that client closes, it revokes this hold. */
  becomeMember(client: Session, origin: HoldOrigin, atLeastMs: number): void {
    this.#origin = origin;
    this.#grant.staysTaken(atLeastMs);
    if (client === this.#session) return;
    client.memberHolds.add(this);
    this.#onEnd = () => client.memberHolds.delete(this);
  }

  get lastsForMs(): number {
    return this.isWatched ? Infinity : this.#remainingMs;
  }

  /** Stops renewals for this hold; another hold of the same owner may still want them. */
  stopRenewing(): void {
    this.isWatched = false;
  }

  /** Takes the hold from its caller: its run has ended, or the client of the MultiLock that it is a member of is closing. */
  async revoke(error: LockLostError): Promise<void> {
    if (this.#isGivenUp) {
      await this.releaseQuietly(); // its release is under way: nothing is taken from its caller
      return;
    }
    // A later unlock() for this hold must report the loss.
    if (!this.#holder.scope) this.#session.anonymous.lost(this.#grant.lock.id, this, error);
    const released = this.releaseQuietly();
    this.lost(error);
    await released;
  }

  /** The MultiLock that it is a member of was lost. Other holds of the same owner stay held. */
  async loseAsMember(error: LockLostError): Promise<void> {
    if (this.#grant.loss || this.#loss || this.#isGivenUp) return; // it was lost itself, perhaps just now, or already given up
    if (!this.#holder.parent && this.#grant.holdCount <= 1) {
      this.#grant.loseAsMember(error);
      this.#emitReleased(0);
      return;
    }
    this.isLostBeforeUnlock = true;
    const released = whenSettled((done) => {
      this.#grant.release(this, false, (failure) => {
        if (!failure) this.#emitReleased();
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
    this.#tellEnd(error);
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
    if (!error && this.#session.events.hears('released')) this.#emitReleased();
    if (isUnanswered(error)) this.#release = undefined;
    if (error instanceof LockLostError) this.lost(error); // detected by this release
    this.#tellEnd();
    this.#leave();
  }

  #leave(): void {
    this.#onEnd?.();
    this.#holder.remove(this);
    if (!this.#holder.scope) this.#session.anonymous.delete(this.#grant.lock.id, this);
  }

  #emitReleased(holdCount = this.#grant.holdCount): void {
    const { ownerId, lock, heldForMs, token } = this.#grant;
    this.#session.events.emit('released', () => ({
      lockName: lock.name,
      ownerId,
      holdId: this.holdId,
      holdCount,
      heldForMs: Math.round(heldForMs),
      ...shownToken(token),
    }));
  }

  /** Why it is no longer usable; undefined: it is held. */
  #refusal(what: string): Error | undefined {
    this.#noticeLateUse();
    return (
      this.#loss ??
      (this.#isGivenUp
        ? releasedAlready(this.lockName, what, this.#exported ? 'exported' : 'released')
        : this.#grant.loss)
    );
  }
}

// Emits `error` if a release fails that no caller waits for.

/** Awaits a release. If Redis did not answer, emits an `error` event instead of rejecting. */
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

/** Turns a release with a callback into a promise. */
function whenSettled(release: (done: (error?: Error) => void) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    release((error) => {
      if (error) reject(error);
      else resolve();
    });
  });
}

// Runs the guarded function, and releases the hold in any case.

/**
 * Rejects with the error of `fn` if it fails, and with the loss of the lock only if `fn` succeeded. What `fn` resolved to is looked at after
 * the `await`: a query that can be awaited may also be a stream.
 *
 * @param call - the method that got `fn`, for errors
 */
export async function whileHeld<Held extends OwnHold, T>(
  call: string,
  acquiring: Promise<Held>,
  fn: (hold: Held) => T | Promise<T>,
): Promise<T> {
  const hold = await acquiring;
  let result: T;
  try {
    result = await fn(hold);
    const late = lateWorkOf(result);
    if (late) {
      late.end();
      throw resolvedToLateWork(hold.lockName, hold.watched.label, call, late.what);
    }
  } catch (error) {
    hold.functionEnded();
    await hold.releaseQuietly().catch(() => undefined); // a loss is reported by the signal and the event
    throw error;
  }
  hold.functionEnded();
  await hold.releaseQuietly();
  return result;
}

export function warnOfLateUse({ warnings }: Pick<Session, 'warnings'>, lockName: string): void {
  warnings.warnOnce('late use', lockName, usedLateMessage(lockName));
}

// The holders that an acquisition may re-enter. Scopes accept holders of anything `Held`; in fact each has a `Grant`, since the core makes
// them.

export type GrantHolder = Holder<Grant>;

/**
 * The holder that an acquisition in `position` re-enters. `own`: a holder of the acting scope, to which the acquisition adds a hold;
 * `outer`: another holder around the caller, of which the new holder becomes a child.
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

/** Throws if the request cannot re-enter this holder: it was lost, it only reads but the request writes, or it lacks a token. */
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
