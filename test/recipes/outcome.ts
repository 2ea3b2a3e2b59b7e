// Work under a lock, and what became of it: not begun, done, or not known. No need to tell errors apart.
import type { AcquireOptions, Hold, Lock } from '../../src/index.js';

export type Outcome<T> =
  | { readonly state: 'done'; readonly result: T; readonly error?: unknown }
  | { readonly state: 'not begun' | 'not known'; readonly error: unknown };

export async function outcomeOf<T>(
  lock: Lock,
  options: AcquireOptions,
  work: (hold: Hold) => Promise<T>,
): Promise<Outcome<T>> {
  const progress: { hasBegun?: true; done?: { readonly result: T } } = {};
  try {
    const done = await lock.withLock(options, async (hold) => {
      progress.hasBegun = true;
      return (progress.done = { result: await work(hold) });
    });
    return { state: 'done', ...done };
  } catch (error) {
    if (progress.done) return { state: 'done', ...progress.done, error }; // beside another holder, perhaps
    return { state: progress.hasBegun ? 'not known' : 'not begun', error };
  }
}
