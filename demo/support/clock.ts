// The clock of the demo: CLOCK_MONOTONIC, which on Linux is one and the same in all processes of a machine.

export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
