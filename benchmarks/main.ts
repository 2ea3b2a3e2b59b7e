// npm run bench: measures all rows, or the named ones, and compares holdfast with its targets.

import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import { parseArgs } from 'node:util';
import { givenRedis, UnusableRedisError } from '../test/support/given-redis.js';
import { redissonContenders } from './redisson/redisson.js';
import { Results } from './report/results.js';
import { printTargets } from './report/case.js';
import { contended } from './rows/contended.js';
import { handOver } from './rows/hand-over.js';
import { holds } from './rows/holds.js';
import { kept } from './rows/kept.js';
import { line } from './rows/line.js';
import { losses } from './rows/losses.js';
import { libraries, token, uncontended } from './rows/pairs.js';
import { redlock } from './rows/redlock.js';
import { Progress, type Effort, type Row } from './rows/row.js';
import { readWrite, semaphore } from './rows/shared.js';
import { waiters } from './rows/waiters.js';
import { describeMachine } from './support/machine.js';

const ROWS: readonly Row[] = [
  uncontended,
  token,
  libraries,
  contended,
  handOver,
  kept,
  waiters,
  holds,
  line,
  semaphore,
  readWrite,
  redlock,
  losses,
];

const USAGE = `usage: npm run bench -- [--quick | --smoke] [row ...]

  --quick  all rows within 90 s: fewer contenders, cases and rounds
  --smoke  only long enough to see that every row works

${ROWS.map(({ name, what }) => `  ${name.padEnd(12)}${what}`).join('\n')}`;

const { values, positionals } = parseArguments();
const unknown = positionals.find((name) => !ROWS.some((row) => row.name === name));
if (unknown !== undefined) refuse(`there is no row "${unknown}"`);
const effort: Effort = values.smoke ? 'smoke' : values.quick ? 'quick' : 'full';
const rows = ROWS.filter(({ name }) => positionals.length === 0 || positionals.includes(name));

await using redis = await givenRedis().catch(failPlainly);
const machine = await describeMachine(redis.url);
for (const [what, value] of Object.entries(machine)) console.log(`${what.padEnd(12)}${value}`);
// A Java process takes longer to start and to warm up than a quick run may take.
const javas = effort === 'full' ? redissonContenders() : [];
const redisson = javas.filter(({ isShared }) => !isShared);
const redissonReadWrite = javas.filter(({ isShared }) => isShared);
const keyPrefix = `bench:${randomBytes(4).toString('hex')}:`;
const progress = new Progress();
const connection = new Redis(redis.url);
const results = new Results(machine, effort);
const failed: string[] = [];
for (const row of rows) {
  const kinds = { redisson, redissonReadWrite };
  const context = { url: redis.url, redis: connection, keyPrefix, effort, ...kinds, progress };
  try {
    results.add(row.name, await row.run(context));
  } catch (error) {
    // The results of the other rows are valid without this one.
    progress.clear();
    console.error(`FAILED: ${row.name}:`, error);
    failed.push(row.name);
  }
}
progress.clear();
connection.disconnect();
printTargets(results.targets);
for (const violation of results.violations) console.error(`VIOLATED: ${violation}`);
for (const name of failed) console.error(`FAILED: ${name}, see above`);
if (results.violations.length > 0 || failed.length > 0) process.exitCode = 1;
const isWhole = effort === 'full' && rows.length === ROWS.length && failed.length === 0;
const folder = new URL(isWhole ? 'results/' : 'results/partial/', import.meta.url);
for (const file of effort === 'smoke' ? results.draw() : results.write(folder)) {
  console.log(`${effort === 'smoke' ? 'drew' : 'wrote'} ${file}`);
}

function parseArguments(): {
  values: { smoke: boolean; quick: boolean };
  positionals: string[];
} {
  try {
    return parseArgs({
      options: {
        smoke: { type: 'boolean', default: false },
        quick: { type: 'boolean', default: false },
      },
      allowPositionals: true,
    });
  } catch (error) {
    // After the first sentence the message is about positional arguments that begin with a dash.
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
