// A loop of promises lets no timer of its thread run, and so would hang the simulator: another thread notices it, and ends the process.
import { Worker } from 'node:worker_threads';

/** A turn of the event loop takes milliseconds. */
const MOST_MS = 60_000;

const WATCHER = `
  const { parentPort } = require('node:worker_threads');
  let [heardAt, text] = [performance.now(), ''];
  parentPort.on('message', (heard) => {
    heardAt = performance.now();
    text = heard;
  });
  setInterval(() => {
    if (performance.now() - heardAt < ${MOST_MS}) return;
    require('node:fs').writeSync(1, text + '\\n'); // what a console prints would pass through the thread that stands still
    process.kill(process.pid, 'SIGKILL');
  }, 1_000);
`;

/** `text`: what is printed if the present round stands still. */
export function watchForStandstill(text: (rule: string) => string): void {
  const watcher = new Worker(WATCHER, { eval: true, execArgv: [] });
  watcher.unref();
  setInterval(() => {
    watcher.postMessage(text('a standstill'));
  }, 1_000).unref();
}
