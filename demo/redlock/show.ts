// Worker processes transfer money in one Redis under a Redlock on five others, of which three are killed.

import { startMasters } from '../../test/support/redis-topologies.js';
import { seconds } from '../figures.js';
import { LOCK_WATCHDOG_TIMEOUT_MS, MASTER_URLS } from '../messages.js';
import type { Show } from '../show.js';
import { onStage } from '../stage.js';
import { Master } from './master.js';
import { report, verdict } from './report.js';
import { Run, type RunPlan } from './run.js';
import { createView } from './view.js';

const WORKERS = 4;
const MASTERS = 5;

const PLAN: RunPlan = {
  title: "one Redlock on five masters: holdfast.getRedLock(...five.map((f) => f.getLock('bank')))",
  explanation:
    `${WORKERS} processes transfer money under it. After 4 s and 7 s a master is killed: three of five\n` +
    'are enough. After 11 s a third one is; after 15 s all three are started again, empty.',
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
    const play: Parameters<typeof onStage<boolean>>[2] = async ({ crew, bank }) => {
      const view = createView();
      try {
        const state = await new Run(PLAN, crew, bank, masters, view).toEnd(signal);
        const { isGood, text } = verdict(state);
        console.log(`${report(state)}\n${text}`);
        return isGood;
      } finally {
        view.close();
      }
    };
    return await onStage(WORKERS, signal, play, env);
  },
};
