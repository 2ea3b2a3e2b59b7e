// Hand-over: processes with several waiters each want one lock. How fast does it go from one to the next, how long
// does one wait, and is there ever more than one inside?

import { Redis } from 'ioredis';
import type { Benchmark } from './support/benchmark.js';
import { HandOverCrew } from './support/hand-over-crew.js';
import type { Guard, Result } from './support/hand-over-messages.js';
import { interleaved } from './support/interleaved.js';
import { formatRatio, median, pairedRatio, quantile } from './support/statistics.js';
import { printTable } from './support/table.js';

const PROCESSES = 4;
const WAITERS = 8;

const NAMES: Record<Guard, string> = {
  token: 'BLPOP + RPUSH of a token',
  holdfast: 'holdfast acquire + release',
  nothing: 'no lock at all',
};

export const contended: Benchmark = {
  name: 'contended',
  async run({ url, keyPrefix, isSmoke }) {
    const redis = new Redis(url);
    using crew = await HandOverCrew.start(PROCESSES, url);
    const durationMs = isSmoke ? 300 : 1_000;
    let slice = 0;
    const work = async (guard: Guard): Promise<Result> => {
      const name = `${keyPrefix}${guard}:${++slice}`;
      if (guard === 'token') await redis.rpush(`${name}:token`, 1);
      const result = await crew.work({ guard, name, waiters: WAITERS, durationMs });
      await redis.del(`${name}:inside`, `${name}:number`, `${name}:token`);
      return result;
    };
    try {
      const control = await work('nothing');
      const results = await interleaved<Guard, Result>(
        ['token', 'holdfast'],
        isSmoke ? 3 : 12,
        work,
      );
      return report(results, control);
    } finally {
      redis.disconnect();
    }
  },
};

function report(results: Map<Guard, Result[]>, control: Result): boolean {
  const perSecond = (guard: Guard): number[] => results.get(guard)!.map(handOversPerSecond);
  const rows = [...results].map(([guard, slices]) => {
    const handOverMs = slices.flatMap(handOverTimes);
    const waitedMs = slices.flatMap(({ stays }) => stays.map((stay) => stay.waitedMs));
    return [
      NAMES[guard],
      Math.round(median(perSecond(guard))).toLocaleString('en'),
      formatRatio(pairedRatio(perSecond(guard), perSecond('token'))),
      ...[0.5, 0.99].map((q) => (quantile(handOverMs, q) * 1_000).toFixed(0)),
      ...[0.5, 0.99, 1].map((q) => quantile(waitedMs, q).toFixed(1)),
      String(slices.reduce((sum, { violations }) => sum + violations, 0)),
    ];
  });
  console.log(`\nhand-over: one lock, ${PROCESSES} processes x ${WAITERS} waiters`);
  printTable([
    [
      '',
      'hand-overs/s',
      'x token',
      'p50 µs',
      'p99 µs',
      'wait p50 ms',
      'p99 ms',
      'longest ms',
      'violations',
    ],
    ...rows,
  ]);
  console.log(`  the violation counter without any lock: ${control.violations}`);
  return isSound(results, control);
}

/** Never two inside, and a counter that would have seen it. */
function isSound(results: Map<Guard, Result[]>, control: Result): boolean {
  const violations = results.get('holdfast')!.reduce((sum, slice) => sum + slice.violations, 0);
  if (violations > 0) console.error(`  VIOLATED: ${violations} times somebody else was inside`);
  if (control.violations === 0) console.error('  the violation counter does not count');
  return violations === 0 && control.violations > 0;
}

/** From the call of one release to the next one's return from acquire. */
function handOverTimes({ stays }: Result): number[] {
  return stays.slice(1).map((stay, i) => stay.enteredMs - stays[i]!.leftMs);
}

function handOversPerSecond({ stays }: Result): number {
  return ((stays.length - 1) * 1_000) / (stays.at(-1)!.leftMs - stays[0]!.leftMs);
}
