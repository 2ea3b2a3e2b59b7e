// Worker processes transfer money in one Redis, first without locks, then under holdfast, where one of them is killed
// while it holds the lock.

import type { Show } from '../show.js';
import { onStage } from '../stage.js';
import { Phase, type PhasePlan } from './phase.js';
import { report, verdict } from './report.js';
import { createView } from './view.js';

const WORKERS = 5;

const WITHOUT_LOCKS: PhasePlan = {
  title: '1 of 2: without locks',
  explanation:
    `${WORKERS} processes each read two balances, think for 10 to 30 ms, write both back.
` + 'Money vanishes, or comes from nowhere.',
  lock: 'none',
  durationMs: 7_000,
};

const UNDER_HOLDFAST: PhasePlan = {
  title: '2 of 2: under holdfast, await lock.withLock(transfer)',
  explanation:
    'The same, one at a time. After 4 s the process that holds the lock is killed\n' +
    'in the middle of a transfer.',
  lock: 'reentrant',
  durationMs: 14_000,
  killAfterMs: 4_000,
};

export const transfersShow: Show = {
  about: 'transfers without and with locks; a holder is killed',
  play: (signal) =>
    onStage(WORKERS, signal, async ({ crew, bank }) => {
      const view = createView();
      try {
        const bare = await new Phase(WITHOUT_LOCKS, crew, bank, view).run(signal);
        const locked = await new Phase(UNDER_HOLDFAST, crew, bank, view).run(signal);
        const { isGood, text } = verdict(locked);
        console.log(`${report(bare, locked)}\n${text}`);
        return isGood;
      } finally {
        view.close();
      }
    }),
};
