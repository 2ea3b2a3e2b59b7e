// The worker processes of a row, and one slice of a contended lock: callers of several processes enter one critical section for a while.
import type { Redis } from 'ioredis';
import { jainIndex, monotonicMs, quantile, sum } from '../support/figures.js';
import { serverUsageOf } from '../support/machine.js';
import type { Crowd, Target } from '../worker/messages.js';
import type { WorkerProcess } from '../worker/worker-process.js';
import type { Contender } from './row.js';

export class Crew implements Disposable {
  readonly #size: number;
  readonly #workers = new Map<string, WorkerProcess[]>();

  /** `size`: how many processes each contender has. */
  constructor(size: number) {
    this.#size = size;
  }

  /** Runs its processes, each with `callers` callers, for a semaphore with `permits` permits, until the given function returns. */
  async on<T>(
    one: Contender,
    urls: readonly string[],
    callers: number,
    work: (parties: Party[]) => Promise<T>,
    permits?: number,
  ): Promise<T> {
    const workers = this.#workersOf(one);
    for (const worker of workers) worker.resume();
    try {
      await Promise.all(workers.map((worker) => worker.ask({ do: 'usage' }))); // the processes exist
      const target = { peer: one.id, urls, ...(permits !== undefined && { permits }) };
      return await work(workers.map((worker) => ({ worker, target, callers })));
    } finally {
      for (const worker of workers) worker.pause();
    }
  }

  /** The figures of one slice. */
  async figuresOf(
    one: Contender,
    urls: readonly string[],
    callers: number,
    options: SectionOptions,
    permits?: number,
  ): Promise<Section['figures']> {
    const work = async (parties: Party[]): Promise<Section['figures']> =>
      (await section(parties, options)).figures;
    return await this.on(one, urls, callers, work, permits);
  }

  #workersOf(one: Contender): WorkerProcess[] {
    const known = this.#workers.get(one.id);
    const workers = known ?? Array.from({ length: this.#size }, () => one.start());
    this.#workers.set(one.id, workers);
    return workers;
  }

  [Symbol.dispose](): void {
    for (const worker of [...this.#workers.values()].flat()) worker[Symbol.dispose]();
  }
}

/** A process for each contender, so that no library affects the process of another. */
export class Soloists implements Disposable {
  readonly #workers: ReadonlyMap<Contender, WorkerProcess>;

  constructor(contenders: readonly Contender[]) {
    this.#workers = new Map(contenders.map((one) => [one, one.start()]));
  }

  get contenders(): Contender[] {
    return [...this.#workers.keys()];
  }

  of(one: Contender): WorkerProcess {
    return this.#workers.get(one)!;
  }

  [Symbol.dispose](): void {
    for (const worker of this.#workers.values()) worker[Symbol.dispose]();
  }
}

/** Enough time for an order to reach every process. */
const HEAD_START_MS = 30;

/** `callers` callers of a process, on a lock of their choice. */
interface Party {
  readonly worker: WorkerProcess;
  readonly target: Target;
  readonly callers: number;
}

interface Section {
  /** By party. */
  readonly crowds: readonly Crowd[];
  readonly figures: {
    /** How often it went from one caller to another, per second. */
    readonly rate: number;
    /** Acquisitions per second, including repeated ones of the same caller. */
    readonly stays: number;
    readonly jain: number;
    readonly p50: number;
    readonly p99: number;
    readonly longest: number;
    /** Of the writers. */
    readonly longestWrite: number;
    /** Per acquisition, without the commands of the section itself. */
    readonly scripts: number;
    readonly commands: number;
    readonly violations: number;
    readonly stuck: number;
  };
}

/** `counter` is a connection to the server at `counterUrl`; the commands counted are those that this one executes. */
export async function section(
  parties: readonly Party[],
  { name, counter, counterUrl, durationMs, writeEvery, restMs }: SectionOptions,
): Promise<Section> {
  const { result: crowds, used } = await serverUsageOf(counter, async () => {
    const fromMs = monotonicMs() + HEAD_START_MS;
    const toMs = fromMs + durationMs;
    return await Promise.all(
      parties.map(async ({ worker, target, callers }) => {
        const mix = { ...(writeEvery && { writeEvery }), ...(restMs && { restMs }) };
        const span = { fromMs, toMs, counterUrl };
        await worker.ask({ do: 'crowd', ...target, name, callers, ...span, ...mix });
        return await worker.ask({ do: 'disband', name });
      }),
    );
  });
  const counted = Number(await counter.get(`${name}:counter`));
  await counter.del(`${name}:counter`);
  const entries = sum(crowds.map((crowd) => crowd.entries));
  const turns = turnsOf(crowds);
  const counts = countsOf(parties, turns);
  const waitsMs = crowds.flatMap((crowd) => crowd.waitsMs);
  const writes = sum(crowds.map((crowd) => crowd.writes));
  const isSemaphore = parties.some(({ target }) => target.permits !== undefined);
  return {
    crowds,
    figures: {
      rate: (handOversIn(turns) * 1_000) / durationMs,
      stays: (turns.length * 1_000) / durationMs,
      jain: jainIndex(counts),
      p50: quantile(waitsMs, 0.5),
      p99: quantile(waitsMs, 0.99),
      longest: quantile(waitsMs, 1),
      longestWrite: quantile(
        crowds.flatMap((crowd) => crowd.writerWaitsMs),
        1,
      ),
      scripts: used.scripts / entries,
      commands: (used.commands - 2 * entries) / entries,
      // Two callers that read the same number: one of them overwrote the other. A holder of a permit counts up and down again.
      violations:
        (isSemaphore ? 0 : writes - counted) + sum(crowds.map((crowd) => crowd.intrusions)),
      stuck: sum(crowds.map((crowd) => crowd.stuck)),
    },
  };
}

/** One stay: its caller, and its rank. */
interface Turn {
  readonly party: number;
  readonly caller: number;
  readonly number: number;
}

/** In order. */
function turnsOf(crowds: readonly Crowd[]): Turn[] {
  return crowds
    .flatMap(({ callers, numbers }, party) =>
      callers.map((caller, i) => ({ party, caller, number: numbers[i]! })),
    )
    .sort((one, other) => one.number - other.number);
}

function handOversIn(turns: readonly Turn[]): number {
  return turns.filter(({ party, caller }, i) => {
    const before = turns[i - 1];
    return before && (before.party !== party || before.caller !== caller);
  }).length;
}

/** How often each caller was inside, including those that never were. */
function countsOf(parties: readonly Party[], turns: readonly Turn[]): number[] {
  const counts = parties.map(({ callers }) => Array<number>(callers).fill(0));
  for (const { party, caller } of turns) counts[party]![caller]!++;
  return counts.flat();
}

export interface SectionOptions {
  /** The name of the lock; never used before. */
  readonly name: string;
  readonly counter: Redis;
  readonly counterUrl: string;
  readonly durationMs: number;
  /** A caller writes every n-th time and reads otherwise; not set: it always writes. */
  readonly writeEvery?: number;
  /** The longest rest of a caller between two stays, of random length; not set: it has none. */
  readonly restMs?: number;
}
