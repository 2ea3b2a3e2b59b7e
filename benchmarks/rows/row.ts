// A row of the suite: one kind of work, measured in one or several cases, by contenders in turns.
import type { Redis } from 'ioredis';
import { PEERS } from '../peers/catalogue.js';
import type { Peer } from '../peers/peer.js';
import { printCase, seriesOf, type Case, type Series, type TargetResult } from '../report/case.js';
import type { Growth } from '../report/charts.js';
import { WorkerProcess } from '../worker/worker-process.js';

/** smoke: only long enough to see that it works; quick: within 90 s altogether, most of which go by while processes start. */
export type Effort = 'smoke' | 'quick' | 'full';

export interface RowContext {
  /** A Redis server that nobody else uses. */
  readonly url: string;
  /** A connection to it: to ask what it spent, and to look at what is counted there. */
  readonly redis: Redis;
  /** In front of every key, so that nothing of the user's is touched. */
  readonly keyPrefix: string;
  readonly effort: Effort;
  /** The real Redisson, where there is Java. */
  readonly redisson: readonly Contender[];
  /** Its read-write lock, in the same way. */
  readonly redissonReadWrite: readonly Contender[];
  readonly progress: Progress;
}

export interface RowOutcome {
  readonly cases: readonly Case[];
  readonly growths?: readonly Growth[];
  readonly targets?: readonly TargetResult[];
  /** What must never happen, and did. */
  readonly violations?: readonly string[];
}

export interface Row {
  readonly name: string;
  /** What it does, in one line. */
  readonly what: string;
  run(context: RowContext): Promise<RowOutcome>;
}

/** Who takes part in a row, and how its worker processes are started. */
export interface Contender extends Omit<Peer, 'connect'> {
  readonly runtime: 'node' | 'java';
  /** `nodeOptions` are for Node.js alone. */
  start(...nodeOptions: string[]): WorkerProcess;
}

/** In the order of the catalogue. */
const CONTENDERS: readonly Contender[] = PEERS.map((peer) => ({
  ...peer,
  runtime: 'node',
  start: (...nodeOptions) => WorkerProcess.node(...nodeOptions),
}));

/** Those of which more than one may be inside. */
export function semaphores(effort: Effort): Contender[] {
  return CONTENDERS.filter(
    ({ id, role, isShared, tuned }) =>
      isShared && id !== 'holdfast-read-write' && (effort !== 'quick' || role === 'ours' || tuned),
  );
}

export function contender(id: string): Contender {
  return CONTENDERS.find((known) => known.id === id)!;
}

/** Who stands for all of npm in a quick run where nobody waits: the best known, and the best of those that poll and that are told. */
const QUICK = ['redlock', 'redis-semaphore', 'node-redisson'];

/** Where somebody waits, each as it waits best. redlock gets stuck there, which takes a second each time. */
const QUICK_WAITING = ['redis-semaphore-tuned', 'node-redisson-streams'];

/** The locks of npm, ours among them; the tuned ones too. */
export function npmLocks(effort: Effort): Contender[] {
  if (effort === 'quick') return ['holdfast', ...QUICK].map(contender);
  const others = CONTENDERS.filter(
    ({ id, role, isShared }) => role === 'competitor' && !isShared && id !== 'redisson-like',
  );
  return [contender('holdfast'), contender('holdfast-fair'), ...others];
}

/** Those for a row in which somebody waits. */
export function waitingLocks(effort: Effort): Contender[] {
  if (effort !== 'quick') return npmLocks(effort);
  return ['holdfast', 'holdfast-fair', ...QUICK_WAITING].map(contender);
}

/**
 * Measures contenders in turns: a short slice of each, in a new random order every round, so that whatever else the machine does falls on
 * all of them alike. Returns what `slice` returned, by contender, in the order of rounds. Round 0 warms up and does not count; it is left
 * out where every slice begins with processes of its own. A competitor whose slice fails is left out, which is said: what the others did
 * must not go with it.
 */
export async function inTurns(
  { progress }: RowContext,
  title: string,
  contenders: readonly Contender[],
  rounds: number,
  slice: (one: Contender, round: number) => Promise<Record<string, number>>,
  hasWarmUp = true,
): Promise<Series[]> {
  progress.begin(title);
  const results = new Map<Contender, Record<string, number>[]>(contenders.map((one) => [one, []]));
  for (let round = hasWarmUp ? 0 : 1; round <= rounds; round++) {
    for (const one of shuffled([...results.keys()])) {
      progress.step(`round ${round} of ${rounds}, ${one.label}`);
      try {
        const result = await slice(one, round);
        if (round > 0) results.get(one)!.push(result);
      } catch (error) {
        if (one.role !== 'competitor') throw error;
        results.delete(one);
        console.log(`\n${one.label} is left out in what follows: ${String(error)}`);
      }
    }
  }
  return seriesOf(results);
}

/** Prints what was measured, in place of what goes on. */
export function show({ progress }: RowContext, one: Case): Case {
  progress.clear();
  printCase(one);
  return one;
}

function shuffled<T>(items: readonly T[]): T[] {
  const rest = [...items];
  return items.map(() => rest.splice(Math.floor(Math.random() * rest.length), 1)[0]!);
}

/** Says what is going on while nothing is printed: one line that is written over, on a terminal only. */
export class Progress {
  #title = '';
  readonly #startMs = performance.now();

  /** What is measured from now on. */
  begin(title: string): void {
    this.#title = title;
    this.step('');
  }

  step(what: string): void {
    if (!process.stderr.isTTY) return;
    const seconds = Math.round((performance.now() - this.#startMs) / 1_000);
    const line = `${seconds} s · ${this.#title} · ${what}`;
    process.stderr.write(`\r\x1b[K${line.slice(0, (process.stderr.columns || 80) - 1)}`);
  }

  /** Makes room for what is printed. */
  clear(): void {
    if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');
  }
}
