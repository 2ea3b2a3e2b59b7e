// Random programs over a few locks, nested and parallel, and how to make each of them free of deadlocks of its own.
import fc from 'fast-check';

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
