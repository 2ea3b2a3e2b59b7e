// npm run chaos: a campaign of random faults; or mutants of the library, to see that a campaign notices them; or overload.
import { readArguments, USAGE, type Arguments } from './arguments.js';
import { runCampaign } from './campaign.js';
import { overload } from './overload/overload.js';
import { tryMutants } from './mutants/try-mutants.js';

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
// Ended by hand, it takes its processes with it, also those that are stopped just then.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.once(signal, () => process.exit(130));
// Left to end by itself, Node.js 20 may wait without end, and busily, for the socket of a server that was killed.
process.exit((await run(args)) ? 0 : 1);

/** Returns whether all was as it should be. */
function run(args: Arguments): Promise<boolean> {
  if (args.mutants) return tryMutants(args);
  if (args.overload) return overload(args.overload);
  return runCampaign(args);
}

function parsed(): Arguments {
  try {
    return readArguments(process.argv.slice(2));
  } catch (error) {
    console.error(`${(error as Error).message.split('. ', 1)[0]!}\n${USAGE}`);
    process.exit(2);
  }
}
