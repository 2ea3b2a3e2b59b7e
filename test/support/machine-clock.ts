// A clock that all processes of this machine share, so that a test can compare what happened in several of them.

/** Milliseconds on the machine's monotonic clock, with fractions. */
export function machineMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/**
 * The median of three measurements; two below `enoughMs` end them early. A busy machine delays something now and then, a defect does
 * so more often than not.
 */
export async function medianOf(enoughMs: number, measure: () => Promise<number>): Promise<number> {
  const tookMs: number[] = [];
  while (tookMs.length < 3 && tookMs.filter((ms) => ms < enoughMs).length < 2) {
    tookMs.push(await measure());
  }
  return tookMs.sort((one, other) => one - other)[1]!;
}
