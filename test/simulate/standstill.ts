// A loop of promises lets no timer of its thread run, and so would hang the simulator: another thread notices it, and ends the process.
import { writeSync } from 'node:fs';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';

/** One turn of the event loop takes milliseconds. */
const MOST_MS = 60_000;

/** `round`: what is being played. With `isAwaited`, that it stands still is what somebody waits to read, as JSON. */
export function watchForStandstill(round: () => string, isAwaited: boolean): void {
  const watcher = new Worker(new URL(import.meta.url));
  watcher.unref();
  setInterval(() => {
    const where = round();
    const rule = 'a standstill';
    const text = isAwaited
      ? JSON.stringify({ rule, where })
      : `${where}: ${rule} of ${MOST_MS} ms, in a loop of promises`;
    watcher.postMessage(text);
  }, 1_000).unref();
}

if (!isMainThread) {
  let heardAt = performance.now();
  let text = '';
  parentPort?.on('message', (heard: string) => {
    heardAt = performance.now();
    text = heard;
  });
  setInterval(() => {
    if (performance.now() - heardAt < MOST_MS || text === '') return;
    writeSync(1, `${text}\n`); // a console's output would pass through the thread that stands still
    process.kill(process.pid, 'SIGKILL');
  }, 1_000);
}
