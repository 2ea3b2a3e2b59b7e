// A row of the suite: one kind of work, measured in one or several cases, by contenders in turns.
import type { Redis } from 'ioredis';
import { PEERS } from '../peers/catalogue.js';
import type { Peer } from '../peers/peer.js';
import { printCase, seriesOf, type Case, type Series, type TargetResult } from '../report/case.js';
import type { Growth } from '../report/charts.js';
import { WorkerProcess } from '../worker/worker-process.js';

/** smoke: only long enough to see that it works; quick: within 90 s in total, most of it for starting processes. */
export type Effort = 'smoke' | 'quick' | 'full';

export interface RowContext {
  /** A Redis server that nobody else uses. */
  readonly url: string;
  /** A connection to it, to query its statistics and the counters. */
  readonly redis: Redis;
  /** The prefix of every key, so that the user's keys are safe. */
  readonly keyPrefix: string;
  readonly effort: Effort;
  /** The real Redisson, if there is Java. */
  readonly redisson: readonly Contender[];
  /** Its read-write lock, likewise. */
  readonly redissonReadWrite: readonly Contender[];
  readonly progress: Progress;
}

export interface RowOutcome {
  readonly cases: readonly Case[];
  readonly growths?: readonly Growth[];
  readonly targets?: readonly TargetResult[];
  /** Events that must never happen, and did. */
  readonly violations?: readonly string[];
}

export interface Row {
  readonly name: string;
  /** What the row does, in one line. */
  readonly what: string;
  run(context: RowContext): Promise<RowOutcome>;
}

/** The contenders of a row, and how their worker processes are started. */
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

/** The contenders of which more than one caller may be inside. */
export function semaphores(effort: Effort): Contender[] {
  return CONTENDERS.filter(
    ({ id, role, isShared, tuned }) =>
      isShared && id !== 'holdfast-read-write' && (effort !== 'quick' || role === 'ours' || tuned),
  );
}

export function contender(id: string): Contender {
  return CONTENDERS.find((known) => known.id === id)!;
}

/** The representatives of npm in a quick run without waiting: the best known, and the best that poll and that get messages. */
const QUICK = ['redlock', 'redis-semaphore', 'node-redisson'];

/** With waiting, each with its best settings. redlock gets stuck there, which takes a second each time. */
const QUICK_WAITING = ['redis-semaphore-tuned', 'node-redisson-streams'];

/** The locks of npm, ours among them; including the tuned ones. */
export function npmLocks(effort: Effort): Contender[] {
  if (effort === 'quick') return ['holdfast', ...QUICK].map(contender);
  const others = CONTENDERS.filter(
    ({ id, role, isShared }) => role === 'competitor' && !isShared && id !== 'redisson-like',
  );
  return [contender('holdfast'), contender('holdfast-fair'), ...others];
}

/** The contenders of a row with waiting. */
export function waitingLocks(effort: Effort): Contender[] {
  if (effort !== 'quick') return npmLocks(effort);
  return ['holdfast', 'holdfast-fair', ...QUICK_WAITING].map(contender);
}

/**
 * Measures contenders in turns: a short slice of each, in a new random order every round, so that other load on the machine affects all of
 * them alike. Returns what `slice` returned, by contender, in the order of rounds. Round 0 warms up and does not count; it is omitted if
 * every slice begins with processes of its own. A competitor whose slice fails is left out with a message, so that the results of the
 * others are kept.
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
        console.log(`\n${one.label} is left out from here on: ${String(error)}`);
      }
    }
  }
  return seriesOf(results);
}

/** Prints the results, in place of the progress line. */
export function show({ progress }: RowContext, one: Case): Case {
  progress.clear();
  printCase(one);
  return one;
}

function shuffled<T>(items: readonly T[]): T[] {
  const rest = [...items];
  return items.map(() => rest.splice(Math.floor(Math.random() * rest.length), 1)[0]!);
}

/** Shows the progress while nothing is printed: one line that is overwritten, on a terminal only. */
export class Progress {
  #title = '';
  readonly #startMs = performance.now();

  /** Announces what is measured from now on. */
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

  /** Makes room for printed output. */
  clear(): void {
    if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');
  }
}
