// Identifies the caller, in a runtime without threads, and the holder that it re-enters.
//
// `holdfast.run` and `withLock` each open a scope; scopes form a tree that follows the asynchronous calls. A call acts for the innermost
// run around it, or for the scope that its own `withLock` opens. Outside any run it is anonymous (`anonymous.ts`).
//
// A scope, or an anonymous caller, that holds a lock is a holder. An acquisition searches the scopes around it, outwards, for a holder that
// the caller is inside of:
// - The acting scope itself holds the lock: the call adds a hold to the same holder.
// - Another scope around it holds the lock: the call becomes a child of the nearest such holder. So the holders of one grant are a tree.
//   The children of one holder take turns, unless all of them only read, so parallel branches never overlap.
// - No scope around it holds the lock: the call needs a grant of its own.
//
// A holder has ended when all its holds were given up. A lost holder has not ended: a call that re-enters it must get the loss.

import { AsyncLocalStorage } from 'node:async_hooks';
import type { WaitLimit } from '../runtime/wait-limit.js';
import { type HoldInScope, type ScopedLock, withoutMarks } from './anonymous.js';
import { LocalMutex } from './local-mutex.js';

/** Used with `run` only, never `enterWith`: a scope must not leak into the code after the call that opened it. */
const storage = new AsyncLocalStorage<Scope | undefined>();

export class Scope {
  readonly parent: Scope | undefined;
  /** Whether `holdfast.run` opened it: then `lock()` calls inside act for it. */
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

  /** False for a run that has ended: its leftover timers and callbacks do not acquire for it. */
  get isActing(): boolean {
    return this.#isRun && !this.#hasEnded;
  }

  run<T>(fn: () => T): T {
    return this.#isRun ? withoutMarks(() => storage.run(this, fn)) : storage.run(this, fn);
  }

  /** This scope now holds a lock: calls inside that wait for it may re-enter instead. */
  enter(id: string, holder: Holder): void {
    this.#holders.set(id, [...this.holders(id), holder]);
    this.wake(id);
  }

  /** Wakes calls inside that wait for this lock, since they may be able to re-enter now. */
  wake(id: string): void {
    for (const waiter of this.#waiters.get(id) ?? []) waiter.lookAgain();
  }

  leave(id: string, holder: Holder): void {
    const rest = this.holders(id).filter((other) => other !== holder);
    if (rest.length > 0) this.#holders.set(id, rest);
    else this.#holders.delete(id);
  }

  /** The locks that this scope holds. */
  get lockIds(): Iterable<string> {
    return this.#holders.keys();
  }

  holders(id: string): readonly Holder[] {
    return this.#holders.get(id) ?? [];
  }

  /** Serialises the attempts of this scope at one lock, since the scope is one owner. */
  attempts(id: string): LocalMutex {
    const known = this.#attempts.get(id);
    if (known) return known;
    const turns = new LocalMutex(() => {
      if (!turns.isTaken) this.#attempts.delete(id);
    });
    this.#attempts.set(id, turns);
    return turns;
  }

  /** By lock, how many `lock()` and `tryLock()` calls that act for this scope are under way. */
  get lockCalls(): Map<string, number> {
    return (this.#lockCalls ??= new Map());
  }

  /** Wakes a waiter when this scope gets the lock; returns a function that stops it. */
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

/** The innermost scope of the running code. */
export function currentScope(): Scope | undefined {
  return storage.getStore();
}

/** Runs `fn` outside all scopes, and without the marks of `lock()` and `tryLock()` calls around it. */
export function outsideScopes<T>(fn: () => T): T {
  // The first `storage.run` of a process makes all its promises more expensive (on Node 20 and 22), so avoid it.
  return withoutMarks(() => (storage.getStore() === undefined ? fn() : storage.run(undefined, fn)));
}

/** The scopes from `scope` outwards. */
export function* outwards(scope: Scope | undefined): Generator<Scope> {
  for (let next = scope; next; next = next.parent) yield next;
}

/** The scope that `lock()` and `unlock()` act for: the innermost `run`; undefined: an anonymous caller. */
export function actingScope(scope: Scope | undefined): Scope | undefined {
  let outer = scope;
  while (outer && !outer.isActing) outer = outer.parent;
  return outer;
}

/** The holders of a lock that code in `scope` is inside of; nearest first. */
export function holdersAround(scope: Scope | undefined, id: string): Holder[] {
  if (!scope) return [];
  const holders = [...outwards(scope)]
    .flatMap((outer) => outer.holders(id))
    .filter((holder) => !holder.hasEnded);
  return holders.filter((holder) => isInsideAllAbove(holder, holders));
}

/** Whether code in `scope` is inside a holder that has its lock as this owner. */
export function isInsideOwner(scope: Scope | undefined, ownerId: string): boolean {
  const ids = [...outwards(scope)].flatMap(({ lockIds }) => [...lockIds]);
  return ids.some((id) => holdersAround(scope, id).some(({ grant }) => grant.ownerId === ownerId));
}

/**
 * Whether the caller is inside all holders above `holder`. A run's `lock()` in the body of a `withLock` makes the run a holder below that
 * body, but a parallel branch of the run is not inside the body:
 *
 *     holdfast.run(() => Promise.all([
 *       lock.withLock(async () => { await lock.lock(); … }), // the run holds it below this body
 *       lock.withLock(async () => { … }),                    // must wait for that body, not re-enter what is below it
 *     ]));
 *
 * So each holder above must have ended, or also be around the caller.
 */
function isInsideAllAbove(holder: Holder, holders: readonly Holder[]): boolean {
  for (let above = holder.parent; above; above = above.parent) {
    if (!above.hasEnded && !holders.includes(above)) return false;
  }
  return true;
}

/**
 * The holder that an acquisition in `scope` re-enters: the nearest, or one that was entered below it, such as by a `lock()` in its body.
 * The latter is deeper in the tree of holders, though its scope may be further out.
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

/** A lock held by one owner, with all re-entries. */
export interface Held {
  readonly lock: ScopedLock;
  readonly ownerId: string;
  /** Whether its release was sent: it must not be re-entered any more. */
  readonly isReleased: boolean;
}

/** A holder of a lock within this process, and the holders entered below it. */
export class Holder<Grant extends Held = Held> {
  readonly grant: Grant;
  /** The holder that this one re-entered; undefined for the outermost. */
  readonly parent: Holder<Grant> | undefined;
  /** The scope that holds the lock; undefined: an anonymous caller does. */
  readonly scope: Scope | undefined;
  /** The scope whose call has a turn and is about to enter as a child; if several have turns, the last. */
  entering: Scope | undefined;
  /** Whether siblings may be inside at the same time. */
  #hasSharedTurn: boolean;
  /** Created on the first re-entry, since most locks are held once. */
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

  /** Whether all its holds, except lost ones, only read. Then a call that re-enters can only read, too, since siblings may be reading. */
  get isShared(): boolean {
    return this.#holds.every(({ isShared, isLostBeforeUnlock }) => isShared || isLostBeforeUnlock);
  }

  get holds(): readonly HoldInScope[] {
    return this.#holds;
  }

  /** Whether all its holds were given up. (A lost holder has not ended: a call that re-enters it must get the loss.) */
  get hasEnded(): boolean {
    return !this.#isHeld || this.grant.isReleased;
  }

  /** Whether it has a hold that is not lost. (A lost hold only awaits its `unlock()` or release.) */
  get #isHeld(): boolean {
    return this.#holds.some(({ isLostBeforeUnlock }) => !isLostBeforeUnlock);
  }

  add(hold: HoldInScope): void {
    // Most holders have one hold only, and an empty array allocates room for 17 elements on its first push.
    if (this.#holds.length === 0) this.#holds = [hold];
    else this.#holds.push(hold);
  }

  /** A hold was given up. With the last one the turn passes to the next sibling, unless a child is still inside. */
  remove(hold: HoldInScope): void {
    const index = this.#holds.indexOf(hold);
    if (index < 0) return;
    this.#holds.splice(index, 1);
    if (this.#holds.length === 0) this.scope?.leave(this.grant.lock.id, this);
    this.#passOn();
  }

  /** A hold was lost while its grant continues: it no longer counts, but the scope keeps it until it is given up. */
  lostBeforeUnlock(hold: HoldInScope): void {
    if (this.scope) this.#passOn();
    else this.remove(hold);
  }

  #passOn(): void {
    if (!this.#isHeld) this.#wakeDescendants();
    this.#turnEnded();
  }

  /**
   * A hold, or a child's turn, has ended: the holder leaves if no hold and no child is inside any more; if all that are inside only read,
   * it lets in siblings that only read.
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

  /** A hold of this holder was lost: wakes the calls that wait to re-enter it, or a holder around it, so that they get the loss. */
  wakeWaiters(): void {
    this.#turns?.wakeWaiters();
    this.parent?.wakeWaiters();
  }

  #leave(): void {
    // Only once: a late call may still take and pass a turn of a holder that has ended.
    if (!this.parent || this.#hasLeft) return;
    this.#hasLeft = true;
    this.parent.#children?.delete(this);
    this.parent.turns.pass();
  }

  /** This holder has no holds any more: wakes calls that could not re-enter the holders below it before. */
  #wakeDescendants(): void {
    for (const child of this.#children ?? []) {
      child.scope?.wake(child.grant.lock.id);
      child.#wakeDescendants();
    }
  }
}
