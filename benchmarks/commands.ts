// How many Redis commands a lock costs: where nobody waits, and for each hand-over where many do.

import { Redis } from 'ioredis';
import type { Benchmark, BenchmarkContext } from './support/benchmark.js';
import { Holdfast } from './support/built-holdfast.js';
import { countCommands, type CommandCounts } from './support/command-counts.js';
import { acquireAndRelease, bareLock, type Contender } from './support/contenders.js';
import { printTable } from './support/table.js';

/** How many clients wait, and how many waiters each of them has. */
const CROWDS = [
  { clients: 1, waiters: 32 },
  { clients: 2, waiters: 16 },
  { clients: 8, waiters: 4 },
  { clients: 32, waiters: 1 },
];

export const commands: Benchmark = {
  name: 'commands',
  async run(context) {
    const redis = new Redis(context.url);
    try {
      await uncontended(redis, context);
      await handOvers(redis, context);
    } finally {
      redis.disconnect();
    }
    return true;
  },
};

async function uncontended(redis: Redis, context: BenchmarkContext): Promise<void> {
  const times = context.isSmoke ? 100 : 2_000;
  const rows: string[][] = [];
  for (const open of [bareLock, acquireAndRelease]) {
    const contender = await open(context.url);
    await contender.operation(`${context.keyPrefix}warm`);
    const counts = await countCommands(redis, () => repeat(contender, context.keyPrefix, times));
    rows.push([contender.name, ...perTime(counts, times)]);
    await contender.close();
  }
  console.log('\ncommands per acquire and release');
  printTable([['', 'sent', 'all', 'server µs'], ...rows]);
}

async function repeat(contender: Contender, keyPrefix: string, times: number): Promise<void> {
  for (let i = 0; i < times; i++) await contender.operation(`${keyPrefix}uncontended`);
}

async function handOvers(redis: Redis, context: BenchmarkContext): Promise<void> {
  const rows: string[][] = [];
  for (const crowd of CROWDS) {
    for (const kind of ['reentrant', 'fair'] as const) {
      const counts = await perHandOver(redis, context, kind, crowd);
      rows.push([`${crowd.clients} clients x ${crowd.waiters} waiters, ${kind} lock`, ...counts]);
    }
  }
  console.log(
    '\ncommands per hand-over: a first try that finds the lock held, the wake-ups, the try that gets it, the release;\n' +
      'with the fair lock: joining the line, the release',
  );
  printTable([['', 'sent', 'all', 'server µs'], ...rows]);
}

async function perHandOver(
  redis: Redis,
  { url, keyPrefix, isSmoke }: BenchmarkContext,
  kind: 'reentrant' | 'fair',
  { clients, waiters }: (typeof CROWDS)[number],
): Promise<string[]> {
  const times = isSmoke ? 200 : 4_000;
  const crowd = Array.from({ length: clients }, () => new Holdfast({ redis: url }));
  const name = `${keyPrefix}hand-over:${kind}:${clients}`;
  const lanes = crowd
    .map((client) => (kind === 'fair' ? client.getFairLock(name) : client.getLock(name)))
    .flatMap((lock) => Array<typeof lock>(waiters).fill(lock));
  const handOver = async (total: number): Promise<void> => {
    let left = total;
    await Promise.all(
      lanes.map(async (lock) => {
        while (left > 0) {
          const hold = await lock.acquire();
          left--;
          await hold.release();
        }
      }),
    );
  };
  await handOver(lanes.length * 2); // everybody is subscribed from here on
  const counts = await countCommands(redis, () => handOver(times));
  const done = times + lanes.length - 1; // those who waited at the end had it once more
  await Promise.all(crowd.map((client) => client.close()));
  return perTime(counts, done);
}

function perTime({ sent, all, micros }: CommandCounts, times: number): string[] {
  return [sent, all, micros].map((count) => (count / times).toFixed(2));
}
