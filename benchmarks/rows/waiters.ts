// Row 4: a thousand callers wait for one lock that is not released. What does that cost their process, and the server?

import { setTimeout as sleep } from 'node:timers/promises';
import type { Case, Metric } from '../report/case.js';
import { inTurns, npmLocks, show, type Contender, type Row, type RowContext } from './row.js';
import { monotonicMs } from '../support/figures.js';
import { serverUsageOf } from '../support/machine.js';

const WAITERS = 1_000;
const SETTLE_MS = 500;

const METRICS: readonly Metric[] = [
  { key: 'heap', label: 'heap, bytes a waiter', digits: 0 },
  { key: 'client', label: 'client, % of a core', digits: 2 },
  { key: 'server', label: 'server, % of a core', digits: 2 },
  { key: 'commands', label: 'commands/s', digits: 0 },
];

const SIZES = {
  smoke: { rounds: 1, windowMs: 200 },
  quick: { rounds: 1, windowMs: 500 },
  full: { rounds: 3, windowMs: 5_000 },
};

export const waiters: Row = {
  name: 'waiters',
  what: 'a thousand callers wait for one lock: heap, client and server meanwhile',
  async run(context) {
    const { effort } = context;
    const contenders = npmLocks(effort).filter(({ role, tuned }) =>
      effort === 'smoke' ? role === 'ours' : effort === 'full' || !tuned,
    );
    const series = await inTurns(
      context,
      `${WAITERS} waiters`,
      contenders,
      SIZES[effort].rounds,
      (one, round) => measure(context, one, round),
      false,
    );
    const one: Case = {
      id: 'waiters',
      title: `${WAITERS.toLocaleString('en')} callers wait for one lock, which is not released`,
      metrics: METRICS,
      series,
    };
    return { cases: [show(context, one)] };
  },
};

async function measure(
  { url, redis, keyPrefix, effort }: RowContext,
  one: Contender,
  round: number,
): Promise<Record<string, number>> {
  const { windowMs } = SIZES[effort];
  const target = { peer: one.id, urls: [url] };
  const name = `${keyPrefix}waiters:${one.id}:${round}`;
  using holder = one.start();
  using worker = one.start('--expose-gc');
  await holder.ask({ do: 'keep', ...target, name, count: 1 });
  // So that the client exists before its heap is measured.
  await worker.ask({ do: 'keep', ...target, name: `${name}:other`, count: 1 });
  const heap = await worker.ask({ do: 'heap' });
  const span = { fromMs: monotonicMs(), toMs: -1 };
  await worker.ask({ do: 'crowd', ...target, name: `${name}:0`, callers: WAITERS, ...span });
  await sleep(SETTLE_MS);
  const waiting = await worker.ask({ do: 'heap' });
  const before = await worker.ask({ do: 'usage' });
  const { used } = await serverUsageOf(redis, () => sleep(windowMs));
  const after = await worker.ask({ do: 'usage' });
  return {
    heap: (waiting - heap) / WAITERS,
    client: ((after.cpuMicros - before.cpuMicros) / (after.atMs - before.atMs)) * 0.1,
    server: (used.cpuMicros / windowMs) * 0.1,
    commands: (used.commands * 1_000) / windowMs,
  };
}
