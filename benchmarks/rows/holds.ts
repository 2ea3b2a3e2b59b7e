// Row 5: the cost of keeping 10, 1,000 and 100,000 locks whose leases are renewed: a share of a core of client and server, and heap.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import {
  atMost,
  curvesOf,
  valuesOf,
  type Case,
  type Metric,
  type TargetResult,
} from '../report/case.js';
import type { Growth } from '../report/charts.js';
import { inTurns, npmLocks, show, type Contender, type Row, type RowContext } from './row.js';
import { serverUsageOf } from '../support/machine.js';
import { spread } from '../support/figures.js';

/** The leases are shorter, so that each measurement takes less than half a minute; the figures are converted to this one. */
const LEASE_MS = 30_000;
const MANY = 100_000;

const METRICS: readonly Metric[] = [
  { key: 'client', label: 'client, % of a core', digits: 3 },
  { key: 'server', label: 'server, % of a core', digits: 3 },
  { key: 'micros', label: 'server µs a lock', digits: 2 },
  { key: 'commands', label: 'commands a lock', digits: 2 },
  { key: 'heap', label: 'heap, bytes a lock', digits: 0 },
  { key: 'kept', label: 'kept, %', digits: 0 },
];

/** A window is a whole lease, in which every library renews: some once, some three times. */
const SIZES = {
  smoke: { rounds: 1, leaseMs: 2_000, windowMs: 200, counts: [10] },
  quick: { rounds: 1, leaseMs: 1_200, windowMs: 1_200, counts: [1_000] },
  full: { rounds: 3, leaseMs: 6_000, windowMs: 6_000, counts: [10, 1_000, MANY] },
};

export const holds: Row = {
  name: 'holds',
  what: 'the cost of renewing 10, 1,000 and 100,000 locks',
  async run(context) {
    const { effort, redisson } = context;
    const { rounds, counts } = SIZES[effort];
    const contenders = [
      ...npmLocks(effort).filter(({ id, tuned }) => !tuned && id !== 'holdfast-fair'),
      ...redisson.filter(({ id }) => id === 'redisson'),
    ];
    const cases: Case[] = [];
    for (const count of counts) {
      const title = `${count.toLocaleString('en')} locks kept by renewals`;
      const series = await inTurns(
        context,
        title,
        contenders,
        rounds,
        (one, round) => measure(context, one, count, round),
        false,
      );
      const one: Case = {
        id: `holds-${count}`,
        title: `${title}, for leases of 30 s; "a lock": in a third of a lease`,
        metrics: METRICS,
        series,
      };
      cases.push(show(context, one));
    }
    return { cases, growths: [growthOf(cases, counts)], targets: cases.flatMap(targetsOf) };
  },
};

async function measure(
  { url, redis, keyPrefix, effort }: RowContext,
  one: Contender,
  count: number,
  round: number,
): Promise<Record<string, number>> {
  const { leaseMs, windowMs } = SIZES[effort];
  const keep = { do: 'keep', peer: one.id, urls: [url], leaseMs } as const;
  const prefix = `${keyPrefix}holds:${one.id}:${count}:${round}`;
  const name = `${prefix}:kept`;
  using worker = one.start('--expose-gc');
  await worker.ask({ ...keep, name: `${prefix}:first`, count: 1 }); // after this the client exists
  const heap = await worker.ask({ do: 'heap' });
  await worker.ask({ ...keep, name, count });
  const held = await worker.ask({ do: 'heap' });
  const before = await worker.ask({ do: 'usage' });
  const { used } = await serverUsageOf(redis, () => sleep(windowMs));
  const after = await worker.ask({ do: 'usage' });
  const longer = LEASE_MS / leaseMs;
  return {
    client: ((after.cpuMicros - before.cpuMicros) / (after.atMs - before.atMs)) * (0.1 / longer),
    server: (used.cpuMicros / windowMs) * (0.1 / longer),
    micros: used.cpuMicros / count / 3,
    commands: used.commands / count / 3,
    heap: (held - heap) / count,
    kept: ((await keysOf(redis, `${name}:*`)) * 100) / count,
  };
}

/** How many locks still exist: a library that cannot renew them in time has less to do. */
async function keysOf(redis: Redis, pattern: string): Promise<number> {
  const found = new Set<string>();
  // Some libraries add a prefix of their own.
  const keys = redis.scanStream({ match: `*${pattern}`, count: 5_000 });
  for await (const batch of keys as AsyncIterable<string[]>)
    for (const key of batch) found.add(key);
  return found.size;
}

function growthOf(cases: readonly Case[], counts: readonly number[]): Growth {
  return {
    id: 'holds-growth',
    title: 'The share of a client core for renewals, for leases of 30 s',
    xLabel: 'locks',
    yLabel: '% of a core',
    curves: curvesOf(cases, counts, 'client'),
  };
}

function targetsOf(one: Case): TargetResult[] {
  if (one.id !== `holds-${MANY}`) return [];
  const own = (key: string): ReturnType<typeof spread> => spread(valuesOf(one, 'holdfast', key));
  return [
    atMost(5, '100,000 locks, renewals, % of a core', own('client')),
    atMost(1_500, '100,000 locks, heap, bytes a lock', own('heap')),
  ];
}
