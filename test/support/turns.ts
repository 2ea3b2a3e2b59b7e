// Who had a lock from when to when, in which process whatever: nobody while somebody else had it.
import { expect } from 'vitest';

/** One caller's time with the lock, in machineMs(): as long as it believed that it held it, if it ever did. */
export interface Turn {
  readonly label: string;
  readonly ownerId: string;
  readonly fromMs: number | undefined;
  readonly untilMs: number | undefined;
  /** What its release failed with; undefined: it did not. */
  readonly code: string | undefined;
}

/** The labels in the order of their turns; fails when two turns overlap. */
export function orderOf(turns: readonly Turn[]): string[] {
  const believed = turns.filter((turn) => turn.fromMs !== undefined);
  const sorted = believed.sort((one, other) => one.fromMs! - other.fromMs!);
  for (const [index, turn] of sorted.entries()) {
    const before = sorted[index - 1];
    if (!before || before.untilMs! <= turn.fromMs!) continue;
    const overlapMs = before.untilMs! - turn.fromMs!;
    expect.fail(`${turn.label} came in ${overlapMs} ms before ${before.label} was out`);
  }
  return sorted.map(({ label }) => label);
}
