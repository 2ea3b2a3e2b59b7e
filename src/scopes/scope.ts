// Owner scopes: who is calling, in a runtime without threads. Scopes form a tree that follows the asynchronous
// calls; an acquisition looks outwards in it for a holder of the same lock.

import { AsyncLocalStorage } from 'node:async_hooks';
import type { Holder, HoldInScope } from './holder.js';
import type { WaitLimit } from '../runtime/wait-limit.js';
import { Turns } from './turns.js';
import { withoutMarks } from './unlock-marks.js';

/** `run` only, never `enterWith`: a scope must not leak into code that follows the call that opened it. */
const storage = new AsyncLocalStorage<Scope | undefined>();

export class Scope {
  readonly parent: Scope | undefined;
  /** Whether `holdfast.run` opened it: then `lock()` inside acts for it. */
  readonly #isRun: boolean;
  #hasEnded = false;
  readonly #holders = new Map<string, Holder[]>();
  readonly #attempts = new Map<string, Turns>();
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
  attempts(id: string): Turns {
    const known = this.#attempts.get(id);
    if (known) return known;
    const turns = new Turns(() => {
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
