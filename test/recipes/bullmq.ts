// Jobs of one customer one at a time, or up to a number of them, and those of different customers side by side. A job that finds its customer
// busy, or Redis down, goes back to the queue instead of keeping a worker waiting.
import { DelayedError, Worker, type ConnectionOptions, type Job } from 'bullmq';
import { LockTimeoutError, UnavailableError, type Holdfast } from '../../src/index.js';

const RETRY_MS = 500;

interface Customer {
  customer: string;
}
type Handle = (job: Job<Customer>, signal: AbortSignal) => Promise<void>;
type Work = ({ signal }: { signal: AbortSignal }) => Promise<void>;

/** One job of each customer at a time. */
export function customerWorker(
  holdfast: Holdfast,
  queue: string,
  connection: ConnectionOptions,
  handle: Handle,
): Worker<Customer> {
  return workerOf(queue, connection, handle, async (customer, work) => {
    await holdfast.getLock(`customer:${customer}`).withLock({ wait: 0 }, work);
  });
}

/** Up to `permits` jobs of each customer at a time. */
export function groupWorker(
  holdfast: Holdfast,
  queue: string,
  connection: ConnectionOptions,
  permits: number,
  handle: Handle,
): Worker<Customer> {
  return workerOf(queue, connection, handle, async (customer, work) => {
    const group = holdfast.getSemaphore(`customers:${customer}`, { permits });
    await group.withPermits({ wait: 0 }, work);
  });
}

function workerOf(
  queue: string,
  connection: ConnectionOptions,
  handle: Handle,
  inTurn: (customer: string, work: Work) => Promise<void>,
): Worker<Customer> {
  const process = async (job: Job<Customer>, token?: string): Promise<void> => {
    const progress = { hasBegun: false };
    try {
      await inTurn(job.data.customer, async ({ signal }) => {
        progress.hasBegun = true;
        await handle(job, signal);
      });
    } catch (error) {
      const isBusy = error instanceof LockTimeoutError || error instanceof UnavailableError;
      if (progress.hasBegun || !isBusy) throw error; // the job's own error, as BullMQ has to see it
      await job.moveToDelayed(Date.now() + RETRY_MS, token);
      throw new DelayedError(); // tells BullMQ that the job was moved, not done
    }
  };
  return new Worker(queue, process, { connection, concurrency: 16 });
}
