// npm run simulate: plays rounds in virtual time, each from a seed that replays it exactly.
import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { parseArgs } from 'node:util';
import { printTable } from '../../benchmarks/support/figures.js';
import { KINDS, type Kind } from '../chaos/plan.js';
import { noticed, tryMutants } from '../chaos/mutants/try-mutants.js';
import { noticeInProcess } from './mutants.js';
import { playRound } from './round.js';
import { watchForStandstill } from './standstill.js';

const USAGE = `usage: npm run simulate -- [--seconds 60] [--seed S] [--kind ${KINDS.join('|')}]
  --seconds   for how long rounds are played (60); --rounds N: so many rounds instead, --commands N: until so many commands have run
  --seed      of the first round, the next one has the next (at random); alone, it plays that one round
  --kind      which locks; several with commas (all, one after the other)
  --trace     the file to which everything that happens is written
  --fenced    Redlocks give tokens (as the seed says)
  --until-noticed   ends with the first violation, quietly
  --mutants   instead: spoils the library in many ways, and sees each noticed within --seconds; --mutants=name,name: those`;

const { values } = parseArgs({
  args: process.argv.slice(2).map((arg) => arg.replace(/^--mutants$/, '--mutants=')),
  options: {
    seconds: { type: 'string' },
    rounds: { type: 'string' },
    commands: { type: 'string' },
    seed: { type: 'string' },
    kind: { type: 'string' },
    trace: { type: 'string' },
    fenced: { type: 'boolean' },
    'until-noticed': { type: 'boolean' },
    mutants: { type: 'string' },
    help: { type: 'boolean' },
  },
});
if (values.help) {
  console.log(USAGE);
  process.exit(0);
}
const kinds = (values.kind?.split(',') ?? KINDS).map((name) => {
  const kind = KINDS.find((each) => each === name);
  if (!kind) throw new Error(`"${name}" is none of ${KINDS.join(', ')}`);
  return kind;
});
const seed = numberOf('seed') ?? Math.floor(Math.random() * 1e9);
if (values.mutants !== undefined) {
  const names = values.mutants.split(',').filter((name) => name !== '');
  const seconds = numberOf('seconds') ?? 60;
  const areNoticed = await tryMutants(
    { names, minutes: seconds / 60, beside: 1 },
    (mutant, library) => noticeInProcess(mutant, library, seconds, seed),
  );
  process.exit(areNoticed ? 0 : 1);
}

const isOneRound =
  values.seed !== undefined && !values.seconds && !values.rounds && !values.commands;
const mostRounds = numberOf('rounds') ?? (isOneRound ? 1 : Infinity);
const mostCommands = numberOf('commands') ?? Infinity;
const isLimited = mostRounds < Infinity || mostCommands < Infinity;
const endsAtMs =
  isLimited && !values.seconds ? Infinity : performance.now() + 1_000 * (numberOf('seconds') ?? 60);
const tallies = new Map<Kind, Tally>();
const NOTHING = {
  rounds: 0,
  calls: 0,
  kept: 0,
  commands: 0,
  virtualMs: 0,
  realMs: 0,
  violations: 0,
};
type Tally = typeof NOTHING;
const trace = values.trace === undefined ? undefined : createWriteStream(values.trace);
const hash = createHash('sha256');

let commands = 0;
let isNoticed = false;
let present = '';
watchForStandstill((rule) =>
  values['until-noticed'] ? JSON.stringify({ rule, where: present }) : `${present}: ${rule}`,
);
for (
  let round = 0;
  round < mostRounds && commands < mostCommands && performance.now() < endsAtMs;
  round++
) {
  const kind = kinds[round % kinds.length]!;
  const startedAt = performance.now();
  present = `round ${round + 1}, ${kind} ${seed + round}`;
  const result = await playRound(
    kind,
    seed + round,
    (line) => {
      if (!isOneRound && !trace) return;
      hash.update(`${line}\n`);
      trace?.write(`${line}\n`);
    },
    { isFenced: values.fenced },
  );
  const tally = tallies.get(kind) ?? { ...NOTHING };
  tallies.set(kind, tally);
  tally.rounds++;
  tally.commands += result.commandCount;
  tally.calls += result.callCount;
  tally.kept += result.keptCount;
  tally.virtualMs += result.tookMs;
  tally.realMs += performance.now() - startedAt;
  tally.violations += result.violations.length;
  commands += result.commandCount;
  const first = values['until-noticed'] ? noticed(result.violations) : result.violations[0];
  if (!first) continue;
  isNoticed = true;
  if (values['until-noticed']) {
    console.log(JSON.stringify({ rule: first.rule, where: present }));
    break;
  }
  console.log(`\n${kind}, seed ${seed + round}:`);
  for (const { at, rule, message } of result.violations)
    console.log(`  at ${at.toFixed(1)} ms, ${rule}: ${message}`);
  console.log(
    `  again: npm run simulate -- --kind ${kind} --seed ${seed + round}${values.fenced ? ' --fenced' : ''} --trace trace.txt`,
  );
}

if (!values['until-noticed']) {
  print();
  if (isOneRound) console.log(`the trace's hash: ${hash.digest('hex').slice(0, 16)}`);
}
if (trace) await new Promise((resolve) => trace.end(resolve));
const isBlind = tallies.has('kept') && tallies.get('kept')!.kept === 0;
if (isBlind)
  console.error('Nobody used a lock that its client had kept: these rounds show nothing of that.');
process.exitCode = (isNoticed || isBlind) && !values['until-noticed'] ? 1 : 0;

function print(): void {
  const rows = [...tallies].map(
    ([kind, { rounds, calls, kept, commands: ran, virtualMs, realMs, violations }]) => [
      kind,
      String(rounds),
      String(calls),
      String(kept),
      String(ran),
      `${(virtualMs / 1_000).toFixed(0)} s`,
      `${(realMs / 1_000).toFixed(1)} s`,
      String(Math.round((1_000 * ran) / realMs)),
      String(violations),
    ],
  );
  printTable([
    ['kind', 'rounds', 'calls', 'kept', 'commands', 'virtual', 'real', 'commands/s', 'violations'],
    ...rows,
  ]);
  console.log(
    `${[...tallies.values()].reduce((sum, { rounds }) => sum + rounds, 0)} rounds from seed ${seed}, ${commands} commands`,
  );
}

function numberOf(option: 'seconds' | 'rounds' | 'commands' | 'seed'): number | undefined {
  const text = values[option];
  if (text === undefined) return undefined;
  const number = Number(text);
  if (text === '' || !(number >= 0))
    throw new Error(`--${option} is "${text}": it must be a number`);
  return number;
}
