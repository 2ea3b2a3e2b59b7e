// npm run bench: runs all benchmarks, or those that are named; --smoke runs each only long enough to see that it works.

import { randomBytes } from 'node:crypto';
import { parseArgs } from 'node:util';
import { givenRedis } from '../test/support/given-redis.js';
import { commands } from './commands.js';
import { contended } from './contended.js';
import type { Benchmark } from './support/benchmark.js';
import { describeMachine } from './support/machine.js';
import { uncontended } from './uncontended.js';

const BENCHMARKS: readonly Benchmark[] = [uncontended, contended, commands];

const { values, positionals } = parseArgs({
  options: { smoke: { type: 'boolean', default: false } },
  allowPositionals: true,
});
const unknown = positionals.filter(
  (name) => !BENCHMARKS.some((benchmark) => benchmark.name === name),
);
if (unknown.length > 0) {
  console.error(
    `no benchmark "${unknown.join('", "')}": there are ${BENCHMARKS.map(({ name }) => name).join(', ')}`,
  );
  process.exit(2);
}
const chosen = BENCHMARKS.filter(
  ({ name }) => positionals.length === 0 || positionals.includes(name),
);

await using redis = await givenRedis();
console.log(await describeMachine(redis.url));
for (const benchmark of chosen) {
  const keyPrefix = `bench:${randomBytes(4).toString('hex')}:`;
  const isSound = await benchmark.run({ url: redis.url, keyPrefix, isSmoke: values.smoke });
  if (!isSound) process.exitCode = 1;
}
