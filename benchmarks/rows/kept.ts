// Kept locks: a client that keeps a lock after its last hold takes it again without a command. What does such a pair cost, what do others
// wait for a lock that is kept, what happens to a lock that nobody should keep, and what does keeping cost client and server?

import { setTimeout as sleep } from 'node:timers/promises';
import {
  atLeast,
  atMost,
  ratioToFloor,
  valuesOf,
  type Case,
  type Metric,
  type TargetResult,
} from '../report/case.js';
import { median, pairedRatio, quantile, spread, sum } from '../support/figures.js';
import { serverUsageOf } from '../support/machine.js';
import type { WorkerProcess } from '../worker/worker-process.js';
import { Crew, Soloists } from './crew.js';
import { handOverMicros } from './hand-over.js';
import { measurePairs } from './pairs.js';
import { contender, inTurns, show, type Contender, type Row, type RowContext } from './row.js';

const KEPT = contender('holdfast-kept');
const PLAIN = contender('holdfast');

/** For how long the kept locks are kept, in milliseconds. */
const KEEP_MS = 1_000;

export const kept: Row = {
  name: 'kept',
  what: 'locks that their client keeps after the last hold: pairs, wishes, wandering locks, memory, commands',
  async run(context) {
    const pairs = await repeatedPairs(context);
    const wandering = await wander(context);
    const wishes = await wishFor(context);
    const turns = await takeTurns(context);
    const memory = await heap(context);
    const traffic = await commands(context);
    return {
      cases: [...pairs.cases, wandering.one, wishes, ...turns, memory, traffic],
      targets: [...pairs.targets, ...wandering.targets],
      violations: wandering.violations,
    };
  },
};

// A pair on a lock that is kept, beside the raw pair, a mutex in memory, and a lock that is not kept.

const LANES = { one: 1, many: 1_000 };

/** A pair that asks the server needs nine. A kept one has its share in the renewals: of many locks, all begin with one. */
const MOST_COMMANDS = 2;

async function repeatedPairs(
  context: RowContext,
): Promise<{ cases: Case[]; targets: TargetResult[] }> {
  const contenders = [contender('raw'), contender('local-mutex'), PLAIN, KEPT];
  using workers = new Soloists(contenders);
  const { url } = context;
  const measure = async (lanes: number): Promise<Case> => {
    const id = `kept-${lanes}`;
    const names = lanes === 1 ? 'one lock' : `${lanes.toLocaleString('en')} locks`;
    const title = `acquire + release, again and again, ${names} and as many callers of one process`;
    const pairs = { id, title, floor: 'raw', call: 'acquire', lanes } as const;
    const one = await measurePairs(context, workers, pairs, async (peer, name) => {
      if (peer !== KEPT) return;
      await warmUp(workers.of(peer), { urls: [url], name, count: lanes });
    });
    checkKept(context, Math.max(...valuesOf(one, KEPT.id, 'commands')));
    return show(context, one);
  };
  const [one, many] = [await measure(LANES.one), await measure(LANES.many)];
  const targets = [
    atMost(10, 'kept pair, p50, µs', spread(valuesOf(one, KEPT.id, 'p50'))),
    atMost(0.067, 'kept pair, p50 / raw pair', ratioToFloor(one, KEPT.id, 'p50')),
    atLeast(
      200_000,
      '1,000 callers, kept pairs of one process, per second',
      spread(valuesOf(many, KEPT.id, 'rate')),
    ),
  ];
  return { cases: [one, many], targets };
}

/** Has a process use these locks until it keeps all of them. */
async function warmUp(
  worker: WorkerProcess,
  locks: { urls: string[]; name: string; count: number; leaseMs?: number },
): Promise<void> {
  const count = await worker.ask({ do: 'warm up', peer: KEPT.id, ...locks });
  if (count < locks.count) throw new Error(`only ${count} of ${locks.count} locks are kept`);
}

/** Throws if the pairs asked the server, each so many commands. */
function checkKept({ effort }: RowContext, commandsPerPair: number): void {
  // A smoke run ends before the renewals are spread over many pairs.
  if (effort === 'smoke' || commandsPerPair <= MOST_COMMANDS) return;
  throw new Error(`not kept: ${commandsPerPair.toFixed(1)} commands a pair`);
}

// A lock that wanders between processes at random: keeping it is of no use. Each rests for a random while after it has released the lock.

const WANDERING: readonly Metric[] = [
  { key: 'stays', label: 'stays/s', digits: 0, isRatio: true },
  { key: 'p50', label: 'wait p50, ms', digits: 2 },
  { key: 'p99', label: 'p99, ms', digits: 2 },
  { key: 'longest', label: 'longest, ms', digits: 1, summary: 'max' },
  { key: 'scripts', label: 'scripts', digits: 2 },
  { key: 'commands', label: 'commands', digits: 1 },
  { key: 'violations', label: 'violations', digits: 0, summary: 'sum' },
];

const WANDER_SIZES = {
  smoke: { rounds: 1, sliceMs: 200 },
  quick: { rounds: 2, sliceMs: 500 },
  full: { rounds: 12, sliceMs: 2_500 },
};

const WANDERERS = 4;
const LONGEST_REST_MS = 20;

async function wander(
  context: RowContext,
): Promise<{ one: Case; targets: TargetResult[]; violations: string[] }> {
  const { url, redis, keyPrefix, effort } = context;
  const { rounds, sliceMs } = WANDER_SIZES[effort];
  const title = `one lock that wanders between ${WANDERERS} processes at random`;
  using crew = new Crew(WANDERERS);
  let slice = 0;
  const series = await inTurns(context, title, [PLAIN, KEPT], rounds, (one, round) => {
    const name = `${keyPrefix}wander:${++slice}`;
    const durationMs = round === 0 ? sliceMs / 4 : sliceMs;
    const counting = { counter: redis, counterUrl: url };
    const options = { name, ...counting, durationMs, restMs: LONGEST_REST_MS };
    return crew.figuresOf(one, [url], 1, options).then((figures) => ({ ...figures }));
  });
  const one = show(context, {
    id: 'kept-wander',
    title: `${title}: each reads, awaits and writes a number inside, and rests for up to ${LONGEST_REST_MS} ms`,
    metrics: WANDERING,
    floor: PLAIN.id,
    series,
  });
  const violations = [PLAIN, KEPT]
    .map(({ id, label }) => ({ label, count: sum(valuesOf(one, id, 'violations')) }))
    .filter(({ count }) => count !== 0)
    .map(({ label, count }) => `${title}: ${label} let in a second caller ${count} times`);
  const ratio = pairedRatio(valuesOf(one, KEPT.id, 'stays'), valuesOf(one, PLAIN.id, 'stays'));
  const targets = [atLeast(0.9, 'a lock that wanders, stays with keep / without', ratio)];
  return { one, targets, violations };
}

// Two processes: one keeps the lock without using it, the other one wishes for it.

const LATENCY: readonly Metric[] = [
  { key: 'p50', label: 'p50, µs', digits: 0, isRatio: true },
  { key: 'p99', label: 'p99, µs', digits: 0 },
];

const WISH_SIZES = {
  smoke: { rounds: 1, count: 2 },
  quick: { rounds: 2, count: 5 },
  full: { rounds: 12, count: 25 },
};

async function wishFor(context: RowContext): Promise<Case> {
  const { url, keyPrefix, effort } = context;
  const { rounds, count } = WISH_SIZES[effort];
  using ends = new Ends();
  let last = 0;
  const title = 'the wish for a lock that another process keeps, from the call to the hold';
  const series = await inTurns(context, title, [PLAIN, KEPT], rounds, async (one) => {
    const micros: number[] = [];
    for (let i = 0; i < count; i++) {
      const name = `${keyPrefix}wish:${++last}`;
      micros.push(
        one === KEPT
          ? await wishMicros(ends, url, name)
          : await handOverMicros(ends, one, url, name),
      );
    }
    return latencyOf(micros);
  });
  return show(context, {
    id: 'kept-wish',
    title: `${title}; without keep: a hand-over, from the release to the next hold`,
    metrics: LATENCY,
    floor: PLAIN.id,
    series,
  });
}

async function wishMicros({ giver, taker }: Ends, url: string, name: string): Promise<number> {
  await warmUp(giver, { urls: [url], name, count: 1 });
  const target = { peer: KEPT.id, urls: [url], name: `${name}:0` };
  return (await taker.ask({ do: 'take', ...target })) * 1_000;
}

class Ends implements Disposable {
  readonly giver: WorkerProcess = KEPT.start();
  readonly taker: WorkerProcess = KEPT.start();

  [Symbol.dispose](): void {
    this.giver[Symbol.dispose]();
    this.taker[Symbol.dispose]();
  }
}

function latencyOf(micros: readonly number[]): Record<string, number> {
  return { p50: median(micros), p99: quantile(micros, 0.99) };
}

// Two processes take one lock in turns, with a pause in between. Nobody else wants it then, so that without keep it is free each time.

const TURNS = {
  smoke: { rounds: 1, intervals: [{ intervalMs: 1, count: 6 }] },
  quick: { rounds: 2, intervals: [{ intervalMs: 10, count: 20 }] },
  full: {
    rounds: 10,
    intervals: [
      { intervalMs: 1, count: 400 },
      { intervalMs: 10, count: 100 },
      { intervalMs: 100, count: 30 },
    ],
  },
};

async function takeTurns(context: RowContext): Promise<Case[]> {
  const { url, keyPrefix, effort } = context;
  const { rounds, intervals } = TURNS[effort];
  using ends = new Ends();
  const cases: Case[] = [];
  for (const { intervalMs, count } of intervals) {
    const title = `two processes take one lock in turns, every ${intervalMs} ms: each acquisition`;
    const series = await inTurns(context, title, [PLAIN, KEPT], rounds, async (one) => {
      // The same name in all rounds, so that its client knows by then that others want it.
      const name = `${keyPrefix}turns:${intervalMs}:${one.id}`;
      const micros: number[] = [];
      for (let i = 0; i < count; i++) {
        const worker = i % 2 === 0 ? ends.giver : ends.taker;
        micros.push((await worker.ask({ do: 'take', peer: one.id, urls: [url], name })) * 1_000);
        await sleep(intervalMs);
      }
      return latencyOf(micros);
    });
    const id = `kept-turns-${intervalMs}`;
    cases.push(show(context, { id, title, metrics: LATENCY, floor: PLAIN.id, series }));
  }
  return cases;
}

// What a lock costs while it is kept without a hold, beside one that is held.

const HEAP: readonly Metric[] = [{ key: 'heap', label: 'heap, bytes a lock', digits: 0 }];

const HEAP_SIZES = {
  smoke: { rounds: 1, count: 100 },
  quick: { rounds: 1, count: 1_000 },
  full: { rounds: 5, count: 10_000 },
};

/** Long, so that all are still kept when the last one is. */
const HEAP_LEASE_MS = 180_000;

async function heap(context: RowContext): Promise<Case> {
  const { url, keyPrefix, effort } = context;
  const { rounds, count } = HEAP_SIZES[effort];
  const title = `${count.toLocaleString('en')} locks that are kept without a hold; without keep: that are held`;
  const measure = async (one: Contender, round: number): Promise<Record<string, number>> => {
    const name = `${keyPrefix}heap:${one.id}:${round}`;
    using worker = one.start('--expose-gc');
    const fill = async (prefix: string, locks: number): Promise<void> => {
      const order = { urls: [url], leaseMs: HEAP_LEASE_MS, name: prefix, count: locks };
      if (one === KEPT) await warmUp(worker, order);
      else await worker.ask({ do: 'keep', peer: one.id, ...order });
    };
    await fill(`${name}:first`, 1); // after this the client exists
    const before = await worker.ask({ do: 'heap' });
    await fill(name, count);
    return { heap: ((await worker.ask({ do: 'heap' })) - before) / count };
  };
  const series = await inTurns(context, title, [PLAIN, KEPT], rounds, measure, false);
  return show(context, { id: 'kept-heap', title, metrics: HEAP, series });
}

// What the server has to do for many names: in use, one after the other; then kept without use; then given up.

const COMMANDS: readonly Metric[] = [
  { key: 'commands', label: 'commands/s in use', digits: 0 },
  { key: 'scripts', label: 'scripts/s', digits: 0 },
  { key: 'server', label: 'server, % of a core', digits: 1 },
  { key: 'rate', label: 'pairs/s', digits: 0 },
  { key: 'each', label: 'commands a pair', digits: 2 },
  { key: 'idle', label: 'commands/s idle', digits: 0 },
  { key: 'ending', label: 'scripts to give all up', digits: 0 },
  { key: 'after', label: 'commands/s after', digits: 0 },
];

const CALLERS = 100;
const MOST_WARM_UPS = 5;
/** With so many commands a pair, most locks are not kept. The renewals of so many that are may be two. */
const COLD = 3.5;

/** Longer than the longest use of one grant: each is released once. */
const COMMAND_SIZES = {
  smoke: { rounds: 1, count: 100, warmUpMs: 0, useMs: 100, idleMs: 50 },
  quick: { rounds: 1, count: 1_000, warmUpMs: 200, useMs: 500, idleMs: 200 },
  full: { rounds: 3, count: 10_000, warmUpMs: 2_000, useMs: 4 * KEEP_MS + 2_000, idleMs: 400 },
};

async function commands(context: RowContext): Promise<Case> {
  const { url, redis, keyPrefix, effort } = context;
  const { rounds, count, warmUpMs, useMs, idleMs } = COMMAND_SIZES[effort];
  const title = `${count.toLocaleString('en')} locks, through which ${CALLERS} callers of one process go`;
  const measure = async (one: Contender, round: number): Promise<Record<string, number>> => {
    const target = { peer: one.id, urls: [url], name: `${keyPrefix}use:${one.id}:${round}` };
    using worker = one.start();
    const pairs = {
      do: 'pairs',
      ...target,
      call: 'acquire',
      lanes: CALLERS,
      names: count,
    } as const;
    const warmedUp = async (): Promise<number> => {
      if (one === KEPT) await worker.ask({ do: 'warm up', ...target, count });
      const slice = { ...pairs, durationMs: warmUpMs };
      const { result, used } = await serverUsageOf(redis, () => worker.ask(slice));
      return used.commands / result.count;
    };
    // On a slow machine the first locks are given up before the last one is kept, until enough are.
    let commandsPerPair = await warmedUp();
    for (let i = 1; one === KEPT && commandsPerPair > COLD && i < MOST_WARM_UPS; i++)
      commandsPerPair = await warmedUp();
    const use = await serverUsageOf(redis, () => worker.ask({ ...pairs, durationMs: useMs }));
    const idle = await serverUsageOf(redis, () => sleep(idleMs));
    const ending = await serverUsageOf(redis, () => sleep(2 * KEEP_MS));
    const after = await serverUsageOf(redis, () => sleep(idleMs));
    if (one === KEPT && ending.used.scripts === 0) throw new Error('nothing was kept');
    const { durationMs } = use.result;
    return {
      commands: (use.used.commands * 1_000) / durationMs,
      scripts: (use.used.scripts * 1_000) / durationMs,
      server: (use.used.cpuMicros / durationMs) * 0.1,
      rate: (use.result.count * 1_000) / durationMs,
      each: use.used.commands / use.result.count,
      idle: (idle.used.commands * 1_000) / idleMs,
      ending: ending.used.scripts,
      after: (after.used.commands * 1_000) / idleMs,
    };
  };
  const series = await inTurns(context, title, [PLAIN, KEPT], rounds, measure, false);
  return show(context, {
    id: 'kept-commands',
    title: `${title}: in use, then idle for ${idleMs} ms, then until all are given up`,
    metrics: COMMANDS,
    series,
  });
}
