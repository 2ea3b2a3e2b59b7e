// A request takes the lock and answers at once; a worker process goes on with the lock, and releases it.
import type { Hold, Holdfast } from '../../src/index.js';

/** A job for a worker, as it goes through a queue of yours. */
export interface Job {
  readonly order: string;
  /** The hold of the order. Whoever has this text can take it: do not log it. */
  readonly hold: string;
}

/** How long a job may wait for its worker. After that the order is free again. */
const LONGEST_IN_QUEUE_MS = 60_000;

/** In the web process. Returns false if somebody works on this order already. */
export async function order(
  holdfast: Holdfast,
  id: string,
  enqueue: (job: Job) => Promise<void>,
): Promise<boolean> {
  // If the export fails, the hold goes on here, and ends with this function. After the export there is nothing to release.
  await using hold = await holdfast.getLock(`orders:${id}`).tryAcquire();
  if (!hold) return false;
  await enqueue({ order: id, hold: await hold.export({ lease: LONGEST_IN_QUEUE_MS }) });
  return true;
}

/** In the worker. Throws a LockLostError if the job waited for too long, or comes a second time. */
export async function work(
  holdfast: Holdfast,
  job: Job,
  process: (order: string, hold: Hold) => Promise<void>,
): Promise<void> {
  await using hold = await holdfast.adopt(job.hold);
  await process(job.order, hold);
}
