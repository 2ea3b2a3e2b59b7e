// Row 13: locks that are held for a while lose their keys. How soon does the holder know? (Only of holdfast: the others ask at their next
// renewal, or not at all.)

import { setTimeout as sleep } from 'node:timers/promises';
import type { Lock } from '../../src/index.js';
import { Holdfast } from '../peers/holdfast.js';
import type { Case, Metric } from '../report/case.js';
import { seriesOf } from '../report/case.js';
import { monotonicMs, quantile } from '../support/figures.js';
import { show, type Row, type RowContext } from './row.js';

/** From this age on the server tells of a lock. */
const TOLD_FROM_MS = 1_050;
/** Between two losses, so that each is alone. */
const BETWEEN_MS = 10;
/** Who is not told by then counts with this time. */
const LATEST_MS = 5_000;

const METRICS: readonly Metric[] = [
  { key: 'p50', label: 'p50, ms', digits: 1 },
  { key: 'p99', label: 'p99, ms', digits: 1, summary: 'max' },
  { key: 'longest', label: 'longest, ms', digits: 1, summary: 'max' },
  { key: 'count', label: 'losses', digits: 0, summary: 'sum' },
];

const SIZES = {
  smoke: { rounds: 1, locks: 5 },
  quick: { rounds: 1, locks: 50 },
  full: { rounds: 20, locks: 50 },
};

/** How a key is taken from its holder. */
const WAYS: readonly {
  id: string;
  label: string;
  take: (context: RowContext, lock: Lock) => Promise<unknown>;
}[] = [
  { id: 'del', label: 'DEL', take: ({ redis }, { name }) => redis.del(name) },
  { id: 'force', label: 'forceUnlock()', take: (_, lock) => lock.forceUnlock() },
];

export const losses: Row = {
  name: 'losses',
  what: 'locks lose their keys: how soon their holders know',
  async run(context) {
    const { rounds, locks } = SIZES[context.effort];
    context.progress.begin('losses');
    const sources = { ioredis: context.url, 'node-redis': { url: context.url } };
    const results = new Map<{ id: string; label: string }, Record<string, number>[]>();
    for (const [library, redis] of Object.entries(sources)) {
      await using client = new Holdfast({ redis });
      await using other = new Holdfast({ redis });
      for (const { id, label, take } of WAYS) {
        const figures: Record<string, number>[] = [];
        for (let round = 1; round <= rounds; round++) {
          context.progress.step(`round ${round} of ${rounds}, ${label}, ${library}`);
          const names = Array.from(
            { length: locks },
            (_, n) => `${context.keyPrefix}losses:${library}:${id}:${round}:${n}`,
          );
          const times = await measure(client, names, (name) => take(context, other.getLock(name)));
          figures.push({
            p50: quantile(times, 0.5),
            p99: quantile(times, 0.99),
            longest: Math.max(...times),
            count: times.length,
          });
        }
        results.set({ id: `${id}-${library}`, label: `holdfast, ${label}, ${library}` }, figures);
      }
    }
    const one: Case = {
      id: 'losses',
      title:
        'a lock that is held for a second loses its key: until the signal of its hold is aborted',
      metrics: METRICS,
      series: seriesOf(results),
    };
    return { cases: [show(context, one)] };
  },
};

/** How long each holder believed in its lock after it was taken away, in milliseconds. */
async function measure(
  client: InstanceType<typeof Holdfast>,
  names: readonly string[],
  take: (name: string) => Promise<unknown>,
): Promise<number[]> {
  const holds = await Promise.all(names.map((name) => client.getLock(name).acquire()));
  const toldAtMs = new Map<string, number>();
  for (const { lockName, signal } of holds)
    signal.addEventListener('abort', () => toldAtMs.set(lockName, monotonicMs()));
  await sleep(TOLD_FROM_MS);
  const takenAtMs = new Map<string, number>();
  for (const name of names) {
    takenAtMs.set(name, monotonicMs());
    await take(name);
    await sleep(BETWEEN_MS);
  }
  const limitMs = monotonicMs() + LATEST_MS;
  while (toldAtMs.size < names.length && monotonicMs() < limitMs) await sleep(BETWEEN_MS);
  for (const hold of holds) await hold.release().catch(() => undefined);
  return names
    .map((name) => (toldAtMs.get(name) ?? Infinity) - takenAtMs.get(name)!)
    .map((ms) => Math.min(ms, LATEST_MS));
}
