// A value that takes long to load is loaded by one caller at a time, over all processes. Callers that find no value wait for
// that caller. Callers that find an old value use it meanwhile.
import type { Redis } from 'ioredis';
import type { Holdfast } from '../../src/index.js';

const TTL_MS = 60_000;
/** A value that has less than this to live is loaded again, before it is gone. */
const OLD_MS = 15_000;

export function cached(
  holdfast: Holdfast,
  redis: Redis,
  load: (key: string) => Promise<string>,
): (key: string) => Promise<string> {
  const loads = new Map<string, Promise<string>>();

  return async function get(key: string): Promise<string> {
    const [value, leftMs] = await Promise.all([redis.get(key), redis.pttl(key)]);
    if (value === null) return await loadOnce(key);
    if (leftMs < OLD_MS) {
      void holdfast
        .detach(() => refresh(key))
        .catch((error: unknown) => {
          console.error(`${key} not refreshed:`, error);
        });
    }
    return value;
  };

  /** Of this process, one caller waits for the lock, and the others wait for that caller. */
  function loadOnce(key: string): Promise<string> {
    const known = loads.get(key);
    if (known) return known;
    // Outside all scopes, since calls of other requests share it.
    const loading = holdfast.detach(() => loadUnderLock(key)).finally(() => loads.delete(key));
    loads.set(key, loading);
    return loading;
  }

  async function loadUnderLock(key: string): Promise<string> {
    return await holdfast.getLock(`load:${key}`).withLock({ wait: 10_000 }, async () => {
      const value = await redis.get(key); // another process may have loaded it while this one waited
      return value ?? (await loadAndStore(key));
    });
  }

  async function refresh(key: string): Promise<void> {
    const hold = await holdfast.getLock(`load:${key}`).tryAcquire();
    if (!hold) return; // another caller refreshes it
    try {
      const leftMs = await redis.pttl(key); // another caller may just have refreshed it
      if (leftMs < OLD_MS) await loadAndStore(key);
    } finally {
      await hold.release();
    }
  }

  async function loadAndStore(key: string): Promise<string> {
    const value = await load(key);
    await redis.set(key, value, 'PX', TTL_MS);
    return value;
  }
}
