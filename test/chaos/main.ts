// npm run chaos: a campaign of random faults; or mutants of the library, to check that a campaign notices them.
import { machineMs } from '../support/time.js';
import { readArguments, USAGE, type Arguments } from './arguments.js';
import { noticeInRounds, tryMutants } from './mutants/try-mutants.js';
import { planRound } from './plan-round.js';
import { writeReport } from './report/report.js';
import { StatusLine, Tally } from './report/tally.js';
import { playRound } from './round.js';
import { ServerClock } from './stage/server.js';

if (process.argv.includes('--help')) {
  console.log(USAGE);
  process.exit(0);
}
const args = parsed();
if (!process.env['HOLDFAST_REDIS_SERVER']) {
  console.log(
    'left out: the campaign starts, stops and kills servers, which takes redis-server or valkey-server here',
  );
  process.exit(0);
}
// If it is ended by hand, it kills its processes, including those that are stopped.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.once(signal, () => process.exit(130));
// If it were left to end by itself, Node.js 20 may wait for ever, and busily, for the socket of a server that was killed.
process.exit((await run()) ? 0 : 1);

/** Returns whether all was as it should be. */
function run(): Promise<boolean> {
  const { mutants: names, minutes, beside } = args;
  if (!names) return runCampaign(args);
  return tryMutants({ names, minutes, beside }, (mutant, library) =>
    noticeInRounds(mutant, library, args),
  );
}

function parsed(): Arguments {
  try {
    return readArguments(process.argv.slice(2));
  } catch (error) {
    console.error(`${(error as Error).message.split('. ', 1)[0]!}\n${USAGE}`);
    process.exit(2);
  }
}

// Rounds of all kinds, one after the other or several at a time, until the time is over; and their results.

/** Returns whether all promises were kept. */
async function runCampaign(args: Arguments): Promise<boolean> {
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
