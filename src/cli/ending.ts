// How a verb that goes on until somebody ends it learns of its end.

import { setTimeout as sleep } from 'node:timers/promises';

const ENDING: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP'];

/** Ends with Ctrl-C, SIGTERM or SIGHUP, or, if it `readsKeys`, on a terminal with q. */
export function whenEnded(readsKeys = false): {
  readonly signal: AbortSignal;
  /** Resolves when the work is done, or at the end, whose work may fail in silence. */
  unlessEnded(work: Promise<void>): Promise<void>;
  /** Until then, at most so long. */
  sleep(ms: number): Promise<void>;
  /** Nobody listens for the end any more. */
  done(): void;
} {
  const ending = new AbortController();
  const ended = new Promise<void>((resolve) => {
    ending.signal.addEventListener('abort', () => {
      resolve();
    });
  });
  const end = (): void => {
    ending.abort();
  };
  const pressed = (key: Buffer): void => {
    if (['q', '\u0003'].includes(key.toString())) end();
  };
  for (const signal of ENDING) process.once(signal, end);
  const { stdin } = process;
  const isRaw = readsKeys && stdin.isTTY;
  if (isRaw) {
    stdin.setRawMode(true);
    stdin.on('data', pressed);
  }
  return {
    signal: ending.signal,
    unlessEnded: (work) => Promise.race([work, ended]),
    sleep: (ms) => sleep(ms, undefined, { signal: ending.signal }).catch(() => undefined),
    done: () => {
      for (const signal of ENDING) process.off(signal, end);
      if (!isRaw) return;
      stdin.setRawMode(false);
      stdin.off('data', pressed);
      stdin.pause();
    },
  };
}
