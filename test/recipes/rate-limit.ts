// At most ten calls begin in any second, over all processes: each call keeps its permit for at least a second.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Holdfast } from '../../src/index.js';

const CALLS = 10;
const PER_MS = 1_000;

export async function callAtRate<T>(
  holdfast: Holdfast,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const partner = holdfast.getSemaphore('rate:partner', { permits: CALLS });
  const hold = await partner.acquire({ wait: 30_000 });
  const isOver = sleep(PER_MS);
  try {
    return await call(hold.signal);
  } finally {
    // The caller has its result at once; the permit goes back when the second is over.
    void isOver
      .then(() => hold.release())
      .catch((error: unknown) => {
        console.error('the permit was lost:', error);
      });
  }
}
