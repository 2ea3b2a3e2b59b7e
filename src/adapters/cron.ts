// holdfast/cron: each process has the schedule, and of all processes one runs each tick.

import { type Hold, type Holdfast, type Lock, LockTimeoutError, OptionError } from '../index.js';
import { invalid, isWholeNumber, parseOptions } from '../api/options.js';

/**
 * Options of `onePerTick()`; times in milliseconds. At least one of `tick` and `lockAtLeastFor` must be given.
 *
 * @typeParam Args - what the scheduler calls its function with
 * @typeParam Tick - what names a tick; undefined: nothing does
 * @group Cron
 */
export interface TickOptions<
  Args extends unknown[] = [],
  Tick extends Date | string | undefined = Date | string,
> {
  /**
   * Which tick is due: its time on the schedule, not on the clock, so that it is the same in all processes. It gets what the scheduler calls
   * its function with. Left out: a tick is known only by its time, so its lock stays taken until all processes have tried.
   */
  tick?: ((...args: Args) => Tick) | undefined;
  /**
   * For how long a tick stays taken after it began, though its run has ended. Longer than clocks differ and a tick may begin late. Without
   * `tick`, it plus that must also be shorter than the time between two ticks. Default: an hour, with `tick`.
   */
  lockAtLeastFor?: number | undefined;
  /**
   * How long a process tries for a tick: while Redis is down, and while the run of another tick, or of a killed process, keeps the lock. At
   * least 0, less than `lockAtLeastFor`. Default: 1,000 with `tick`, so that a look of another process is no reason to skip; otherwise 0.
   */
  wait?: number | undefined;
  /**
   * Whether another process runs a tick whose run has failed, or whose process has died, after that one's lease. So a task may run several
   * times for one tick. It needs `tick`, and a `wait` longer than a run takes and a lease lasts. Default: false, a tick is run at most once.
   */
  takeOver?: boolean | undefined;
  /** Called, and awaited, when this process does not run a tick. Default: nothing happens. */
  onSkip?: ((tick: Tick) => unknown) | undefined;
}

/**
 * A run coordinator of node-cron (4.6 or newer), for `setRunCoordinator()` or the option `runCoordinator` of a task.
 *
 * @group Cron
 */
export interface TickCoordinator {
  /** Whether this process runs the tick that the key names. Rejects if Redis cannot be asked; node-cron then logs that and runs nothing. */
  shouldRun(key: string, ttlMs: number): Promise<boolean>;
}

const KNOWN_OPTIONS = ['tick', 'lockAtLeastFor', 'wait', 'takeOver', 'onSkip'] as const;

/** For how long a tick stays taken that its scheduler names: longer than clocks differ, and than a process lags behind. */
const TAKEN_MS = 3_600_000;

/** How long others may look whether a tick was run. */
const LOOKS_MS = 1_000;

/**
 * Makes the function that each process gives to its scheduler: of all processes that call it for a tick, one runs the task. Runs of one name
 * never overlap. The others, or all while the run before is still under way, skip the tick.
 *
 * The function rejects with the error of the task, with a `LockLostError` if the task succeeded but its lock was lost, and with an
 * `UnavailableError` or another error that {@link Lock} lists if it cannot tell whose the tick is; then it does not run the task.
 *
 * @param name - of the lock; those of the ticks are `<name>:<tick>`
 * @param task - gets the hold, whose `signal` aborts if the lock is lost, and the tick
 * @throws OptionError the name or an option is not usable
 * @example
 * ```ts
 * // croner
 * const nightly = onePerTick(holdfast, 'nightly', { tick: cronerTick }, async (hold) => {
 *   await fetch('https://reports.example/nightly', { method: 'POST', signal: hold.signal });
 * });
 * new Cron('0 3 * * *', { catch: console.error }, nightly);
 * ```
 * @group Cron
 */
export function onePerTick<
  Args extends unknown[],
  Tick extends Date | string | undefined = undefined,
>(
  holdfast: Holdfast,
  name: string,
  options: TickOptions<Args, Tick>,
  task: (hold: Hold, tick: Tick) => unknown,
): (...args: Args) => Promise<void> {
  const lock = holdfast.getLock(name);
  const { tick, lockAtLeastFor, wait, takeOver, onSkip } = parse(name, options);
  if (typeof task !== 'function') throw invalid('the task', task, 'a function', name);
  const attempt = async (due: Tick): Promise<boolean> => {
    const run = (hold: Hold): unknown => {
      hold.assertHeld(); // this process may have stood still
      return task(hold, due);
    };
    if (!tick) return await unlessHeld(lock, { wait, lockAtLeastFor }, run);
    const taken = holdfast.getLock(`${name}:${textOf(name, due)}`);
    const take = (fn: () => unknown): Promise<boolean> =>
      unlessHeld(taken, { wait: 0, lockAtLeastFor }, fn);
    let isRun = false;
    await unlessHeld(lock, { wait }, async (hold) => {
      if (!takeOver) {
        isRun = await take(() => run(hold));
      } else if (!(await taken.isLocked())) {
        await lock.withLock(run); // re-enters, to refuse late work before the tick counts as run
        hold.assertHeld(); // another process may run it by now, and decides whether it is done
        await take(() => undefined);
        isRun = true;
      }
    });
    return isRun;
  };
  return async (...args) => {
    const due = tick?.(...args) as Tick;
    if (!(await attempt(due))) await onSkip?.(due);
  };
}

/**
 * The tick of a croner job that was just triggered, for the option `tick` of `onePerTick()`. Not for a job with an `interval`: its ticks
 * depend on when the process was started.
 *
 * @group Cron
 */
export function cronerTick(job: { previousRuns(count: number, reference: Date): Date[] }): Date {
  const [tick] = job.previousRuns(1, new Date(Date.now() + 1));
  if (tick) return tick;
  throw new OptionError(
    'the croner job has no tick up to now: it was not triggered by its schedule',
  );
}

/**
 * Lets one process run each tick of the tasks of node-cron (4.6 or newer) that are `distributed`: at most once. A tick stays taken for the
 * task's `distributedLease`, at least for an hour.
 *
 * It knows the tick by the task's `name` and its time on the schedule. Ticks of one task may overlap, in different processes: where that must
 * not be, use {@link onePerTick} with `tick: ({ date }) => date` instead.
 *
 * @example
 * ```ts
 * cron.setRunCoordinator(runCoordinator(holdfast));
 * cron.schedule('0 3 * * *', task, { name: 'nightly', distributed: true });
 * ```
 * @group Cron
 */
export function runCoordinator(holdfast: Holdfast): TickCoordinator {
  return {
    shouldRun: (key, ttlMs) => {
      const lockAtLeastFor = Math.max(ttlMs, TAKEN_MS);
      return unlessHeld(holdfast.getLock(key), { wait: 0, lockAtLeastFor }, () => undefined);
    },
  };
}

/** Runs `fn` under the lock and resolves to true; to false if others had the lock until `wait` ran out. */
async function unlessHeld(
  lock: Lock,
  options: { wait: number; lockAtLeastFor?: number },
  fn: (hold: Hold) => unknown,
): Promise<boolean> {
  let isHeld = false as boolean; // set in a callback
  try {
    await lock.withLock(options, (hold) => {
      isHeld = true;
      return fn(hold); // `withLock` refuses what would work on after the release
    });
  } catch (error) {
    if (isHeld || !(error instanceof LockTimeoutError)) throw error;
  }
  return isHeld;
}

function textOf(name: string, tick: unknown): string {
  if (typeof tick === 'string' && tick !== '') return tick;
  if (tick instanceof Date && !Number.isNaN(tick.getTime())) return tick.toISOString();
  throw invalid('the tick', tick, 'a valid Date, or a string of at least one character', name);
}

function parse<Args extends unknown[], Tick extends Date | string | undefined>(
  name: string,
  options: TickOptions<Args, Tick>,
): TickOptions<Args, Tick> & { lockAtLeastFor: number; wait: number } {
  parseOptions('the options of onePerTick()', options, KNOWN_OPTIONS, name);
  const { tick, onSkip } = options;
  for (const [what, fn] of Object.entries<unknown>({ tick, onSkip })) {
    if (fn !== undefined && typeof fn !== 'function') throw invalid(what, fn, 'a function', name);
  }
  const takeOver: unknown = options.takeOver ?? false;
  if (typeof takeOver !== 'boolean') throw invalid('takeOver', takeOver, 'true or false', name);
  const { lockAtLeastFor = tick && TAKEN_MS } = options;
  if (lockAtLeastFor === undefined)
    throw refused(name, 'onePerTick() needs to know the tick, or else lockAtLeastFor');
  if (!isWholeNumber(lockAtLeastFor, 1)) {
    const right = 'a whole number of milliseconds of at least 1';
    throw invalid('lockAtLeastFor', lockAtLeastFor, right, name);
  }
  const { wait = tick ? Math.min(LOOKS_MS, lockAtLeastFor / 2) : 0 } = options;
  if (!(Number.isFinite(wait) && wait >= 0 && wait < lockAtLeastFor)) {
    const right = `at least 0 and less than lockAtLeastFor, ${lockAtLeastFor}`;
    throw invalid('wait', wait, right, name);
  }
  if (takeOver && !(tick && options.wait !== undefined))
    throw refused(name, 'takeOver needs a tick, and a wait longer than a run and a lease');
  return { tick, lockAtLeastFor, wait, takeOver, onSkip };
}

function refused(lockName: string, why: string): OptionError {
  return new OptionError(`lock "${lockName}": ${why}`, { lockName });
}
