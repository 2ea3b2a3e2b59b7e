// One acquisition that takes more than one command, from the call to the hold: look outwards for a holder to re-enter, else try on
// the server, else wait in line; and after every wait look again, since whoever was in the way may have gone.

import type { SeenHolder } from '../api/errors.js';
import { pauseIfLong } from '../runtime/loop-turns.js';
import { WaitLimit, WaitEnded, type Ending } from '../runtime/wait-limit.js';
import { Holder } from '../scopes/holder.js';
import { actingScope, nearestHolder, type Scope } from '../scopes/scope.js';
import type { AcquirableLock } from './backend.js';
import { beginHold } from './begin-hold.js';
import { isCallersLimit, isKnown, limitMs, endedWait, youngSinceMs } from './ended-wait.js';
import { Grant } from './grant.js';
import { assertEnterable, holderToReenter, type GrantHolder } from './grant-holders.js';
import { anonymousLockId, lockCallBegins } from './lock-calls.js';
import { aborted, heldElsewhere } from './refusals.js';
import type { CallersRequest } from './request.js';
import type { Session } from './session.js';
import { SingleHold } from './single-hold.js';
import { Tries, type BegunTry } from './tries.js';
import { noticeWaiting } from './waiting-notice.js';

/** What one attempt came to: the hold; somebody else has the lock; or what was seen around the caller may have changed. */
type Attempt = SingleHold | 'held' | 'look again';

export class Acquisition {
  readonly #session: Session;
  readonly #lock: AcquirableLock;
  readonly #request: CallersRequest;
  readonly #waitLimit: WaitLimit;
  readonly #tries: Tries;
  #endWaiting: (() => void) | undefined;
  #isReentering = false;

  /** `begun`: the first try, if that was sent already, whether or not it has been answered. */
  constructor(
    session: Session,
    lock: AcquirableLock,
    request: CallersRequest,
    newOwnerId: () => string = lock.newOwnerId,
    begun?: BegunTry,
  ) {
    this.#session = session;
    this.#lock = lock;
    this.#request = request;
    if (!begun) session.assertOpen(lock.name);
    if (request.signal?.aborted) throw aborted(lock.name, 'nothing was sent', request.signal);
    this.#waitLimit = new WaitLimit({
      clock: session.clock,
      limitMs: limitMs(session, request),
      isSingleAttempt: request.waitMs === 0,
      sparesAttempts: isCallersLimit(session, request),
      signal: request.signal,
      anonymousLockId: anonymousLockId(request.origin, lock.id, request.position),
      registry: session.acquisitions,
    });
    this.#tries = new Tries(session, lock, request, this.#waitLimit, newOwnerId, begun);
  }

  /**
   * @throws LockTimeoutError somebody else had the lock until the wait ran out
   * @throws LockAbortedError, ClosedError, LockLostError, UnavailableError, KeyConflictError
   */
  async hold(): Promise<SingleHold> {
    let isAcquired = false;
    let failure: unknown;
    const { origin, leaseMs, position } = this.#request;
    const endCall = lockCallBegins(this.#session, this.#lock, origin, leaseMs, position);
    try {
      for (;;) {
        const attempt = await this.#attempt();
        if (attempt instanceof SingleHold) {
          isAcquired = true;
          return attempt;
        }
        const { woken } = this.#tries;
        if (woken && attempt === 'held') await this.#waitLimit.sleep(woken);
      }
    } catch (error) {
      failure = this.#explain(error);
    } finally {
      endCall?.();
      this.#endWaiting?.();
      this.#tries.leave(isAcquired);
      this.#waitLimit.dispose();
    }
    await pauseIfLong(); // Redis need not have been asked
    throw failure;
  }

  end(ending: Ending): void {
    this.#waitLimit.end(ending);
  }

  /** Not async itself: an uncontended acquire awaits no more than it must. */
  #attempt(): Attempt | Promise<Attempt> {
    this.#isReentering = false;
    const acting = this.#actingScope;
    const { own, outer } = holderToReenter(this.#request.position, acting, this.#lock.id);
    const around = own ?? outer;
    if (around) assertEnterable(around, this.#lock, this.#request);
    if (own) return this.#countUp(own);
    if (outer) return this.#enterBelow(outer, acting);
    if (this.#tries.isBehind) return 'held';
    return acting && acting !== this.#request.ownScope
      ? this.#inTurnOf(acting)
      : this.#acquireAnew();
  }

  /** The acting scope holds the lock already: one hold more of the same grant. */
  async #countUp(holder: GrantHolder): Promise<Attempt> {
    const begin = (): SingleHold | undefined => (holder.hasEnded ? undefined : this.#begin(holder));
    return (await this.#reenter(holder.grant, begin)) ?? 'look again';
  }

  /** A scope around the acting one holds the lock: the acquisition becomes a child of that holder, one child at a time unless all read. */
  async #enterBelow(outer: GrantHolder, acting: Scope | undefined): Promise<Attempt> {
    const { grant, turns } = outer;
    const { isShared } = this.#request;
    if (!turns.tryTake(isShared)) {
      // If another call of the same scope is just entering, this one counts up as soon as that has entered.
      const isElsewhere = !acting || outer.entering !== acting;
      if (this.#request.waitMs === 0 && isElsewhere) throw heldElsewhere(this.#lock, 0, grant.seen);
      this.#beginWaiting(grant.seen);
      // The call leaves its line: a wake-up there is for somebody who can try now.
      this.#tries.leave();
      if (!(await turns.take(this.#waitLimit, isShared))) return 'look again';
    }
    outer.entering = acting;
    let hold: SingleHold | undefined;
    try {
      // That holder may have given the lock up while we waited for the turn, or only read now.
      if (nearestHolder(this.#request.position, this.#lock.id) !== outer) return 'look again';
      if (outer.isShared && !isShared) return 'look again';
      hold = await this.#reenter(grant, () => this.#begin(this.#holder(grant, outer)));
      return hold ?? 'look again';
    } finally {
      if (outer.entering === acting) outer.entering = undefined;
      if (!hold) turns.pass();
    }
  }

  #reenter(grant: Grant, begin: () => SingleHold | undefined): Promise<SingleHold | undefined> {
    const { leaseMs, isShared } = this.#request;
    this.#isReentering = true;
    return grant.reenter(leaseMs, this.#waitLimit, begin, isShared);
  }

  /** Two calls of one scope are one owner: the second must find what the first acquires. */
  async #inTurnOf(acting: Scope): Promise<Attempt> {
    const turns = acting.attempts(this.#lock.id);
    if (!(await turns.take(this.#waitLimit, false, true))) return 'look again';
    try {
      const isHeldNow = nearestHolder(this.#request.position, this.#lock.id) !== undefined;
      return isHeldNow ? 'look again' : await this.#acquireAnew();
    } finally {
      turns.pass();
    }
  }

  /** Nobody around the caller holds the lock: a new grant is needed. (One that was handed over is taken at once: nothing is awaited.) */
  #acquireAnew(): Attempt | Promise<Attempt> {
    const grant = this.#tries.claim();
    return grant ? this.#begin(this.#holder(grant)) : this.#try();
  }

  async #try(): Promise<Attempt> {
    const result = await this.#tries.try();
    if (result instanceof Grant) return this.#begin(this.#holder(result));
    if (!result) return 'look again'; // the lock was granted, but the answer took longer than the lease
    // A scope around the caller may have got the lock while the server was asked.
    return nearestHolder(this.#request.position, this.#lock.id) ? 'look again' : this.#held(result);
  }

  #held(seen: SeenHolder): Attempt {
    const { waitMs } = this.#request;
    if (waitMs === 0 || this.#waitLimit.isOverdue) throw heldElsewhere(this.#lock, waitMs, seen);
    this.#beginWaiting(seen);
    return 'held';
  }

  #beginWaiting(seen: SeenHolder): void {
    if (this.#endWaiting) return;
    this.#waitLimit.lookBeforeEnd(() => {
      if (isKnown(this.#waitLimit, this.#tries.findings)) return true;
      this.#tries.look(youngSinceMs(this.#waitLimit));
      return false;
    });
    this.#endWaiting = noticeWaiting(this.#session, this.#lock, this.#request, this.#waitLimit, {
      lockName: this.#lock.name,
      ownerId: this.#tries.ownerId ?? seen.holder,
      holder: seen.holder,
      holderTtlMs: seen.holderTtlMs,
    });
  }

  /** The scope that the call acts for; undefined: an anonymous caller. Looked up when needed: a run may have ended meanwhile. */
  get #actingScope(): Scope | undefined {
    return this.#request.ownScope ?? actingScope(this.#request.position);
  }

  #holder(grant: Grant, parent?: GrantHolder): GrantHolder {
    return new Holder(grant, parent, this.#actingScope, this.#request.isShared);
  }

  #begin(holder: GrantHolder): SingleHold {
    return beginHold(this.#session, holder, this.#request);
  }

  #explain(error: unknown): unknown {
    if (!(error instanceof WaitEnded)) return error;
    return endedWait(error, {
      session: this.#session,
      lock: this.#lock,
      request: this.#request,
      waitLimit: this.#waitLimit,
      findings: this.#tries.findings,
      isTooLate: this.#tries.isTooLate,
      isReentering: this.#isReentering,
    });
  }
}
