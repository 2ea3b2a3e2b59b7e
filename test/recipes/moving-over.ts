// While processes with the old library still run, both locks are taken: the old one first, since it is what those know.
import type { Holdfast } from '../../src/index.js';

/** What is used of redlock. */
interface OldLocks {
  using<T>(names: string[], lease: number, fn: (signal: AbortSignal) => Promise<T>): Promise<T>;
}

export async function withBothLocks<T>(
  redlock: OldLocks,
  holdfast: Holdfast,
  name: string,
  fn: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return await redlock.using([name], 10_000, (oldSignal) =>
    // A name of its own: at redlock's key there is a string, which is not a lock of ours.
    holdfast
      .getLock(`holdfast:${name}`)
      .withLock((hold) => fn(AbortSignal.any([oldSignal, hold.signal]))),
  );
}
