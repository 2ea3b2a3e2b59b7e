// What the latency benchmarks of the Redlock compare: the clients, and a floor that a lock on several masters cannot get
// below when it waits for all of them.

import { bareLock, type Contender } from '../support/contenders.js';
import { openRedClient, type RedKind } from '../support/red-clients.js';

/** The bare lock on every master, all at the same time: it takes as long as the slowest of them. */
export async function barePairs(urls: readonly string[]): Promise<Contender> {
  const locks = await Promise.all(urls.map(bareLock));
  return {
    name: `the slowest of ${urls.length} x SET NX PX + compare-and-delete`,
    async operation(key) {
      await Promise.all(locks.map((lock) => lock.operation(key)));
    },
    async close() {
      await Promise.all(locks.map((lock) => lock.close()));
    },
  };
}

export async function acquireAndRelease(
  kind: RedKind,
  urls: readonly string[],
): Promise<Contender> {
  const client = await openRedClient(kind, urls);
  return {
    name: `${kind} acquire + release`,
    async operation(key) {
      const release = await client.acquire(key);
      await release!();
    },
    close: () => client.close(),
  };
}

export async function inside(kind: RedKind, urls: readonly string[]): Promise<Contender> {
  const client = await openRedClient(kind, urls);
  return {
    name: kind === 'holdfast' ? 'holdfast withLock' : 'npm redlock using',
    operation: (key) => client.withLock(key, doNothing),
    close: () => client.close(),
  };
}

/** How long one operation takes, in milliseconds. */
export async function operationMs(contender: Contender, key: string): Promise<number> {
  const startMs = performance.now();
  await contender.operation(key);
  return performance.now() - startMs;
}

async function doNothing(): Promise<void> {
  // The lock is what is measured.
}
