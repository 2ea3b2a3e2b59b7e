// Callers outside any run: which hold an `unlock()` undoes, and which caller it belongs to.

import { AsyncLocalStorage, AsyncResource, executionAsyncId } from 'node:async_hooks';
import { LockLostError } from '../api/errors.js';

/** A lock as scopes see it: the two halves of a read-write lock are one lock. */
export interface ScopedLock {
  /** Equal for all objects that are the same lock of the same client. */
  readonly id: string;
  /** Whether several owners may have it at a time: the read half of a read-write lock, or a semaphore. */
  readonly isShared?: boolean;
}

/** One of the holds of a scope, or of an anonymous caller, as far as undoing it is concerned. */
export interface HoldInScope {
  readonly lockName: string;
  readonly ownerId: string;
  /** Whether other owners may hold the lock beside it (a reader, a permit). */
  readonly isShared: boolean;
  /** Whether `unlock()` may undo it. */
  readonly isUnlockable: boolean;
  /** Whether it was lost while its owner keeps the lock: no caller is inside it any more, but its own `unlock()` must find it. */
  readonly isLostBeforeUnlock: boolean;
  release(): Promise<void>;
  /** Takes the hold from its caller, whose `signal` aborts with `error`. */
  revoke(error: LockLostError): Promise<void>;
  /** How long its owner has held the lock, in milliseconds. */
  readonly heldForMs: number;
  /** How long the hold lasts if it is not undone, in milliseconds; Infinity: it is renewed. */
  readonly lastsForMs: number;
  /** The hold may never be undone: from now on it ends with its lease at the latest. */
  stopRenewing(): void;
}

/** For how many locks losses without an `unlock()` are remembered; that `unlock()` may never come. */
const MAX_LOSSES = 10_000;

/** The losses of one lock acquired by `lock()` or `tryLock()`: how many no `unlock()` has reported yet, and the error of the latest. */
interface Losses {
  count: number;
  error: LockLostError;
}

/** The holds of a client that belong to no scope. */
export class AnonymousHolds {
  /** The live holds, by lock, oldest first. */
  readonly #holds = new Map<string, HoldInScope[]>();
  /** The losses of locks with one owner at a time: a lost hold is older than the current one, so the next `unlock()` reports the loss. */
  readonly #losses = new Map<string, Losses>();
  /** The losses of read locks. Which caller's `unlock()` comes first is unknown: the next one reports the loss, rather early than never. */
  readonly #sharedLosses = new Map<string, Losses>();

  add(id: string, hold: HoldInScope): void {
    const holds = this.#holds.get(id);
    if (holds) holds.push(hold);
    else this.#holds.set(id, [hold]);
  }

  delete(id: string, hold: HoldInScope): void {
    const holds = this.#holds.get(id);
    const index = holds?.indexOf(hold) ?? -1;
    if (index >= 0) holds?.splice(index, 1);
    if (holds?.length === 0) this.#holds.delete(id);
  }

  /** A hold was lost; its own `unlock()`, still to come, must not undo another hold. */
  lost(id: string, hold: HoldInScope, error: LockLostError): void {
    if (hold.isUnlockable) {
      const losses = this.#lossesOf(hold);
      const count = (losses.get(id)?.count ?? 0) + 1;
      losses.delete(id); // to the end of the map
      losses.set(id, { count, error });
      const [oldest] = losses.keys();
      if (losses.size > MAX_LOSSES && oldest !== undefined) losses.delete(oldest);
    }
    this.delete(id, hold);
  }

  /** The oldest live hold of this lock. */
  held(id: string): HoldInScope | undefined {
    return this.#holds.get(id)?.[0];
  }

  /**
   * The hold that the next `unlock()` undoes: the oldest of `lock()` and `tryLock()`, or undefined if a loss must be reported first. Among
   * several read locks it is the hold whose lease ends first, since callers still inside must not be left with a shorter lease than they
   * asked for.
   */
  next(lock: ScopedLock): HoldInScope | undefined {
    if (this.#lossesOf(lock).has(lock.id)) return undefined;
    let next: HoldInScope | undefined;
    for (const hold of this.#holds.get(lock.id) ?? [])
      if (isUndoneBy(hold, lock) && !(next && next.lastsForMs <= hold.lastsForMs)) next = hold;
    return next;
  }

  /** What this hold's own `unlock()` would find: the hold, its loss, or (undefined) nothing any more. */
  owed(lock: ScopedLock, hold: HoldInScope): 'held' | 'lost' | undefined {
    if (!hold.isUnlockable) return undefined;
    if (this.#holds.get(lock.id)?.includes(hold)) return 'held';
    return this.#lossesOf(lock).has(lock.id) ? 'lost' : undefined;
  }

  /** Whether `unlock()` has a hold to undo, or a loss to report. */
  isUnlockable(lock: ScopedLock): boolean {
    return this.#lossesOf(lock).has(lock.id) || this.next(lock) !== undefined;
  }

  /** Undoes the next `lock()` or `tryLock()`, if there is one. */
  async unlock(lock: ScopedLock): Promise<void> {
    this.#throwIfLost(lock);
    try {
      await this.next(lock)?.release();
    } catch (error) {
      if (error instanceof LockLostError) this.#stopRenewing(lock);
      throw error;
    }
  }

  #throwIfLost(lock: ScopedLock): void {
    const losses = this.#lossesOf(lock).get(lock.id);
    if (!losses) return;
    if (--losses.count === 0) this.#lossesOf(lock).delete(lock.id);
    this.#stopRenewing(lock);
    throw losses.error;
  }

  /**
   * It is unknown which hold the `unlock()` that reported the loss was meant for. If it was meant for a live hold, that hold will never be
   * undone, and must not be renewed for ever.
   */
  #stopRenewing(lock: ScopedLock): void {
    for (const hold of this.#holds.get(lock.id) ?? [])
      if (isUndoneBy(hold, lock)) hold.stopRenewing();
  }

  #lossesOf({ isShared = false }: { readonly isShared?: boolean }): Map<string, Losses> {
    return isShared ? this.#sharedLosses : this.#losses;
  }
}

/** Whether an `unlock()` of this lock, or of this half of a read-write lock, may undo the hold. */
function isUndoneBy(hold: HoldInScope, { isShared = false }: ScopedLock): boolean {
  return hold.isUnlockable && hold.isShared === isShared;
}

// Marks: lock() and tryLock() leave a mark in the asynchronous context of their caller. By these marks an unlock() is refused in code whose
// own call failed, since it would undo another caller's lock; they also detect a call that waits for itself. A mark never decides which
// caller owns a lock.

/** The maximum number of marks in a context: beyond it, only the newest, and those of locks that it holds, are kept. */
const MAX_MARKS = 64;

const NO_MARKS: readonly Mark[] = [];

/** A lock, or one half of a read-write lock, of one client. */
export interface MarkedLock {
  readonly holds: AnonymousHolds;
  readonly lock: ScopedLock;
}

/** The marks of a context: at most one for each lock, oldest first. */
interface Marks {
  readonly all: readonly Mark[];
  /** The marks in the asynchronous resource `asyncId` before the current event left its own. */
  readonly before: readonly Mark[];
  /** undefined: stores do not stay with the resource. */
  readonly asyncId: number | undefined;
}

/** Used with `enterWith`, unlike scopes, since the code after the call must find the mark. */
const storage = new AsyncLocalStorage<Marks | undefined>();

type MarkState = 'pending' | 'failed' | 'held' | 'lost' | 'over';

/** The mark of one call. */
export class Mark {
  readonly #holds: AnonymousHolds;
  readonly #lock: ScopedLock;
  #state: MarkState = 'pending';
  /** The hold that the call acquired. */
  #hold: HoldInScope | undefined;
  /** The newest mark of the same lock that was settled when this one was left. */
  #outer: Mark | undefined;
  /** Consecutive calls for this lock, such as those of a helper that retries. */
  readonly #course: { latest: Mark };

  constructor({ holds, lock: { id, isShared = false } }: MarkedLock, previous: Mark | undefined) {
    this.#holds = holds;
    this.#lock = { id, isShared };
    this.#outer = settled(previous);
    const goesOn = previous && previous.#state !== 'pending' && !previous.#isOvertaken;
    this.#course = goesOn ? previous.#course : { latest: this };
    this.#course.latest = this;
  }

  isOf({ holds, lock: { id, isShared = false } }: MarkedLock): boolean {
    return this.#holds === holds && this.#lock.id === id && this.#lock.isShared === isShared;
  }

  /** `hold`: what the call acquired; undefined: it returned false, or threw. */
  settle(hold: HoldInScope | undefined): void {
    this.#state = hold ? 'held' : 'failed';
    this.#hold = hold;
    // Earlier failures no longer count; and one lost hold is enough, or work that never unlocks would collect them.
    this.#outer = owed(this.#outer);
    if (this.#outer?.state === 'lost') this.#outer.#outer = held(this.#outer.#outer);
  }

  get state(): MarkState {
    if (!this.#hold) return this.#state;
    this.#state = this.#holds.owed(this.#lock, this.#hold) ?? 'over';
    if (this.#state === 'over') this.#hold = undefined;
    return this.#state;
  }

  get outer(): Mark | undefined {
    return this.#outer;
  }

  /** What the call acquired; undefined unless it is held. */
  get hold(): HoldInScope | undefined {
    return this.state === 'held' ? this.#hold : undefined;
  }

  /** Whether it is of this lock, or of the other half of a read-write lock. */
  isOfEitherHalf({ holds, lock: { id } }: MarkedLock): boolean {
    return this.#holds === holds && this.#lock.id === id;
  }

  /** Whether a later call of its course is under way or has the lock: then a new call is parallel to that one, and does not follow it. */
  get #isOvertaken(): boolean {
    const { latest } = this.#course;
    return latest !== this && (latest.state === 'pending' || owed(latest) !== undefined);
  }

  /** Whether the call failed, and neither the latest call of its course nor a call around it holds the lock. */
  get isRefused(): boolean {
    return this.state === 'failed' && !owed(this.#course.latest);
  }
}

/** Begins calls for these locks. Returns their marks; undefined: the context has too many of held locks. Not to be called after `await`. */
export function leaveMarks(locks: readonly MarkedLock[]): readonly (Mark | undefined)[] {
  const before = marksHere();
  let kept = before.filter(
    (mark) => mark.state !== 'over' && !locks.some((lock) => mark.isOf(lock)),
  );
  if (kept.length >= MAX_MARKS) {
    const oldest = kept.length - MAX_MARKS / 2;
    kept = kept.filter((mark, index) => index >= oldest || mark.state === 'held');
  }
  const hasRoom = kept.length < MAX_MARKS;
  const left = locks.map((lock) => {
    const previous = before.find((mark) => mark.isOf(lock));
    return previous || hasRoom ? new Mark(lock, previous) : undefined;
  });
  enter([...kept, ...left.filter((mark) => mark !== undefined)]);
  return left;
}

/** Whether the running code called `lock()` or `tryLock()` for this lock, outside any run, and did not get it. */
export function hasFailed(lock: MarkedLock): boolean {
  return settled(marksHere().find((mark) => mark.isOf(lock)))?.isRefused ?? false;
}

/** The hold of this lock, or of its other half, that the running code got by its own `lock()` or `tryLock()`, outside any run. */
export function heldByCaller(lock: MarkedLock): HoldInScope | undefined {
  for (const mark of marksHere()) {
    const hold = mark.isOfEitherHalf(lock) ? held(mark)?.hold : undefined;
    if (hold) return hold;
  }
  return undefined;
}

/** Runs `fn` in a context without marks. Marks left by `fn` end with it. */
export function withoutMarks<T>(fn: () => T): T {
  const marks = storage.getStore();
  if (marks) storage.enterWith(undefined);
  try {
    return fn();
  } finally {
    if (storage.getStore() !== marks) storage.enterWith(marks);
  }
}

function marksHere(): readonly Mark[] {
  const marks = storage.getStore();
  if (!marks) return NO_MARKS;
  // The code that left these marks continues, after an `await`, in other resources: this is another event of the same timer or socket.
  const isNextEvent = marks.asyncId === executionAsyncId() && marks.all.at(-1)?.state !== 'pending';
  return isNextEvent ? marks.before : marks.all;
}

function enter(all: readonly Mark[]): void {
  const marks = storage.getStore();
  const asyncId = doStoresStay() ? executionAsyncId() : undefined;
  const isSameResource = marks?.asyncId !== undefined && marks.asyncId === asyncId;
  const before = isSameResource ? marks.before : (marks?.all ?? NO_MARKS);
  storage.enterWith({ all, before, asyncId });
}

let areStoresStaying: boolean | undefined;

/** Whether a store set by `enterWith` stays with the timer or socket whose event the code runs in; true before Node.js 24. */
function doStoresStay(): boolean {
  if (areStoresStaying !== undefined) return areStoresStaying;
  const probe = new AsyncLocalStorage<boolean>();
  const resource = new AsyncResource('holdfast');
  resource.runInAsyncScope(() => {
    probe.enterWith(true);
  });
  areStoresStaying = resource.runInAsyncScope(() => probe.getStore() === true);
  probe.disable();
  return areStoresStaying;
}

/** The newest mark with a known outcome. (A pending mark belongs to a parallel call.) */
function settled(mark: Mark | undefined): Mark | undefined {
  return newest(mark, ({ state }) => state !== 'pending' && state !== 'over');
}

/** The newest mark whose `unlock()` is still to come. */
function owed(mark: Mark | undefined): Mark | undefined {
  return newest(mark, ({ state }) => state === 'held' || state === 'lost');
}

function held(mark: Mark | undefined): Mark | undefined {
  return newest(mark, ({ state }) => state === 'held');
}

function newest(mark: Mark | undefined, isMeant: (mark: Mark) => boolean): Mark | undefined {
  let next = mark;
  while (next && !isMeant(next)) next = next.outer;
  return next;
}
