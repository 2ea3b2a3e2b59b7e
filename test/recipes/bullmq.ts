// Jobs of one customer one at a time, those of different customers side by side. A job that finds its customer busy goes back
// to the queue instead of keeping a worker waiting.
import { DelayedError, Worker, type ConnectionOptions, type Job } from 'bullmq';
import { LockTimeoutError, type Holdfast } from '../../src/index.js';

const BUSY_RETRY_MS = 500;

export function customerWorker(
  holdfast: Holdfast,
  queue: string,
  connection: ConnectionOptions,
  handle: (job: Job<{ customer: string }>, signal: AbortSignal) => Promise<void>,
): Worker<{ customer: string }> {
  const process = async (job: Job<{ customer: string }>, token?: string): Promise<void> => {
    const lock = holdfast.getLock(`customer:${job.data.customer}`);
    try {
      await lock.withLock({ wait: 0 }, (hold) => handle(job, hold.signal));
    } catch (error) {
      const isBusy = error instanceof LockTimeoutError && error.lockName === lock.name;
      if (!isBusy) throw error; // the job's own error, as BullMQ has to see it
      await job.moveToDelayed(Date.now() + BUSY_RETRY_MS, token);
      throw new DelayedError(); // tells BullMQ that the job was moved, not done
    }
  };
  return new Worker(queue, process, { connection, concurrency: 16 });
}
