// Jobs of one customer one at a time, those of different customers side by side. A job that finds its customer busy goes back
// to the queue instead of keeping a worker waiting.
import { DelayedError, Worker, type ConnectionOptions, type Job } from 'bullmq';
import type { Holdfast } from '../../src/index.js';

const BUSY_RETRY_MS = 500;

export function customerWorker(
  holdfast: Holdfast,
  queue: string,
  connection: ConnectionOptions,
  handle: (job: Job<{ customer: string }>, signal: AbortSignal) => Promise<void>,
): Worker<{ customer: string }> {
  const process = async (job: Job<{ customer: string }>, token?: string): Promise<void> => {
    await using hold = await holdfast.getLock(`customer:${job.data.customer}`).tryAcquire();
    if (!hold) {
      await job.moveToDelayed(Date.now() + BUSY_RETRY_MS, token);
      throw new DelayedError(); // tells BullMQ that the job was moved, not done
    }
    await handle(job, hold.signal);
  };
  return new Worker(queue, process, { connection, concurrency: 16 });
}
