// Worker processes queue for one fair lock; one of them is killed while it is first in line, one while it holds the lock.

import { Holdfast } from '../../src/index.js';
import { conclude } from '../support/conclusion.js';
import type { Show } from '../support/show.js';
import { onStage } from '../support/stage.js';
import { createView } from '../support/view.js';
import { frame } from './frame.js';
import { findBug, MORAL, report } from './report.js';
import { FairScene, type FairPlan } from './scene.js';
import { summary } from './summary.js';

const WORKERS = 6;

const PLAN: FairPlan = {
  title: "one fair lock: await holdfast.getFairLock('bank').withLock(transfer)",
  explanation:
    `${WORKERS} processes queue for it; each thinks for 0.1 to 0.3 s inside and then joins again.\n` +
    'After 5 s the one that is first in line is killed, after 11 s the one that holds the lock.',
  lock: 'fair',
  durationMs: 21_000,
  killFirstAfterMs: 5_000,
  killHolderAfterMs: 11_000,
};

export const fairShow: Show = {
  about: 'a line for one fair lock; the first in it is killed, then a holder',
  play: (signal) =>
    onStage({ workers: WORKERS, signal }, async (stage) => {
      await using looking = new Holdfast({ redis: stage.url, keyPrefix: stage.prefix });
      using view = createView({ frame, summary });
      const state = await new FairScene(PLAN, stage, view, looking.getFairLock('bank')).play();
      return conclude(report(state), findBug(state), MORAL);
    }),
};
