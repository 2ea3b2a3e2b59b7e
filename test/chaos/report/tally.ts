// What all rounds of a campaign came to, as a table, and until then in one line.
import { printTable } from '../../../benchmarks/support/figures.js';
import { machineMs } from '../../support/time.js';
import { deletionsIn } from '../checker/deletions.js';
import type { Plan } from '../plan.js';
import type { Progress, RoundResult } from '../round.js';

/**
 * `frames`: commands and messages that were treated badly; `writes`: to what fenced locks guard; `taken`: how often locks were taken away from
 * holders, and how many of these holders' connections `excused` that they went on for too long.
 */
const COLUMNS =
  'rounds seconds calls sections kept losses taken excused faults frames looks writes refused violations';

/** What is counted, and how many faults there should have been. */
type Sum = Record<
  | (
      | 'rounds'
      | 'seconds'
      | 'calls'
      | 'sections'
      | 'kept'
      | 'losses'
      | 'taken'
      | 'excused'
      | 'faults'
      | 'frames'
      | 'looks'
    )
  | ('writes' | 'refused' | 'violations' | 'planned'),
  number
>;

const MANY_WRITES = 100;
const MANY_TAKEN = 50;
/** How many of the locks that were taken away may be excused by their former holders' connections. */
const MOST_EXCUSED = 0.05;
const NEVER_REFUSED =
  'Of all writes under fenced locks none was refused: nobody came late, or nobody noticed.';
const NEVER_OVER =
  'These faults were not over when their rounds were, and excused what came after them there:';

export class Tally {
  readonly #sums = new Map<string, Sum>();
  readonly #broken: string[] = [];
  /** Locks that no server was ever asked about, though there were rounds about them. */
  readonly #unseen: string[] = [];
  /** Faults that were not over when their round was: what came after them was excused. */
  readonly #endless: string[] = [];

  /** Whether nothing was broken, and it would have been noticed. */
  get isSound(): boolean {
    return this.#broken.length === 0 && this.#blind.length === 0;
  }

  /** Why something broken may not have been noticed. */
  get #blind(): string[] {
    const { rounds, writes, refused, taken, excused } = this.total;
    const blind = [...this.#sums].flatMap(([name, each]) =>
      nothingOf(name, each).map((what) => `${name}: ${what}`),
    );
    if (rounds === 0) blind.push('No round was played.');
    // Nobody came late to what fenced locks guard, though many wrote: then nothing is known of who does.
    if (writes >= MANY_WRITES && refused === 0) blind.push(NEVER_REFUSED);
    if (taken >= MANY_TAKEN && excused > MOST_EXCUSED * taken)
      blind.push(
        `Of ${taken} locks that were taken away from holders, ${excused} are excused by connections that were down: more than one in twenty.`,
      );
    return [...blind, ...this.#unseen];
  }

  get total(): Sum {
    const all = sum();
    for (const each of this.#sums.values()) addTo(all, each);
    return all;
  }

  add({ plan, evidence, violations, mess, tookMs }: RoundResult): void {
    const sections = [...evidence.history.sections.values()];
    const entered = sections.filter(({ enteredAt }) => enteredAt !== undefined);
    const writes = entered.flatMap((section) => section.writes);
    const { hitCount, excusedCount } = deletionsIn(evidence);
    const key = `${plan.kind}, ${plan.topology}`;
    const into = this.#sums.get(key) ?? sum();
    this.#sums.set(key, into);
    addTo(into, {
      rounds: 1,
      seconds: tookMs / 1_000,
      calls: sections.length,
      sections: entered.length,
      kept: evidence.history.keptCount,
      losses: entered.filter((each) => each.doubtedAt ?? each.failure?.code === 'LOCK_LOST').length,
      taken: hitCount,
      excused: excusedCount,
      faults: evidence.faults.length,
      planned: plan.faults.length,
      frames: mess.commands + mess.messages,
      looks: evidence.looks.length,
      writes: writes.length,
      refused: writes.filter(({ refusedBy }) => refusedBy !== undefined).length,
      violations: violations.length,
    });
    const name = `${plan.kind} ${plan.seed}`;
    for (const { rule } of violations) this.#broken.push(`${name}: ${rule}`);
    const seen = new Set(evidence.looks.map(({ lock }) => lock));
    for (const lock of plan.locks.filter((each) => !seen.has(each)))
      this.#unseen.push(`${name}: no server ever said who has "${lock}".`);
    for (const { nemesis, until } of evidence.faults)
      if (until === Infinity) this.#endless.push(`${name}: ${nemesis}`);
  }

  print(): void {
    const columns = COLUMNS.split(' ') as (keyof Sum)[];
    const rows = [...this.#sums, ['all', this.total] as const].map(([name, each]) => [
      name,
      ...columns.map((column) => Math.round(each[column]).toLocaleString('en')),
    ]);
    printTable([['', ...columns], ...rows]);
    const verdict = this.isSound ? ['Every promise was kept.'] : [...this.#broken, ...this.#blind];
    console.log(`\n${verdict.join('\n')}`);
    if (this.#endless.length > 0) console.log(`${NEVER_OVER}\n${this.#endless.join('\n')}`);
  }
}

/** What there was none of in all rounds of a kind, so that they show nothing. */
function nothingOf(name: string, { sections, kept, looks, faults, planned }: Sum): string[] {
  return [
    ...(sections > 0 ? [] : ['nobody ever held a lock.']),
    ...(kept > 0 || !name.startsWith('kept')
      ? []
      : ['nobody used a lock that its client had kept.']),
    ...(looks > 0 ? [] : ['no server was ever looked at.']),
    ...(faults > 0 || planned === 0 ? [] : [`of ${planned} faults none happened.`]),
  ];
}

function sum(): Sum {
  const columns = [...COLUMNS.split(' '), 'planned'];
  return Object.fromEntries(columns.map((column) => [column, 0])) as Sum;
}

function addTo(sum: Sum, more: Sum): void {
  for (const key of Object.keys(sum) as (keyof Sum)[]) sum[key] += more[key];
}

// What goes on in this moment, in one line that is drawn over; without a terminal, a line for each round.

export class StatusLine implements Disposable {
  readonly #tally: Tally;
  readonly #endsAt: number;
  readonly #present = new Map<Plan, Progress>();
  readonly #startedAt = machineMs();

  constructor(tally: Tally, endsAt: number) {
    this.#tally = tally;
    this.#endsAt = endsAt;
  }

  show(plan: Plan, progress: Progress): void {
    if (!this.#present.has(plan) && !process.stdout.isTTY) this.print(this.#describe(plan));
    this.#present.set(plan, progress);
    this.#draw();
  }

  over(plan: Plan): void {
    this.#present.delete(plan);
  }

  /** A line that stays. */
  print(text: string): void {
    this.clear();
    console.log(text);
  }

  clear(): void {
    if (process.stdout.isTTY) process.stdout.write('\r\u001b[K');
  }

  [Symbol.dispose](): void {
    this.clear();
  }

  #describe({ kind, seed, topology }: Plan): string {
    const { rounds, sections, faults, violations } = this.#tally.total;
    return `${this.#clock()} ${kind} ${seed} on ${topology} (so far ${rounds} rounds, ${sections} sections, ${faults} faults, ${violations} violations)`;
  }

  #clock(): string {
    const seconds = Math.round((machineMs() - this.#startedAt) / 1_000);
    const ends =
      this.#endsAt === Infinity
        ? ''
        : `/${Math.round((this.#endsAt - this.#startedAt) / 60_000)}min`;
    return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}${ends}`;
  }

  #draw(): void {
    if (!process.stdout.isTTY) return;
    const { rounds, violations } = this.#tally.total;
    const present = [...this.#present].map(
      ([{ kind, seed, topology }, { phase, sections, faults }]) =>
        `${kind} ${seed} on ${topology}, ${phase}: ${sections} calls${faults.map((fault) => `, ${fault}`).join('')}`,
    );
    const text = `${this.#clock()} ${rounds} rounds, ${violations} violations | ${present.join(' | ')}`;
    process.stdout.write(`\r\u001b[K${text.slice(0, process.stdout.columns - 1)}`);
  }
}
