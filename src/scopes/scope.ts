// Who is calling, in a runtime without threads, and what they re-enter.
//
// `holdfast.run` and `withLock` each open a scope; scopes form a tree that follows the asynchronous calls. A call acts for the innermost run
// around it, or for the scope that its own `withLock` opens. Outside any run it is anonymous (`anonymous.ts`).
//
// Who holds a lock is a holder: a scope, or an anonymous caller. An acquisition looks outwards, from scope to scope, for a holder that the
// caller is inside of:
// - The acting scope holds the lock itself: the call is one hold more of the same holder.
// - Another scope around it holds the lock: the call becomes a child of the nearest such holder. So holders are a tree over one grant. The
//   children of one holder take turns, unless all of them only read: parallel branches never overlap.
// - Nobody around it holds the lock: the call needs a grant of its own.
//
// A holder has ended when all its holds were given up. A lost one has not: whoever re-enters it must learn of the loss.

import { AsyncLocalStorage } from 'node:async_hooks';
import type { WaitLimit } from '../runtime/wait-limit.js';
import { type HoldInScope, type ScopedLock, withoutMarks } from './anonymous.js';
import { LocalMutex } from './local-mutex.js';

/** `run` only, never `enterWith`: a scope must not leak into code that follows the call that opened it. */
const storage = new AsyncLocalStorage<Scope | undefined>();

export class Scope {
  readonly parent: Scope | undefined;
  /** Whether `holdfast.run` opened it: then `lock()` inside acts for it. */
  readonly #isRun: boolean;
  #hasEnded = false;
  readonly #holders = new Map<string, Holder[]>();
  readonly #attempts = new Map<string, LocalMutex>();
  #lockCalls: Map<string, number> | undefined;
  readonly #waiters = new Map<string, Set<WaitLimit>>();

  constructor(parent: Scope | undefined, isRun: boolean) {
    this.parent = parent;
    this.#isRun = isRun;
  }

  /** A run that has ended owns nothing: what its left-over timers and callbacks acquire is not its own. */
  get isActing(): boolean {
    return this.#isRun && !this.#hasEnded;
  }

  run<T>(fn: () => T): T {
    return this.#isRun ? withoutMarks(() => storage.run(this, fn)) : storage.run(this, fn);
  }

  /** This scope holds a lock now: who waits for it inside may re-enter instead. */
  enter(id: string, holder: Holder): void {
    this.#holders.set(id, [...this.holders(id), holder]);
    this.wake(id);
  }

  /** Who waits inside for this lock may be able to re-enter now. */
  wake(id: string): void {
    for (const waiter of this.#waiters.get(id) ?? []) waiter.lookAgain();
  }

  leave(id: string, holder: Holder): void {
    const rest = this.holders(id).filter((other) => other !== holder);
    if (rest.length > 0) this.#holders.set(id, rest);
    else this.#holders.delete(id);
  }

  holders(id: string): readonly Holder[] {
    return this.#holders.get(id) ?? [];
  }

  /** The attempts of one scope at one lock go one after another: it is one owner. */
  attempts(id: string): LocalMutex {
    const known = this.#attempts.get(id);
    if (known) return known;
    const turns = new LocalMutex(() => {
      if (!turns.isTaken) this.#attempts.delete(id);
    });
    this.#attempts.set(id, turns);
    return turns;
  }

  /** How many `lock()` and `tryLock()` calls that act for it are under way, by lock. */
  get lockCalls(): Map<string, number> {
    return (this.#lockCalls ??= new Map());
  }

  /** Tells a waiter when this scope gets the lock; returns how to stop that. */
  onEnter(id: string, waiter: WaitLimit): () => void {
    const waiters = this.#waiters.get(id) ?? new Set();
    this.#waiters.set(id, waiters.add(waiter));
    return () => {
      waiters.delete(waiter);
      if (waiters.size === 0 && this.#waiters.get(id) === waiters) this.#waiters.delete(id);
    };
  }

  /** Ends the scope; returns the holds that are still its own. */
  end(): HoldInScope[] {
    this.#hasEnded = true;
    return [...this.#holders.values()].flat().flatMap((holder) => [...holder.holds]);
  }
}

/** The innermost scope of the code that runs now. */
export function currentScope(): Scope | undefined {
  return storage.getStore();
}

/** Runs `fn` outside all scopes, and without the marks of `lock()` and `tryLock()` calls around it. */
export function outsideScopes<T>(fn: () => T): T {
  // The first `run` of a process makes all of its promises dearer (on Node 20 and 22): none without need.
  return withoutMarks(() => (storage.getStore() === undefined ? fn() : storage.run(undefined, fn)));
}

/** The scopes from `scope` outwards. */
export function* outwards(scope: Scope | undefined): Generator<Scope> {
  for (let next = scope; next; next = next.parent) yield next;
}

/** The scope that `lock()` and `unlock()` act for: the innermost `run`; undefined: an anonymous caller. */
export function actingScope(scope: Scope | undefined): Scope | undefined {
  for (const outer of outwards(scope)) if (outer.isActing) return outer;
  return undefined;
}

/** The holders of a lock that code in `scope` is inside of, nearest first. */
export function holdersAround(scope: Scope | undefined, id: string): Holder[] {
  if (!scope) return [];
  const holders = [...outwards(scope)]
    .flatMap((outer) => outer.holders(id))
    .filter((holder) => !holder.hasEnded);
  return holders.filter((holder) => isInsideAllAbove(holder, holders));
}

/**
 * Whether the caller is inside of all that `holder` was entered below. A run's `lock()` in the body of a `withLock` makes the run
 * a holder below that body, and a parallel branch of the run is not inside the body:
 *
 *     holdfast.run(() => Promise.all([
 *       lock.withLock(async () => { await lock.lock(); … }), // the run holds it below this body
 *       lock.withLock(async () => { … }),                    // must wait for that body, not re-enter what is below it
 *     ]));
 *
 * So each holder above must have ended, or be among those around the caller, too.
 */
function isInsideAllAbove(holder: Holder, holders: readonly Holder[]): boolean {
  for (let above = holder.parent; above; above = above.parent) {
    if (!above.hasEnded && !holders.includes(above)) return false;
  }
  return true;
}

/**
 * The holder that an acquisition in `scope` re-enters: the nearest, or what was entered below it since, such as by
 * a `lock()` in its body; that came later and is further in, though its scope may be further out.
 */
export function nearestHolder(scope: Scope | undefined, id: string): Holder | undefined {
  const [nearest, ...others] = holdersAround(scope, id);
  return others.reduce(
    (found, holder) => (found && isBelow(holder, found) ? holder : found),
    nearest,
  );
}

function isBelow(holder: Holder, above: Holder): boolean {
  for (let next = holder.parent; next; next = next.parent) if (next === above) return true;
  return false;
}

/** A lock that one owner holds, however often it was re-entered. */
export interface Held {
  readonly lock: ScopedLock;
  readonly ownerId: string;
  /** Whether its release was sent: nobody may re-enter it any more. */
  readonly isReleased: boolean;
}

/** Who holds a lock within this process, and what was entered below it. */
export class Holder<Grant extends Held = Held> {
  readonly grant: Grant;
  /** The holder that this one re-entered; undefined for the outermost. */
  readonly parent: Holder<Grant> | undefined;
  /** The scope that holds the lock by this holder; undefined: an anonymous caller does. */
  readonly scope: Scope | undefined;
  /** The scope whose call has a turn and is about to enter as a child; the last one, where several have. */
  entering: Scope | undefined;
  /** Whether siblings may be inside with it. */
  #hasSharedTurn: boolean;
  /** Made when somebody re-enters it: most locks are held once. */
  #turns: LocalMutex | undefined;
  #children: Set<Holder<Grant>> | undefined;
  #holds: HoldInScope[] = [];
  #hasLeft = false;

  /** `isShared`: its turn among the children of its parent is a shared one. */
  constructor(
    grant: Grant,
    parent: Holder<Grant> | undefined,
    scope: Scope | undefined,
    isShared = false,
  ) {
    this.grant = grant;
    this.parent = parent;
    this.scope = scope;
    this.#hasSharedTurn = isShared;
    scope?.enter(grant.lock.id, this);
    if (parent) (parent.#children ??= new Set()).add(this);
  }

  /** The turns of its children. */
  get turns(): LocalMutex {
    this.#turns ??= new LocalMutex(() => {
      this.#turnEnded();
    });
    return this.#turns;
  }

  /** Whether all its holds, but for lost ones, only read: whoever re-enters can only read, too, since siblings may be reading. */
  get isShared(): boolean {
    return this.#holds.every(({ isShared, isLostBeforeUnlock }) => isShared || isLostBeforeUnlock);
  }

  get holds(): readonly HoldInScope[] {
    return this.#holds;
  }

  /** Whether all its holds were given up. (One that was lost has not ended: whoever re-enters it must learn that.) */
  get hasEnded(): boolean {
    return !this.#isHeld || this.grant.isReleased;
  }

  /** Whether it has a hold that is not lost: to a lost one only an `unlock()`, or a release, is still owed. */
  get #isHeld(): boolean {
    return this.#holds.some(({ isLostBeforeUnlock }) => !isLostBeforeUnlock);
  }

  add(hold: HoldInScope): void {
    // Most have just one hold: an array that grows from nothing takes room for 17.
    if (this.#holds.length === 0) this.#holds = [hold];
    else this.#holds.push(hold);
  }

  /** A hold was given up; with the last one the next sibling has its turn, unless a child is still inside. */
  remove(hold: HoldInScope): void {
    const index = this.#holds.indexOf(hold);
    if (index < 0) return;
    this.#holds.splice(index, 1);
    if (this.#holds.length === 0) this.scope?.leave(this.grant.lock.id, this);
    this.#passOn();
  }

  /** A hold was lost while its grant goes on: it counts no more, but the scope keeps it until it is given up. */
  lostBeforeUnlock(hold: HoldInScope): void {
    if (this.scope) this.#passOn();
    else this.remove(hold);
  }

  #passOn(): void {
    if (!this.#isHeld) this.#wakeDescendants();
    this.#turnEnded();
  }

  /**
   * A hold or the turn of a child has ended: the holder leaves if nobody is inside any more, or lets in siblings that only read if all
   * inside only read.
   */
  #turnEnded(): void {
    if (!this.#isHeld && !this.#turns?.isTaken) {
      this.#leave();
      return;
    }
    if (this.#hasSharedTurn || this.#hasLeft || this.#turns?.isExclusive || !this.isShared) return;
    this.#hasSharedTurn = true;
    this.parent?.turns.share();
  }

  /** A hold of this holder was lost: those who wait to re-enter it, or a holder around it, must learn that now. */
  wakeWaiters(): void {
    this.#turns?.wakeWaiters();
    this.parent?.wakeWaiters();
  }

  #leave(): void {
    // Once only: a call that comes late may still take and pass the turn of a holder that has ended.
    if (!this.parent || this.#hasLeft) return;
    this.#hasLeft = true;
    this.parent.#children?.delete(this);
    this.parent.turns.pass();
  }

  /** Nobody holds by this holder any more: whoever could not re-enter the holders below it may be able to now. */
  #wakeDescendants(): void {
    for (const child of this.#children ?? []) {
      child.scope?.wake(child.grant.lock.id);
      child.#wakeDescendants();
    }
  }
}
