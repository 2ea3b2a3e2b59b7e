// The clocks of a worker, as the library sees them: the wall clock steps, the monotonic one stands still. Ours goes on.

const trueWall = Date.now.bind(Date);
const trueMonotonic = performance.now.bind(performance);
let wallAheadMs = 0;
let suspendedMs = 0;

export function patchClocks(): void {
  Date.now = () => trueWall() + wallAheadMs;
  performance.now = () => trueMonotonic() - suspendedMs;
}

/** From now on the wall clock is so much ahead of the true time. */
export function stepWallClock(ms: number): void {
  wallAheadMs = ms;
}

/** The event loop stands still. */
export function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/** The machine is suspended: nothing runs, and the monotonic clock does not go on. */
export function suspend(ms: number): void {
  block(ms);
  suspendedMs += ms;
}
