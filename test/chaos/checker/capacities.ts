// How many permits a semaphore may have had at some time: what was declared, or set; a server may forget the latter.
import { LATE_COMMAND_MS, type Evidence } from './evidence.js';
import type { Setting } from './history.js';

interface InForce {
  readonly permits: number;
  /** It came into force at some time within these. */
  readonly from: number;
  readonly until: number;
  readonly isKnown: boolean;
}

export class Capacities {
  readonly #evidence: Evidence;
  readonly #declared: number;

  constructor(evidence: Evidence) {
    this.#evidence = evidence;
    this.#declared = evidence.plan.permits?.declared ?? 1;
  }

  /** Each number of permits that may have been in force at any time between the two. */
  possible(lock: string, from: number, until: number): number[] {
    const declared = { permits: this.#declared, from: -Infinity, until: -Infinity, isKnown: true };
    const set = [...this.#evidence.history.settings.values()]
      .filter((setting) => setting.lock === lock && setting.from <= until)
      .map((setting) => ({ ...setting, until: this.#latest(setting) }));
    const all: InForce[] = [declared, ...set];
    const isOver = (one: InForce): boolean =>
      all.some(
        (other) =>
          other.isKnown &&
          other.from > one.until &&
          other.until < from &&
          !this.isForgotten(lock, other.from, until),
      );
    return all.filter((one) => !isOver(one)).map(({ permits }) => permits);
  }

  /** Whether what was set may have been lost meanwhile. */
  isForgotten(lock: string, from: number, until: number): boolean {
    return this.#evidence.faults.some((fault) => {
      const touched = [fault.loses ?? [], fault.disorders ?? []].flat();
      const isTouched = touched.includes('all') || touched.includes(lock);
      return isTouched && fault.from <= until && fault.until >= from;
    });
  }

  /** A copy of the command may come late, and then sets it once more. */
  #latest({ from, until, isKnown }: Setting): number {
    const { faults, plan } = this.#evidence;
    const hasCopies = faults.some(
      (fault) =>
        fault.nemesis === 'lose, double and delay commands' &&
        fault.from <= until &&
        fault.until >= from,
    );
    if (!isKnown) return until + LATE_COMMAND_MS;
    return hasCopies ? until + 2 * plan.watchdogMs + LATE_COMMAND_MS : until;
  }
}
