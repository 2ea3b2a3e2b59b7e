// Repeats a check until it passes, for what is true soon but not at once.
import { setTimeout as sleep } from 'node:timers/promises';

/** Resolves to what `check` returns once it no longer throws; after `timeoutMs`, throws its last error. */
export async function eventually<T>(check: () => T | Promise<T>, timeoutMs = 10_000): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await sleep(10);
    }
  }
}
