// What tests of a failover share: somebody who gets in as soon as the new master lets anybody.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Hold, Lock } from '../../src/index.js';

/** Tries until it gets it, whatever the servers say meanwhile. */
export async function getIn(lock: Lock): Promise<Hold> {
  for (;;) {
    const hold = await lock.tryAcquire({ wait: 200 }).catch(() => undefined);
    if (hold) return hold;
    await sleep(10);
  }
}
