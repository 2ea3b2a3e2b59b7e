// npm run model: searches the model of the fair line with spin and a C compiler, and sees that every mutant of it is caught.
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { parseArgs } from 'node:util';
import { configurations, mutants } from './configurations.mjs';

const MAX_DEPTH = 1_000_000;
const LIMIT_MS = 30 * 60_000;
const SEARCH = ['SAFETY', 'NOREDUCE', 'NOFAIR', 'NOBOUNDCHECK', 'MEMLIM=8000'];

const { values: options } = parseArgs({
  options: {
    big: { type: 'boolean', default: false },
    mutants: { type: 'boolean', default: false },
    trail: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
if (options.help) {
  console.log(`npm run model [-- --big | --mutants | --trail NAME]

  (nothing)     the configurations that are searched in a minute or two, and the mutants
  --big         the bigger configurations, too: some more minutes, 2 GB
  --mutants     only the mutants
  --trail NAME  the shortest way in which a mutant, or a configuration, breaks a promise`);
  process.exit(0);
}

const missing = [
  ['spin', '-V'],
  ['cc', '--version'],
]
  .filter(([command, argument]) => spawnSync(command, [argument]).error)
  .map(([command]) => command);
if (missing.length > 0) {
  console.log(`The model of the fair line is not searched: ${missing.join(' and ')} not found.`);
  console.log('(Debian and Ubuntu: apt-get install spin gcc libc6-dev.)');
  process.exit(0);
}

const directory = mkdtempSync(join(tmpdir(), 'holdfast-model-'));
process.on('exit', () => rmSync(directory, { recursive: true, force: true }));
for (const file of ['fair-line.pml', 'calm.pml']) {
  copyFileSync(new URL(file, import.meta.url), join(directory, file));
}

const hasFailed = options.trail === undefined ? searchAll() : printTrail(options.trail);
process.exitCode = hasFailed ? 1 : 0;

/** Whether anything was not as expected. */
function searchAll() {
  let failures = 0;
  const chosen = options.mutants ? [] : configurations.filter(({ isBig }) => !isBig || options.big);
  for (const { name, defines, isShort } of chosen) {
    const found = search(defines, { isShort });
    const holds = found.isComplete && !found.broken;
    if (!holds) failures++;
    const verdict = found.broken
      ? `BREAKS ${found.broken}`
      : found.isComplete
        ? 'complete, holds'
        : `NOT COMPLETE: ${found.trouble}`;
    console.log(`${verdict.padEnd(34)} ${figures(found)}  ${name} (${defines.join(' ')})`);
  }
  for (const mutant of mutants) {
    const found = search(definesOf(mutant), { isBreadthFirst: true, isShort: true });
    const isAsExpected = mutant.caughtBy
      ? found.broken === mutant.caughtBy
      : found.isComplete && !found.broken;
    if (!isAsExpected) failures++;
    const verdict = found.broken
      ? `caught: ${found.broken}`
      : found.isComplete
        ? 'passes'
        : `NOT COMPLETE: ${found.trouble}`;
    const note = isAsExpected ? '' : `  EXPECTED: ${mutant.caughtBy ?? 'to pass'}`;
    const why = mutant.why ? `; as expected: ${mutant.why}` : '';
    const text = `mutant ${mutant.name}: ${mutant.what}${why}`;
    console.log(`${verdict.padEnd(34)} ${figures(found)}  ${text}${note}`);
  }
  const seconds = (performance.now() / 1_000).toFixed(0);
  const of = `${chosen.length} configurations and ${mutants.length} mutants in ${seconds} s`;
  console.log(failures > 0 ? `${failures} of ${of} not as expected` : `${of}: as expected`);
  return failures > 0;
}

/** Whether there was none. */
function printTrail(name) {
  const mutant = mutants.find((candidate) => candidate.name === name);
  const configuration = configurations.find((candidate) => candidate.name === name);
  if (!mutant && !configuration) {
    const names = [...mutants, ...configurations].map((candidate) => candidate.name);
    console.error(`There is no "${name}". There are: ${names.join(', ')}.`);
    return true;
  }
  const defines = mutant ? definesOf(mutant) : configuration.defines;
  const { broken } = search(defines, { isBreadthFirst: true });
  if (!broken) {
    console.error(`${name} breaks no promise: there is no trail.`);
    return true;
  }
  const { stdout } = run('./pan', ['-r', '-S']);
  const steps = stdout.split('\n');
  console.log(steps.slice(0, 1 + steps.findIndex((line) => line.startsWith('pan:'))).join('\n'));
  return false;
}

function definesOf({ name, defines }) {
  return [`MUTANT_${name}`, ...defines];
}

/**
 * By depth it is faster; by breadth the first trail that is found is a shortest one.
 * @param {string[]} defines
 */
function search(defines, { isBreadthFirst = false, isShort = false } = {}) {
  const model = isBreadthFirst ? [...defines, 'BREADTH'] : defines;
  run('spin', ['-a', ...model.map((define) => `-D${define}`), 'fair-line.pml']);
  const flags = isBreadthFirst ? [...SEARCH, 'BFS'] : SEARCH;
  const optimize = isShort ? '-O0' : '-O2'; // it would take longer than the search
  run('cc', [optimize, '-w', ...flags.map((flag) => `-D${flag}`), '-o', 'pan', 'pan.c']);
  const startedAt = performance.now();
  const { stdout } = run('./pan', isBreadthFirst ? [] : [`-m${MAX_DEPTH}`, '-w24']);
  const trouble =
    /max search depth too small|reached -DMEMLIM bound|out of memory|interrupted/.exec(stdout)?.[0];
  const states = Number(/(\d+) states, stored/.exec(stdout)?.[1] ?? NaN);
  return {
    broken: /assertion violated (\w+)/.exec(stdout)?.[1],
    isComplete: !trouble && /errors: 0/.test(stdout) && states > 0,
    trouble: trouble ?? 'it ended before its time',
    states,
    seconds: (performance.now() - startedAt) / 1_000,
  };
}

function figures({ states, seconds }) {
  return `${states.toLocaleString('en').padStart(10)} states ${seconds.toFixed(1).padStart(6)} s`;
}

function run(command, args) {
  const done = spawnSync(command, args, {
    cwd: directory,
    encoding: 'utf8',
    timeout: LIMIT_MS,
    maxBuffer: 64 * 1_024 * 1_024,
  });
  if (command !== './pan' && done.status !== 0) {
    throw new Error(`${command} ${args.join(' ')}: ${done.error ?? done.stdout + done.stderr}`);
  }
  return done;
}
