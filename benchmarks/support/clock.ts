// The clock of the benchmarks: CLOCK_MONOTONIC, which on Linux is one and the same in all processes of a machine.

/** Milliseconds, with a resolution of less than a microsecond. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
