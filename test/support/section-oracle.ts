// Who may be inside a lock together: only who is inside by the same owner, one around the other.
import { expect } from 'vitest';

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
