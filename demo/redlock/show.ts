// Worker processes transfer money in one Redis under a Redlock on five others, of which three are killed.

import { startMasters } from '../../test/support/redis-topologies.js';
import { conclude } from '../support/conclusion.js';
import { seconds } from '../support/figures.js';
import { LOCK_WATCHDOG_TIMEOUT_MS, MASTER_URLS } from '../support/messages.js';
import type { Show } from '../support/show.js';
import { onStage } from '../support/stage.js';
import { createView } from '../support/view.js';
import { frame } from './frame.js';
import { Master } from './master.js';
import { findBug, moral, report } from './report.js';
import { RedlockScene, type RedlockPlan } from './scene.js';
import { summary } from './summary.js';

const WORKERS = 4;
const MASTERS = 5;

const PLAN: RedlockPlan = {
  title: "one Redlock on five masters: holdfast.getRedLock(...five.map((f) => f.getLock('bank')))",
  explanation:
    `${WORKERS} processes transfer money under it. After 4 s and 7 s a master is killed: three of five\n` +
    'are enough. After 11 s a third one is; after 15 s all three are started again, empty.',
  lock: 'redlock',
  durationMs: 24_000,
  killAfterMs: [4_000, 7_000, 11_000],
  startAgainAfterMs: 15_000,
  guardMs: LOCK_WATCHDOG_TIMEOUT_MS, // the default: the longest lease that a worker was granted
};

export const redlockShow: Show = {
  about: 'a lock on five masters, of which three are killed',
  async play(signal) {
    if (process.env['HOLDFAST_TEST_BACKEND'] === 'none') {
      console.log('This show takes five Redis servers of its own, and none can be started here.');
      return false;
    }
    await using servers = await startMasters(MASTERS);
    const masters = servers.map((server, index) => new Master(`master ${index + 1}`, server));
    console.log(
      `${MASTERS} masters are up; they vote when they have been for ${seconds(PLAN.guardMs, 0)}`,
    );
    const env = { [MASTER_URLS]: servers.map(({ url }) => url).join(' ') };
    return await onStage({ workers: WORKERS, signal, env }, async (stage) => {
      using view = createView({ frame, summary });
      const state = await new RedlockScene(PLAN, stage, view, masters).play();
      return conclude(report(state), findBug(state), moral(PLAN));
    });
  },
};
