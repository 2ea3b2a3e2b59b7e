// Worker processes queue for one fair lock; one of them is killed while it is first in line, one while it holds the lock.

import { Holdfast } from '../../src/index.js';
import type { Show } from '../show.js';
import { onStage } from '../stage.js';
import { report, verdict } from './report.js';
import { Run, type RunPlan } from './run.js';
import { createView } from './view.js';

const WORKERS = 6;

const PLAN: RunPlan = {
  title: "one fair lock: await holdfast.getFairLock('bank').withLock(transfer)",
  explanation:
    `${WORKERS} processes queue for it; each thinks for 0.1 to 0.3 s inside and then joins again.\n` +
    'After 5 s the one that is first in line is killed, after 11 s the one that holds the lock.',
  durationMs: 21_000,
  killFirstAfterMs: 5_000,
  killHolderAfterMs: 11_000,
};

export const fairShow: Show = {
  about: 'a line for one fair lock; the first in it is killed, then a holder',
  play: (signal) =>
    onStage(WORKERS, signal, async ({ url, prefix, crew, bank }) => {
      await using looking = new Holdfast({ redis: url, keyPrefix: prefix });
      const view = createView();
      try {
        const run = new Run(PLAN, crew, bank, looking.getFairLock('bank'), view);
        const state = await run.toEnd(signal);
        const { isGood, text } = verdict(state);
        console.log(`${report(state)}\n${text}`);
        return isGood;
      } finally {
        view.close();
      }
    }),
};
