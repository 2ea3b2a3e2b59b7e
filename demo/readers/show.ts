// Worker processes read accounts, all at the same time, while others write them in two steps: first without a lock, then under a
// read-write lock, where one that reads and one that writes are killed.

import { conclude } from '../support/conclusion.js';
import type { Show } from '../support/show.js';
import { onStage } from '../support/stage.js';
import { createView } from '../support/view.js';
import { frame } from './frame.js';
import { findBug, MORAL, report } from './report.js';
import { ReadersScene, type ReadersPlan } from './scene.js';
import { summary } from './summary.js';

const WORKERS = 6;

const WITHOUT_LOCKS: ReadersPlan = {
  title: '1 of 2: without locks',
  explanation:
    '4 processes add up all accounts over and over, without a pause; 2 move money now and then,\n' +
    'in two steps. Who adds up between the two gets a wrong sum.',
  lock: 'none',
  durationMs: 5_000,
};

const UNDER_HOLDFAST: ReadersPlan = {
  title: "2 of 2: holdfast.getReadWriteLock('bank')",
  explanation:
    'The same: who adds up holds readLock(), who moves money writeLock(). After 4 s one that reads\n' +
    'is killed, after 10 s one that writes.',
  lock: 'read-write',
  durationMs: 16_000,
  kills: { reader: 4_000, writer: 10_000 },
};

export const readersShow: Show = {
  about: 'readers that never pause, and writers among them; one of each is killed',
  play: (signal) =>
    onStage({ workers: WORKERS, signal }, async (stage) => {
      using view = createView({ frame, summary });
      const bare = await new ReadersScene(WITHOUT_LOCKS, stage, view).play();
      const locked = await new ReadersScene(UNDER_HOLDFAST, stage, view).play();
      return conclude(report(bare, locked), findBug(bare, locked), MORAL);
    }),
};
