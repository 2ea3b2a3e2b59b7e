// Rounds of all kinds, one after the other or several at a time, until the time is over; and what they came to.
import { machineMs } from '../support/time.js';
import type { Arguments } from './arguments.js';
import { planRound } from './plan.js';
import { writeReport } from './report/report.js';
import { StatusLine } from './report/status-line.js';
import { Tally } from './report/tally.js';
import { playRound } from './round.js';
import { ServerClock } from './stage/server-clock.js';

/** Returns whether all promises were kept. */
export async function runCampaign(args: Arguments): Promise<boolean> {
  const { kinds, minutes, rounds = Infinity, seed, beside, out, wishes } = args;
  if (ServerClock.unavailable)
    console.log(`left out: servers' clocks do not step (${ServerClock.unavailable})`);
  const endsAt = machineMs() + (args.rounds === undefined ? 60_000 * minutes : Infinity);
  const tally = new Tally();
  using line = new StatusLine(tally, endsAt);
  let begun = 0;
  const play = async (): Promise<void> => {
    while (begun < rounds && machineMs() < endsAt) {
      const number = begun++;
      const plan = planRound(kinds[number % kinds.length]!, seed + number, wishes);
      const result = await playRound(plan, {
        watch: (progress) => {
          line.show(plan, progress);
        },
      });
      line.over(plan);
      tally.add(result);
      if (result.violations.length === 0) continue;
      line.print(writeReport(result, out));
    }
  };
  await Promise.all(Array.from({ length: beside }, play));
  line.clear();
  tally.print();
  return tally.isSound;
}
