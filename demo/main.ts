// npm run demo: plays one of the shows; npm run demo -- --help lists them.

import { parseArgs } from 'node:util';
import { UnusableRedisError } from '../test/support/given-redis.js';
import { fairShow } from './scenes/fair.js';
import { fencedShow } from './scenes/fenced.js';
import { keptShow } from './scenes/kept.js';
import { readersShow } from './scenes/readers.js';
import { redlockShow } from './scenes/redlock.js';
import type { Show } from './support/stage.js';
import { transfersShow } from './scenes/transfers.js';

/** The show for each option; '' is the show without an option. */
const SHOWS = new Map<string, Show>([
  ['', transfersShow],
  ['fair', fairShow],
  ['redlock', redlockShow],
  ['fenced', fencedShow],
  ['readers', readersShow],
  ['kept', keptShow],
]);

const USAGE = [...SHOWS]
  .map(([option, { about }], index) => {
    const command = `npm run demo${option && ` -- --${option}`}`;
    return `${index === 0 ? 'usage:' : '      '} ${command.padEnd(28)}${about}`;
  })
  .join('\n');

const interrupted = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    interrupted.abort();
  });
}

try {
  process.exitCode = (await chosenShow().play(interrupted.signal)) ? 0 : 1;
} catch (error) {
  const why = error instanceof UnusableRedisError ? error.message : error;
  if (!interrupted.signal.aborted) console.error('the demo failed:', why);
  process.exitCode = interrupted.signal.aborted ? 130 : 1;
}

function chosenShow(): Show {
  const options = [...SHOWS.keys()].filter((option) => option !== '');
  const chosen = givenOptions([...options, 'help']);
  if (chosen.includes('help')) {
    console.log(USAGE);
    process.exit(0);
  }
  if (chosen.length > 1) refuse(`one show at a time, not --${chosen.join(' and --')}`);
  return SHOWS.get(chosen[0] ?? '')!;
}

function givenOptions(known: readonly string[]): string[] {
  try {
    const options = Object.fromEntries(known.map((name) => [name, { type: 'boolean' as const }]));
    return Object.keys(parseArgs({ options }).values);
  } catch (error) {
    // What follows the first sentence is about positional arguments, of which there are none.
    return refuse((error as Error).message.split('. ', 1)[0]!);
  }
}

function refuse(why: string): never {
  console.error(`${why}\n${USAGE}`);
  process.exit(2);
}
