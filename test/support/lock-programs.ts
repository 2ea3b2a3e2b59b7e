// Random programs over a few locks, nested and parallel: free of deadlocks of their own, in a time of their own, with an oracle.
import { setImmediate } from 'node:timers'; // the global one is faked
import fc from 'fast-check';
import { expect, vi } from 'vitest';

/** How long an acquisition waits: for ever, not at all, or until it is aborted after so many ticks. */
type Wait = 'forever' | 'not at all' | number;

export type Step =
  | { readonly kind: 'pause'; readonly ticks: number }
  | { readonly kind: 'run' | 'detach'; readonly body: readonly Step[] }
  | { readonly kind: 'parallel'; readonly branches: readonly (readonly Step[])[] }
  | Acquire;

export interface Acquire {
  /** `hold`: acquire and release; `hold.run`: the body runs inside the hold, too. */
  readonly kind: 'withLock' | 'lock' | 'hold' | 'hold.run';
  /** Which lock is wanted; it may become another one to keep to the order. */
  readonly lock: number;
  readonly wait: Wait;
  readonly body: readonly Step[];
}

export interface Program {
  readonly steps: readonly Step[];
  /** How many ticks commands and replies travel, in turn. */
  readonly travels: readonly number[];
}

const ticks = fc.nat(4);
const wait: fc.Arbitrary<Wait> = fc.oneof(
  { weight: 6, arbitrary: fc.constant<Wait>('forever') },
  { weight: 1, arbitrary: fc.constant<Wait>('not at all') },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 20 }) },
);

const { body } = fc.letrec<{ step: Step; body: readonly Step[] }>((tie) => ({
  body: fc.array(tie('step'), { maxLength: 3, size: 'max' }),
  step: fc.oneof(
    { maxDepth: 4, depthSize: 'max', withCrossShrink: true },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('pause' as const), ticks }) },
    {
      weight: 4,
      arbitrary: fc.record({
        kind: fc.constantFrom('withLock' as const, 'withLock' as const, 'lock', 'hold', 'hold.run'),
        lock: fc.nat(2),
        wait,
        body: tie('body'),
      }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        kind: fc.constant('parallel' as const),
        branches: fc.array(tie('body'), { minLength: 2, maxLength: 3, size: 'max' }),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        kind: fc.constantFrom('run' as const, 'run', 'run', 'detach'),
        body: tie('body'),
      }),
    },
  ),
}));

export const programs: fc.Arbitrary<Program> = fc.record({
  steps: body,
  travels: fc.array(ticks, { minLength: 1, maxLength: 12 }),
});

/**
 * What code at one place of a program may acquire without waiting for itself or in a circle: locks in ascending order;
 * the same one again, if it re-enters; a lower one again, if no parallel branch can be inside it.
 */
export interface Place {
  readonly highest: number;
  /** Held by this branch alone since it split off: re-entering them waits for nobody. */
  readonly own: ReadonlySet<number>;
  /** Held on the way here by an owner that code here is not inside of. */
  readonly foreign: ReadonlySet<number>;
  readonly isInRun: boolean;
  /** Whether the innermost run was opened since this branch split off. */
  readonly isRunOwn: boolean;
}

const none: ReadonlySet<number> = new Set();

export const outermost: Place = {
  highest: -1,
  own: none,
  foreign: none,
  isInRun: false,
  isRunOwn: false,
};

/** The lock to take instead of the wanted one; undefined: none. */
export function legalLock({ highest, own, foreign }: Place, wanted: number): number | undefined {
  return [wanted, 0, 1, 2].find((lock) => !foreign.has(lock) && (lock >= highest || own.has(lock)));
}

export function inRun(place: Place): Place {
  return { ...place, isInRun: true, isRunOwn: true };
}

export function inBranch(place: Place): Place {
  return { ...place, own: none, isRunOwn: false };
}

export function detached({ highest }: Place): Place {
  return { ...outermost, highest, foreign: new Set([0, 1, 2].filter((lock) => lock <= highest)) };
}

export function holding(place: Place, lock: number, kind: Acquire['kind']): Place {
  const { isInRun, isRunOwn, own, foreign, highest } = place;
  const isAnonymous = !isInRun && (kind === 'lock' || kind === 'hold');
  const isOwn = kind === 'withLock' || (isInRun ? isRunOwn : kind === 'hold.run');
  return {
    ...place,
    highest: Math.max(highest, lock),
    own: isOwn ? new Set([...own, lock]) : own,
    foreign: isAnonymous ? new Set([...foreign, lock]) : foreign,
  };
}

// Who may be inside a lock together: only who is inside by the same owner, one around the other.

/** One acquisition while it is held. */
export interface Section {
  readonly lock: number;
  /** The acquisitions of any lock that this one is nested in. */
  readonly around: readonly Section[];
  /** The runs that this one is nested in, innermost last. */
  readonly runs: readonly number[];
  /** The run that owns it; undefined: a `withLock` body, or anonymous. */
  readonly ownerRun: number | undefined;
  /** Whether it took the lock on the server, rather than re-entering. */
  isOutermost: boolean;
  readonly label: string;
}

export class SectionOracle {
  readonly #inside = new Map<number, Set<Section>>();
  entered = 0;

  enter(section: Section): void {
    this.entered++;
    const inside = this.#inside.get(section.lock) ?? new Set();
    this.#inside.set(section.lock, inside);
    for (const other of inside) {
      if (mayOverlap(other, section)) continue;
      expect.fail(`${section.label} came in while ${other.label} was inside`);
    }
    inside.add(section);
  }

  leave(section: Section): void {
    this.#inside.get(section.lock)?.delete(section);
  }
}

/** Whether `later` may come in while `earlier` is inside, in parallel branches or nested ones. */
function mayOverlap(earlier: Section, later: Section): boolean {
  if (later.around.includes(earlier)) return true;
  // A run's own calls are one owner, and an ancestor of all that is nested in the run.
  if (earlier.ownerRun !== undefined && later.runs.includes(earlier.ownerRun)) return true;
  // Nobody re-enters who is not inside; so a run that comes later has counted up what it held already.
  if (earlier.isOutermost) return false;
  return later.ownerRun !== undefined && earlier.runs.includes(later.ownerRun);
}

// Time that passes only when nothing else can happen, over fake timers: random interleavings that can be repeated exactly.

/** Longer than any program takes, and less than the time after which those who wait look for themselves: nobody may need that. */
const LONGEST_MS = 9_000;

export class VirtualTime {
  readonly #beganAtMs = Date.now();

  /** Resolves after so many milliseconds; those due at the same one go in the order in which they were asked for. */
  pass(ms: number): Promise<void> {
    return ms === 0 ? Promise.resolve() : new Promise((resolve) => setTimeout(resolve, ms));
  }

  /** Lets time pass until the promise settles; throws when that takes longer than any program. */
  async until<T>(promise: Promise<T>): Promise<T> {
    const settled = promise.then(Boolean, Boolean).then(() => true);
    for (;;) {
      const turn = new Promise<boolean>((resolve) => setImmediate(resolve, false));
      if (await Promise.race([turn, settled])) return await promise;
      if (Date.now() - this.#beganAtMs > LONGEST_MS) throw new Error('deadlock: it never ends');
      vi.advanceTimersToNextTimer();
    }
  }
}
