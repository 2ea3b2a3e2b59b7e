// A clock that all processes of this machine share, so that a test can compare what happened in several of them.

/** Milliseconds on the machine's monotonic clock, with fractions. */
export function machineMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/**
 * The shortest of three measurements; one below `enoughMs` ends them early. A busy machine delays something now and
 * then, a defect does so every time.
 */
export async function shortestOf(
  enoughMs: number,
  measure: () => Promise<number>,
): Promise<number> {
  let shortestMs = Infinity;
  for (let round = 0; round < 3 && shortestMs >= enoughMs; round++) {
    shortestMs = Math.min(shortestMs, await measure());
  }
  return shortestMs;
}
