// Callers outside any run: which hold an `unlock()` undoes.
//
// Each `lock()` and `tryLock()` leaves a mark of its lock in the asynchronous context of its caller, and `unlock()` goes by the newest one.
// Only code without a mark undoes the oldest hold. A mark never decides which caller owns a lock.

import { AsyncLocalStorage, AsyncResource, executionAsyncId } from 'node:async_hooks';
import { isUnanswered, LockLostError } from '../api/errors.js';

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

/** How many losses are remembered until an `unlock()` tells them; that `unlock()` may never come. */
const MAX_LOSSES = 10_000;

/** The holds of a client that belong to no scope. */
export class AnonymousHolds {
  /** The marks of the live holds, and of the lost ones until they are told; by lock, oldest first. */
  readonly #marks = new Map<string, Map<HoldInScope, Mark>>();
  /** The marks of the lost holds, oldest first. */
  readonly #lost = new Set<Mark>();

  add(id: string, hold: HoldInScope): void {
    const mark = new Mark({ holds: this, lock: { id, isShared: hold.isShared } });
    mark.become({ kind: 'held', hold });
    let marks = this.#marks.get(id);
    if (!marks) this.#marks.set(id, (marks = new Map<HoldInScope, Mark>()));
    marks.set(hold, mark);
  }

  /** A call was answered: its mark takes the place of the one that its hold began with. Returns the state of that one. */
  answered(mark: Mark, hold: HoldInScope): MarkState {
    const marks = this.#marks.get(mark.id);
    const began = marks?.get(hold);
    if (!began) return UNDONE;
    marks?.set(hold, mark);
    if (this.#lost.delete(began)) this.#lost.add(mark);
    return began.state;
  }

  /** A hold was given up. */
  delete(id: string, hold: HoldInScope): void {
    this.#heldAs(id, hold)?.end();
  }

  /** A hold was lost. If its own `unlock()` is still to come, that must tell the loss and undo no other hold. */
  lost(id: string, hold: HoldInScope, error: LockLostError): void {
    if (!hold.isUnlockable) this.delete(id, hold);
    const mark = this.#heldAs(id, hold);
    mark?.become({ kind: 'lost', hold, error });
    if (mark) this.#lost.add(mark);
    const [oldest] = this.#lost;
    if (this.#lost.size > MAX_LOSSES) oldest?.end();
  }

  /** The oldest live hold of this lock. */
  held(id: string): HoldInScope | undefined {
    return [...(this.#marks.get(id)?.values() ?? [])].find(({ hold }) => hold)?.hold;
  }

  /**
   * What code without a mark undoes: the oldest hold of `lock()` and `tryLock()`, which may be a lost one. Among several read locks it is
   * the hold whose lease ends first, since callers still inside must not be left with a shorter lease than they asked for.
   */
  next(lock: ScopedLock): Mark | undefined {
    return this.#owed(lock).reduce<Mark | undefined>(
      (next, mark) => (next && next.lastsForMs <= mark.lastsForMs ? next : mark),
      undefined,
    );
  }

  /** Undoes that; undefined: there is none. */
  undoNext(lock: ScopedLock): Promise<void> | undefined {
    const undone = this.next(lock)?.undo();
    return undone?.catch((error: unknown) => {
      const isLost = error instanceof LockLostError;
      // If this `unlock()` was meant for a live hold, that will never be undone, and must not be renewed for ever.
      if (isLost) for (const { hold } of this.#owed(lock)) hold?.stopRenewing();
      throw error;
    });
  }

  /** The mark of this hold was undone. */
  forget(mark: Mark, hold: HoldInScope): void {
    this.#lost.delete(mark);
    const marks = this.#marks.get(mark.id);
    marks?.delete(hold);
    if (marks?.size === 0) this.#marks.delete(mark.id);
  }

  #heldAs(id: string, hold: HoldInScope): Mark | undefined {
    const mark = this.#marks.get(id)?.get(hold);
    return mark?.hold && mark;
  }

  /** What an `unlock()` of this lock, or of this half of a read-write lock, may undo. */
  #owed({ id, isShared = false }: ScopedLock): readonly Mark[] {
    const marks = [...(this.#marks.get(id)?.values() ?? [])];
    return marks.filter((mark) => mark.isOwed && mark.isShared === isShared);
  }
}

/** A lock, or one half of a read-write lock, of one client. */
export interface MarkedLock {
  readonly holds: AnonymousHolds;
  readonly lock: ScopedLock;
}

type MarkState =
  | { readonly kind: 'pending' | 'failed' | 'undone' }
  | { readonly kind: 'held'; readonly hold: HoldInScope }
  | { readonly kind: 'lost'; readonly hold: HoldInScope; readonly error: LockLostError };

type MarkKind = MarkState['kind'];

const PENDING: MarkState = { kind: 'pending' };
const UNDONE: MarkState = { kind: 'undone' };

const FOLLOWING: Readonly<Record<MarkKind, readonly MarkKind[]>> = {
  pending: ['failed', 'held', 'lost', 'undone'],
  failed: [],
  held: ['lost', 'undone'],
  lost: ['undone'],
  undone: ['held'], // its release has failed, and may be repeated
};

const ALL_BUT_HELD: readonly MarkKind[] = ['pending', 'failed', 'lost', 'undone'];

/** The mark of one call: of its lock, or of this half of a read-write lock. */
export class Mark {
  readonly #holds: AnonymousHolds;
  readonly id: string;
  readonly isShared: boolean;
  /** The mark before it of the same lock. */
  #outer: Mark | undefined;
  #state = PENDING;

  constructor({ holds, lock: { id, isShared = false } }: MarkedLock, previous?: Mark) {
    this.#holds = holds;
    this.id = id;
    this.isShared = isShared;
    // A pending call is parallel to this one. What was given up counts only until the next call: its release may have failed.
    const outer = Mark.newest(previous, ['pending', 'undone']);
    this.#outer = outer?.hold && !outer.isOwed ? outer.#outer : outer;
  }

  get state(): MarkState {
    return this.#state;
  }

  /** What the call acquired; undefined unless it is held. */
  get hold(): HoldInScope | undefined {
    return this.#state.kind === 'held' ? this.#state.hold : undefined;
  }

  /** Whether its first `unlock()` is still to come. */
  get isOwed(): boolean {
    return this.#state.kind === 'lost' || this.hold?.isUnlockable === true;
  }

  /** How long its hold lasts if it is not undone, in milliseconds. */
  get lastsForMs(): number {
    return this.hold?.lastsForMs ?? 0;
  }

  /** `eitherHalf`: also if it is of the other half of a read-write lock. */
  isOf({ holds, lock: { id, isShared = false } }: MarkedLock, eitherHalf = false): boolean {
    return this.#holds === holds && this.id === id && (eitherHalf || this.isShared === isShared);
  }

  /** `hold`: what the call acquired; undefined: it returned false, or threw. */
  settle(hold: HoldInScope | undefined): void {
    this.become(hold ? this.#holds.answered(this, hold) : { kind: 'failed' });
  }

  /** Its hold was given up, or its loss is told or forgotten. */
  end(): void {
    if ('hold' in this.#state) this.#holds.forget(this, this.#state.hold);
    this.become(UNDONE);
  }

  /** Releases the hold, or throws its loss. May be called again after a failure. */
  async undo(): Promise<void> {
    const state = this.#state;
    this.end();
    try {
      if (state.kind === 'lost') throw state.error;
      if (state.kind === 'held') await state.hold.release();
    } catch (error) {
      if (isUnanswered(error)) this.become(state);
      throw error;
    }
  }

  /** The only way in which the state changes. */
  become(next: MarkState): void {
    const { kind } = this.#state;
    if (!FOLLOWING[kind].includes(next.kind)) throw new Error(`a mark: ${kind}, then ${next.kind}`);
    this.#state = next;
    // So that no chain grows. Behind a failed call a hold counts only for the warning about a call that waits for itself.
    if (next.kind === 'failed') this.#outer = Mark.newest(this.#outer, ALL_BUT_HELD);
    if (next.kind === 'undone') this.#outer = Mark.newest(this.#outer, ['undone']);
  }

  /** The newest mark, from `mark` on, that is in none of these states. */
  static newest(mark: Mark | undefined, passedOver: readonly MarkKind[]): Mark | undefined {
    let next = mark;
    while (next && passedOver.includes(next.#state.kind)) next = next.#outer;
    return next;
  }
}

const MAX_MARKS = 64; // without a hold, in one context

interface Marks {
  /** At most one for each lock, oldest first. */
  readonly all: readonly Mark[];
  /** Whether the oldest were dropped, since there were too many. */
  readonly areSomeForgotten: boolean;
}

const NO_MARKS: Marks = { all: [], areSomeForgotten: false };

interface Stored {
  readonly marks: Marks;
  /** The marks in the asynchronous resource `asyncId` before the current event left its own. */
  readonly before: Marks;
  /** undefined: stores do not stay with the resource. */
  readonly asyncId: number | undefined;
}

/** Used with `enterWith`, unlike scopes, since the code after the call must find the mark. */
const storage = new AsyncLocalStorage<Stored | undefined>();

/** Begins calls for these locks. Returns their marks. Not to be called after `await`. */
export function leaveMarks(locks: readonly MarkedLock[]): readonly Mark[] {
  let { all, areSomeForgotten } = marksHere();
  const previous = locks.map((lock) => all.find((mark) => mark.isOf(lock)));
  const left = locks.map((lock, index) => new Mark(lock, previous[index]));
  if (previous.some(Boolean)) all = all.filter((mark) => !previous.includes(mark));
  let surplus = all.length > MAX_MARKS ? all.filter(hasNoHold).length - MAX_MARKS : 0;
  if (surplus > 0) {
    areSomeForgotten = true;
    all = all.filter((mark) => !hasNoHold(mark) || surplus-- <= 0);
  }
  enter({ all: [...all, ...left], areSomeForgotten });
  return left;
}

/** Whether its call has ended and no `unlock()` is still to come, for it or for a call before it. */
function hasNoHold(mark: Mark): boolean {
  return mark.state.kind !== 'pending' && Mark.newest(mark, ['undone'])?.isOwed !== true;
}

/** The newest mark of this lock in the running code, outside any run; if all were undone, an undone one. undefined: there is none. */
function latest(lock: MarkedLock): Mark | 'forgotten' | undefined {
  const { all, areSomeForgotten } = marksHere();
  const mark = all.find((each) => each.isOf(lock));
  return Mark.newest(mark, ['undone']) ?? mark ?? (areSomeForgotten ? 'forgotten' : undefined);
}

/** What became of the latest `lock()` or `tryLock()` of the running code; undefined: none is known. */
export function latestKind(lock: MarkedLock): MarkKind | 'forgotten' | undefined {
  const found = latest(lock);
  return found instanceof Mark ? found.state.kind : found;
}

/** What an `unlock()` of the running code undoes; undefined: it is refused. */
export function undoneNext(lock: MarkedLock): Mark | undefined {
  const found = latest(lock);
  return found ? undoable(found) : lock.holds.next(lock.lock);
}

/** Undoes that; undefined: there is none. */
export function undo(lock: MarkedLock): Promise<void> | undefined {
  const found = latest(lock);
  return found ? undoable(found)?.undo() : lock.holds.undoNext(lock.lock);
}

function undoable(found: Mark | 'forgotten'): Mark | undefined {
  return found instanceof Mark && 'hold' in found.state ? found : undefined;
}

/** The mark of the hold of this lock, or of its other half, that the running code got by its own `lock()` or `tryLock()`, outside any run. */
export function heldByCaller(lock: MarkedLock): Mark | undefined {
  const ofLock = marksHere().all.filter((mark) => mark.isOf(lock, true));
  return ofLock.map((mark) => Mark.newest(mark, ALL_BUT_HELD)).find((mark) => mark?.isOwed);
}

/** Whether the running code has a hold of this owner by its own `lock()` or `tryLock()`, outside any run. */
export function isMarkedAs(ownerId: string): boolean {
  const held = marksHere().all.map((mark) => Mark.newest(mark, ALL_BUT_HELD));
  return held.some((mark) => mark?.isOwed && mark.hold?.ownerId === ownerId);
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

function marksHere(): Marks {
  const stored = storage.getStore();
  if (!stored) return NO_MARKS;
  const { marks, before, asyncId } = stored;
  // The code that left these marks continues, after an `await`, in other resources: this is another event of the same timer or socket.
  const isNextEvent = asyncId === executionAsyncId() && marks.all.at(-1)?.state.kind !== 'pending';
  return isNextEvent ? before : marks;
}

function enter(marks: Marks): void {
  const stored = storage.getStore();
  const asyncId = doStoresStay() ? executionAsyncId() : undefined;
  const isSameResource = stored?.asyncId !== undefined && stored.asyncId === asyncId;
  const before = isSameResource ? stored.before : (stored?.marks ?? NO_MARKS);
  storage.enterWith({ marks, before, asyncId });
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
