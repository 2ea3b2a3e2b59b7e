// Thousands of hand-overs between processes that all want one fair lock: does everybody get it equally often, what do
// they send for it, and is there ever more than one inside? The floors are a token in a list, and the lock that is not fair.

import { Redis } from 'ioredis';
import type { BenchmarkContext } from '../support/benchmark.js';
import { countCommands } from '../support/command-counts.js';
import { HandOverCrew } from '../support/hand-over-crew.js';
import type { Guard, Result, Stay } from '../support/hand-over-messages.js';
import { interleaved } from '../support/interleaved.js';
import { formatRatio, jainIndex, median, pairedRatio } from '../support/statistics.js';
import { handOversPerSecond, staysPerWaiter, whileAllCompete } from '../support/stays.js';
import { printTable } from '../support/table.js';
import { verdict } from '../support/verdict.js';

const PROCESSES = 4;
const WAITERS = 8;
const ALL_WAITERS = PROCESSES * WAITERS;

const TARGET_INDEX = 0.999;
const TARGET_SCRIPT_CALLS = 2.2;

const NAMES = {
  token: 'BLPOP + RPUSH of a token',
  reentrant: 'holdfast, reentrant lock',
  fair: 'holdfast, fair lock',
} satisfies Partial<Record<Guard, string>>;

type Contender = keyof typeof NAMES;
const CONTENDERS: readonly Contender[] = ['token', 'reentrant', 'fair'];

interface Slice {
  /** Those that began while everybody competed. */
  readonly stays: readonly Stay[];
  readonly violations: number;
  /** Script calls per stay, of all stays: the calls of the others cannot be told apart. */
  readonly scriptCalls: number;
}

/** Prints the table; false when two were inside at a time. */
export async function handOvers({ url, keyPrefix, isSmoke }: BenchmarkContext): Promise<boolean> {
  const redis = new Redis(url);
  using crew = await HandOverCrew.start(PROCESSES, url, keyPrefix);
  // With 10 rounds of 1,000, and a little more for those that came before all had asked, 10,000 and more are counted.
  const [rounds, lastNumber] = isSmoke ? [2, 800] : [10, 1_100];
  const work = (guard: Guard, number: number): Promise<Result> =>
    crew.work({ guard, waiters: WAITERS, until: { number } });
  try {
    const control = await work('nothing', 50);
    const slices = await interleaved(CONTENDERS, rounds, async (guard): Promise<Slice> => {
      let result!: Result;
      const { scripts } = await countCommands(redis, async () => {
        result = await work(guard, lastNumber);
      });
      return {
        stays: whileAllCompete(result.stays, lastNumber),
        violations: result.violations,
        scriptCalls: scripts / result.stays.length,
      };
    });
    return report(slices, control.violations);
  } finally {
    redis.disconnect();
  }
}

function report(slices: Map<Contender, Slice[]>, controlViolations: number): boolean {
  const perSecond = (guard: Contender): number[] =>
    slices.get(guard)!.map(({ stays }) => handOversPerSecond(stays));
  console.log(
    `\nfair: hand-overs of one lock, ${PROCESSES} processes x ${WAITERS} waiters, counted while all of them compete`,
  );
  printTable([
    [
      '',
      'hand-overs',
      'per second',
      'x token',
      'x reentrant',
      "Jain's index",
      'worst round',
      'script calls',
      'violations',
    ],
    ...CONTENDERS.map((guard) => [
      NAMES[guard],
      sum(slices.get(guard)!.map(({ stays }) => stays.length)).toLocaleString('en'),
      Math.round(median(perSecond(guard))).toLocaleString('en'),
      formatRatio(pairedRatio(perSecond(guard), perSecond('token'))),
      formatRatio(pairedRatio(perSecond(guard), perSecond('reentrant'))),
      fairness(slices.get(guard)!).toFixed(5),
      fairnessOfWorst(slices.get(guard)!).toFixed(5),
      scriptCalls(slices.get(guard)!).toFixed(2),
      String(violations(slices.get(guard)!)),
    ]),
  ]);
  console.log(`  the violation counter without any lock: ${controlViolations}`);
  const own = slices.get('fair')!;
  verdict(
    `Jain's index ${fairness(own).toFixed(5)}`,
    fairness(own) >= TARGET_INDEX,
    `at least ${TARGET_INDEX}`,
  );
  verdict(
    `script calls per hand-over ${scriptCalls(own).toFixed(2)}`,
    scriptCalls(own) <= TARGET_SCRIPT_CALLS,
    `at most ${TARGET_SCRIPT_CALLS}`,
  );
  return isSound(violations(own) + violations(slices.get('reentrant')!), controlViolations);
}

/** Never two inside, and a counter that would have seen it. */
function isSound(found: number, inControl: number): boolean {
  if (found > 0) console.error(`  VIOLATED: ${found} times somebody else was inside`);
  if (inControl === 0) console.error('  the violation counter does not count');
  return found === 0 && inControl > 0;
}

function fairness(slices: readonly Slice[]): number {
  const stays = slices.flatMap((slice) => slice.stays);
  return jainIndex(staysPerWaiter(stays, ALL_WAITERS));
}

/** What is unfair in one round might be made up for in another. */
function fairnessOfWorst(slices: readonly Slice[]): number {
  return Math.min(...slices.map((slice) => fairness([slice])));
}

function scriptCalls(slices: readonly Slice[]): number {
  return median(slices.map((slice) => slice.scriptCalls));
}

function violations(slices: readonly Slice[]): number {
  return sum(slices.map((slice) => slice.violations));
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
