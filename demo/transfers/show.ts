// Worker processes transfer money in one Redis, first without locks, then under holdfast, where one of them is killed
// while it holds the lock.

import { conclude } from '../support/conclusion.js';
import type { Show } from '../support/show.js';
import { onStage } from '../support/stage.js';
import { createView } from '../support/view.js';
import { frame } from './frame.js';
import { findBug, MORAL, report } from './report.js';
import { TransfersScene, type TransfersPlan } from './scene.js';
import { summary } from './summary.js';

const WORKERS = 5;

const WITHOUT_LOCKS: TransfersPlan = {
  title: '1 of 2: without locks',
  explanation:
    `${WORKERS} processes each read two balances, think for 10 to 30 ms, write both back.\n` +
    'Money vanishes, or comes from nowhere.',
  lock: 'none',
  durationMs: 7_000,
};

const UNDER_HOLDFAST: TransfersPlan = {
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
    onStage({ workers: WORKERS, signal }, async (stage) => {
      using view = createView({ frame, summary });
      const bare = await new TransfersScene(WITHOUT_LOCKS, stage, view).play();
      const locked = await new TransfersScene(UNDER_HOLDFAST, stage, view).play();
      return conclude(report(bare, locked), findBug(locked), MORAL);
    }),
};
