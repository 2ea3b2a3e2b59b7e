// Kept locks in tests: a client that keeps a lock, so that its server says so.
import { expect } from 'vitest';
import type { Holdfast, Lock } from '../../src/index.js';

/** Takes the lock until the client keeps it after its last hold; it then does so for `keep` ms. */
export async function keepLock(client: Holdfast, name: string, keep = 3_000): Promise<Lock> {
  const lock = client.getLock(name, { keep });
  await expect
    .poll(
      async () => {
        await lock.withLock(() => undefined);
        return client.stats().kept;
      },
      { timeout: 10_000 }, // its subscription must stand
    )
    .toBe(1);
  return lock;
}
