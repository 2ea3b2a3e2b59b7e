// Of all processes, one runs the schedule; when it ends or is cut off, another one does.
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cron } from 'croner';
import type { Holdfast } from '../../src/index.js';

export async function runSchedule(
  holdfast: Holdfast,
  pattern: string,
  task: (signal: AbortSignal) => Promise<void>,
  stop: AbortSignal,
): Promise<void> {
  const leader = holdfast.getLock('cron:leader');
  for (;;) {
    try {
      await leader.withLock({ wait: Infinity, signal: stop }, async (hold) => {
        const end = AbortSignal.any([stop, hold.signal]); // told to stop, or not the leader any more
        const run = async (): Promise<void> => {
          if (hold.signal.aborted) return; // asks the clock; `end` waits for a timer, which may be late
          await task(end).catch((error: unknown) => {
            console.error('the task failed:', error);
          });
        };
        let running = Promise.resolve();
        const job = new Cron(pattern, { protect: true }, () => (running = run()));
        if (!end.aborted) await once(end, 'abort');
        job.stop();
        await running; // the next leader begins when the last run has ended
      });
    } catch (error) {
      // The lock was lost, or Redis could not be asked.
      if (!stop.aborted) console.error('not the leader:', error);
    }
    if (stop.aborted) return;
    await sleep(1_000, undefined, { signal: stop }).catch(() => undefined);
  }
}
