// One acquisition, from the call to the hold: look outwards for a holder to re-enter, else try on the server, else
// wait in line; and after every wait look again, since whoever was in the way may have gone.

import type { LockBackend } from './backend.js';
import { beginHold } from './begin-hold.js';
import { Candidacy, type BegunTry } from './candidacy.js';
import type { Session } from './session.js';
import type { SeenHolder } from '../api/errors.js';
import type { HoldOrigin } from '../api/hold.js';
import { holderToReenter, type GrantHolder } from './grant-holders.js';
import { Holder } from '../scopes/holder.js';
import { anonymousLockId, lockCallBegins } from './lock-calls.js';
import type { LockRequest } from './lock-request.js';
import { isKnown, limitMs, endedWait, youngSinceMs } from './ended-wait.js';
import { Grant } from './grant.js';
import { SingleHold } from './single-hold.js';
import { actingScope, currentScope, nearestHolder, type Scope } from '../scopes/scope.js';
import { aborted, heldElsewhere } from './refusals.js';
import { noticeWaiting } from './waiting-notice.js';
import { WaitLimit, WaitEnded, type Ending } from '../runtime/wait-limit.js';

/** One whose first try is on its way already, or was, and from where it was called. */
export interface BegunAcquisition extends BegunTry {
  readonly position: Scope | undefined;
}

/** What an attempt came to. */
type Attempt = SingleHold | 'held' | 'look again';

export class Acquisition {
  readonly #session: Session;
  readonly #lock: LockBackend;
  readonly #request: LockRequest;
  readonly #origin: HoldOrigin;
  readonly #leaseMs: number;
  readonly #position: Scope | undefined;
  /** The scope of the `withLock` that acquires; undefined: the innermost run at the time is the one. */
  readonly #ownScope: Scope | undefined;
  readonly #waitLimit: WaitLimit;
  readonly #candidacy: Candidacy;
  #endWaiting: (() => void) | undefined;

  constructor(
    session: Session,
    lock: LockBackend,
    request: LockRequest,
    origin: HoldOrigin,
    ownScope?: Scope,
    newOwnerId: () => string = lock.newOwnerId,
    begun?: BegunAcquisition,
  ) {
    this.#session = session;
    this.#lock = lock;
    this.#request = request;
    this.#origin = origin;
    this.#ownScope = ownScope;
    this.#leaseMs = request.leaseMs ?? session.lockWatchdogTimeoutMs;
    this.#position = begun ? begun.position : currentScope();
    if (!begun) session.assertOpen(lock.name);
    if (request.signal?.aborted) throw aborted(lock.name, 'nothing was sent', request.signal);
    this.#waitLimit = new WaitLimit({
      limitMs: limitMs(session, request),
      isSingleAttempt: request.waitMs === 0,
      signal: request.signal,
      anonymousLockId: anonymousLockId(origin, lock.id, this.#position),
      registry: session.acquisitions,
    });
    const wanted = {
      leaseMs: this.#leaseMs,
      isWatched: this.#isWatched,
      mayWait: request.waitMs > 0,
      limit: this.#waitLimit,
      seniority: request.seniority,
    };
    this.#candidacy = new Candidacy(session, lock, wanted, this.#waitLimit, newOwnerId, begun);
  }

  /**
   * @throws LockTimeoutError somebody else had it until the wait ran out
   * @throws LockAbortedError, ClosedError, LockLostError, UnavailableError, KeyConflictError
   */
  async hold(): Promise<SingleHold> {
    let isAcquired = false;
    const endCall = lockCallBegins(
      this.#session,
      this.#lock,
      this.#origin,
      this.#request.leaseMs,
      this.#position,
    );
    try {
      for (;;) {
        const attempt = await this.#attempt();
        if (attempt instanceof SingleHold) {
          isAcquired = true;
          return attempt;
        }
        const { woken } = this.#candidacy;
        if (woken && attempt === 'held') await this.#waitLimit.sleep(woken);
      }
    } catch (error) {
      throw this.#explain(error);
    } finally {
      endCall?.();
      this.#endWaiting?.();
      this.#candidacy.leave(isAcquired ? this.#leaseMs : undefined);
      this.#waitLimit.dispose();
    }
  }

  end(ending: Ending): void {
    this.#waitLimit.end(ending);
  }

  /** Not async itself: an uncontended acquire awaits no more than it must. */
  #attempt(): Attempt | Promise<Attempt> {
    const acting = this.#actingScope;
    const { own, outer } = holderToReenter(this.#position, acting, this.#lock.id);
    const loss = (own ?? outer)?.grant.loss;
    if (loss) throw loss;
    if (own) return this.#countUp(own);
    if (outer) return this.#enterBelow(outer, acting);
    if (this.#candidacy.isBehind) return 'held';
    return acting && acting !== this.#ownScope ? this.#inTurnOf(acting) : this.#acquireAnew();
  }

  /** The acting scope holds it already. */
  async #countUp(holder: GrantHolder): Promise<Attempt> {
    const begin = (): SingleHold | undefined => (holder.hasEnded ? undefined : this.#begin(holder));
    return (await holder.grant.reenter(this.#leaseMs, this.#waitLimit, begin)) ?? 'look again';
  }

  /** An ancestor holds it: one child of it at a time. */
  async #enterBelow(outer: GrantHolder, acting: Scope | undefined): Promise<Attempt> {
    const { grant, turns } = outer;
    if (!turns.tryTake()) {
      const seen = {
        holder: grant.ownerId,
        holderTtlMs: Math.round(grant.remaining()),
      };
      // Another call of the same scope that is just entering does so for this one, too.
      const isElsewhere = !acting || outer.entering !== acting;
      if (this.#request.waitMs === 0 && isElsewhere) throw heldElsewhere(this.#lock.name, 0, seen);
      this.#beginWaiting(seen);
      // A wake-up is for somebody who can try now.
      this.#candidacy.leave();
      if (!(await turns.take(this.#waitLimit))) return 'look again';
    }
    outer.entering = acting;
    let hold: SingleHold | undefined;
    try {
      // The ancestor may have gone while we waited.
      if (nearestHolder(this.#position, this.#lock.id) !== outer) return 'look again';
      const begin = (): SingleHold => this.#begin(new Holder(grant, outer, this.#actingScope));
      hold = await grant.reenter(this.#leaseMs, this.#waitLimit, begin);
      return hold ?? 'look again';
    } finally {
      outer.entering = undefined;
      if (!hold) turns.pass();
    }
  }

  /** Two calls of one scope are one owner: the second must find what the first acquires. */
  async #inTurnOf(acting: Scope): Promise<Attempt> {
    const turns = acting.attempts(this.#lock.id);
    if (!(await turns.take(this.#waitLimit))) return 'look again';
    try {
      const isHeldNow = nearestHolder(this.#position, this.#lock.id) !== undefined;
      return isHeldNow ? 'look again' : await this.#acquireAnew();
    } finally {
      turns.pass();
    }
  }

  /** Nobody around holds it: a new owner on the server. (What was handed over is taken at once: nothing is awaited.) */
  #acquireAnew(): Attempt | Promise<Attempt> {
    const grant = this.#candidacy.claim();
    return grant ? this.#begin(new Holder(grant, undefined, this.#actingScope)) : this.#try();
  }

  async #try(): Promise<Attempt> {
    const result = await this.#candidacy.try();
    if (result instanceof Grant)
      return this.#begin(new Holder(result, undefined, this.#actingScope));
    if (!result) return this.#tooLate();
    // A scope around may have got it while we were asking.
    return nearestHolder(this.#position, this.#lock.id) ? 'look again' : this.#held(result);
  }

  #held(seen: SeenHolder): Attempt {
    if (this.#request.waitMs === 0) throw heldElsewhere(this.#lock.name, 0, seen);
    this.#beginWaiting(seen);
    return 'held';
  }

  /** The answer took longer than the lease. */
  #tooLate(): Attempt {
    if (this.#request.waitMs > 0) return 'look again';
    throw this.#session.unavailable(
      this.#lock.name,
      `not acquired: Redis took longer to answer than the lease of ${String(this.#leaseMs)} ms`,
    );
  }

  #beginWaiting(seen: SeenHolder): void {
    if (this.#endWaiting) return;
    this.#waitLimit.lookBeforeEnd(() => {
      if (isKnown(this.#waitLimit, this.#candidacy.findings)) return;
      this.#candidacy.look(youngSinceMs(this.#waitLimit));
    });
    this.#endWaiting = noticeWaiting(this.#session, this.#lock, this.#position, this.#waitLimit, {
      lockName: this.#lock.name,
      ownerId: this.#candidacy.ownerId ?? seen.holder,
      holder: seen.holder,
      holderTtlMs: seen.holderTtlMs,
    });
  }

  get #isWatched(): boolean {
    return this.#request.leaseMs === undefined;
  }

  /** undefined: an anonymous caller. Looked up when needed: a run may have ended meanwhile. */
  get #actingScope(): Scope | undefined {
    return this.#ownScope ?? actingScope(this.#position);
  }

  #begin(holder: GrantHolder): SingleHold {
    return beginHold(this.#session, holder, this.#origin, this.#request);
  }

  #explain(error: unknown): unknown {
    if (!(error instanceof WaitEnded)) return error;
    return endedWait(error, {
      session: this.#session,
      lock: this.#lock,
      request: this.#request,
      waitLimit: this.#waitLimit,
      findings: this.#candidacy.findings,
    });
  }
}
