// Worker processes transfer money under a lock, and one of them is paused past its lease while it holds it: first the bank takes
// whatever it is told, then it refuses who comes with an older token.

import { conclude } from '../support/conclusion.js';
import type { Show } from '../support/show.js';
import { onStage } from '../support/stage.js';
import { createView } from '../support/view.js';
import { frame } from './frame.js';
import { findBug, MORAL, report } from './report.js';
import { FencedScene, type FencedPlan } from './scene.js';
import { summary } from './summary.js';

const WORKERS = 4;

const TIMES = { pauseAfterMs: 2_000, wakeAfterMs: 7_000, durationMs: 9_000 };

const WITHOUT_TOKENS: FencedPlan = {
  title: "1 of 2: without tokens, holdfast.getLock('bank')",
  explanation:
    `${WORKERS} processes transfer money, one at a time. After 2 s the holder is paused, between its last\n` +
    'look at the lock and its write. After 7 s it wakes up, takes itself for the holder, and writes.',
  lock: 'reentrant',
  ...TIMES,
};

const WITH_TOKENS: FencedPlan = {
  title: "2 of 2: with tokens, holdfast.getFencedLock('bank')",
  explanation:
    'The same. Each holder has a token larger than all before it, and shows it to the bank,\n' +
    'which refuses who comes with a smaller one than it has seen.',
  lock: 'fenced',
  ...TIMES,
};

export const fencedShow: Show = {
  about: 'a paused holder writes late, without and with fencing tokens',
  play: (signal) =>
    onStage({ workers: WORKERS, signal }, async (stage) => {
      using view = createView({ frame, summary });
      const bare = await new FencedScene(WITHOUT_TOKENS, stage, view).play();
      const fenced = await new FencedScene(WITH_TOKENS, stage, view).play();
      return conclude(report(bare, fenced), findBug(bare, fenced), MORAL);
    }),
};
