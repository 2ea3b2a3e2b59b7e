// Jobs of one customer one at a time. A job that finds its customer busy, or Redis down, comes back later instead of keeping a worker waiting.
import type { Task } from 'graphile-worker';
import { LockTimeoutError, UnavailableError, type Holdfast } from '../../src/index.js';

const RETRY_MS = 500;

export function perCustomer(
  holdfast: Holdfast,
  handle: (customer: string, signal: AbortSignal) => Promise<void>,
): Task {
  return async (payload, { job, addJob }) => {
    const { customer } = payload as { customer: string };
    const progress = { hasBegun: false };
    try {
      await holdfast.getLock(`customer:${customer}`).withLock({ wait: 0 }, async ({ signal }) => {
        progress.hasBegun = true;
        await handle(customer, signal);
      });
    } catch (error) {
      const isBusy = error instanceof LockTimeoutError || error instanceof UnavailableError;
      if (progress.hasBegun || !isBusy) throw error; // the job's own error, as graphile-worker has to see it
      await addJob(job.task_identifier, payload, {
        runAt: new Date(Date.now() + RETRY_MS),
        maxAttempts: job.max_attempts - job.attempts + 1, // this one does not count
        priority: job.priority,
      });
    }
  };
}
