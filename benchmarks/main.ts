// npm run bench: runs all benchmarks, or those that are named; --smoke runs each only long enough to see that it works.

import { randomBytes } from 'node:crypto';
import { parseArgs } from 'node:util';
import { givenRedis, UnusableRedisError } from '../test/support/given-redis.js';
import { commands } from './commands.js';
import { contended } from './contended.js';
import { fair } from './fair.js';
import { redlock } from './redlock.js';
import type { Benchmark } from './support/benchmark.js';
import { describeMachine } from './support/machine.js';
import { uncontended } from './uncontended.js';

const BENCHMARKS: readonly Benchmark[] = [uncontended, contended, commands, fair, redlock];

const USAGE = `usage: npm run bench -- [--smoke] [${BENCHMARKS.map(({ name }) => name).join('] [')}]`;

const { values, positionals } = parseArguments();
const unknown = positionals.find((name) => !BENCHMARKS.some((known) => known.name === name));
if (unknown !== undefined) refuse(`there is no benchmark "${unknown}"`);
const chosen = BENCHMARKS.filter(
  ({ name }) => positionals.length === 0 || positionals.includes(name),
);

await using redis = await givenRedis().catch(failPlainly);
console.log(await describeMachine(redis.url));
for (const benchmark of chosen) {
  const keyPrefix = `bench:${randomBytes(4).toString('hex')}:`;
  const isSound = await benchmark.run({ url: redis.url, keyPrefix, isSmoke: values.smoke });
  if (!isSound) process.exitCode = 1;
}

function parseArguments(): { values: { smoke: boolean }; positionals: string[] } {
  try {
    return parseArgs({
      options: { smoke: { type: 'boolean', default: false } },
      allowPositionals: true,
    });
  } catch (error) {
    // What follows the first sentence is about positional arguments that begin with a dash.
    return refuse((error as Error).message.split('. ', 1)[0]!);
  }
}

function failPlainly(error: unknown): never {
  if (!(error instanceof UnusableRedisError)) throw error;
  console.error(error.message);
  process.exit(1);
}

function refuse(why: string): never {
  console.error(`${why}\n${USAGE}`);
  process.exit(2);
}
