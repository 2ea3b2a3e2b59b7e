// The process of the memory benchmark: its heap before, while and after many wait for a lock. Needs --expose-gc.

import { setTimeout as sleep } from 'node:timers/promises';
import { Holdfast } from './support/built-holdfast.js';
import { serve } from './support/worker.js';
import type { HeapOrder, HeapAnswer } from './support/heap-messages.js';

/** Longer than it takes, so that nothing is renewed meanwhile. */
const LOCK_WATCHDOG_TIMEOUT_MS = 600_000;

const options = { redis: process.argv[2]!, lockWatchdogTimeout: LOCK_WATCHDOG_TIMEOUT_MS };
/** Holds what the other's waiters wait for. */
const holder = new Holdfast(options);
const holdfast = new Holdfast(options);

async function work({ kind, name, waiters }: HeapOrder): Promise<HeapAnswer> {
  const theirs = kind === 'fair' ? holder.getFairLock(name) : holder.getLock(name);
  const hold = await theirs.acquire();
  const patience = new AbortController();
  const before = await heapUsed();

  const lock = kind === 'fair' ? holdfast.getFairLock(name) : holdfast.getLock(name);
  let waiting = 0;
  const count = (): void => {
    waiting++;
  };
  holdfast.on('waiting', count);
  const calls = Array.from({ length: waiters }, () =>
    lock.acquire({ signal: patience.signal }).catch(() => undefined),
  );
  while (waiting < waiters) await sleep(10);
  holdfast.off('waiting', count);
  await lock.isLocked(); // answered after all that they sent
  const during = await heapUsed();

  patience.abort();
  await Promise.all(calls);
  calls.length = 0;
  // Those who gave up are taken out of the line in the background.
  while ((await holder.getFairLock(name).getQueueLength()) > 0) await sleep(10);
  await hold.release();
  const after = await heapUsed();
  return { perWaiter: (during - before) / waiters, left: (after - before) / waiters };
}

/** What is still reachable: collected twice, with a pause for what is freed on a later turn. */
async function heapUsed(): Promise<number> {
  gc!();
  await sleep(50);
  gc!();
  return process.memoryUsage().heapUsed;
}

await holder.getLock('bench:connected').isLocked();
await holdfast.getLock('bench:connected').isLocked();
serve(work);
