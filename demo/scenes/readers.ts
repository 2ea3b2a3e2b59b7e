// Worker processes read accounts, all at the same time, while others write them in two steps: first without a lock, then under a read-write
// lock, where a reader and a writer are killed.
import { styleText } from 'node:util';
import { TOTAL_CENTS } from '../support/bank.js';
import type { Worker } from '../support/crew.js';
import { accountRows, fault, faults, money, seconds, table, takeover } from '../support/figures.js';
import { monotonicMs, type Report, type Task } from '../support/messages.js';
import {
  FOREVER_MS,
  playScene,
  type Scene,
  type ScenePlan,
  type SceneState,
  type Story,
} from '../support/scene.js';
import { conclude, onStage, type Show } from '../support/stage.js';
import { createView } from '../support/view.js';

const WORKERS = 6;

const WITHOUT_LOCKS: ReadersPlan = {
  title: '1 of 2: without locks',
  explanation:
    '4 processes repeatedly add up all accounts, without a pause; 2 move money now and then, in\n' +
    'two steps. A sum that is computed between the two steps is wrong.',
  lock: 'none',
  durationMs: 5_000,
};

const UNDER_HOLDFAST: ReadersPlan = {
  title: "2 of 2: holdfast.getReadWriteLock('bank')",
  explanation:
    'The same: readers hold readLock(), writers hold writeLock(). After 4 s the demo kills a\n' +
    'reader, after 10 s a writer.',
  lock: 'read-write',
  durationMs: 16_000,
  kills: { reader: 4_000, writer: 10_000 },
};

export const readersShow: Show = {
  about: 'readers that never pause, and writers; one of each is killed',
  play: (signal) =>
    onStage({ workers: WORKERS, signal }, async (stage) => {
      using view = createView({ frame, summary });
      const play = (plan: ReadersPlan): Promise<ReadersState> =>
        playScene(plan, stage, view, (scene) => new ReadersStory(scene));
      const bare = await play(WITHOUT_LOCKS);
      const locked = await play(UNDER_HOLDFAST);
      return conclude(report(bare, locked), findBug(bare, locked), MORAL);
    }),
};

interface ReadersPlan extends ScenePlan {
  /** When to kill a reader, and a writer; left out: never. */
  readonly kills?: Readonly<Record<Role, number>>;
}

type Role = 'reader' | 'writer';

interface ReadersState extends SceneState<ReadersPlan> {
  /** The workers that write; the others read. */
  readonly writers: readonly Worker[];
  readonly reads: number;
  readonly transfers: number;
  /** Sums that were wrong because of a write meanwhile. */
  readonly wrongSums: number;
  /** The total of all accounts. */
  readonly totalCents: number;
  readonly mostReaders: number;
  readonly intrusions: number;
  /** Of a writer behind live processes. */
  readonly longestWriterWaitMs: number;
  /** From the kill until a worker that the dead one had blocked is inside. */
  readonly takeoverMs: Readonly<Partial<Record<Role, number>>>;
}

/** Workers 1 and 2 write. */
const WRITERS = 2;

class ReadersStory implements Story<ReadersPlan, ReadersState> {
  readonly #scene: Scene<ReadersPlan>;
  readonly #stays = new Stays();
  readonly #killedAtMs = new Map<Role, number>();
  readonly #takeoverMs: Partial<Record<Role, number>> = {};
  #reads = 0;
  #transfers = 0;
  #wrongSums = 0;
  #longestWriterWaitMs = 0;

  constructor(scene: Scene<ReadersPlan>) {
    this.#scene = scene;
  }

  taskOf(worker: Worker): Task {
    return this.#writes(worker) ? 'write' : 'read';
  }

  async happen(): Promise<void> {
    const { kills } = this.#scene.plan;
    if (!kills) return;
    await this.#killOne('reader', kills.reader);
    await this.#killOne('writer', kills.writer);
  }

  heed(worker: Worker, report: Report): void {
    if (report.type === 'holds') {
      this.#stays.enter(worker, report.atMs);
      this.#noticeTakeovers(worker, report.atMs);
      this.#noticeWait(worker, report.atMs, report.waitedMs);
    }
    if (report.type === 'read') {
      this.#stays.leave(worker, report.atMs, false);
      this.#reads++;
      if (report.sumCents !== TOTAL_CENTS) this.#wrongSums++;
    }
    if (report.type === 'transferred') {
      this.#stays.leave(worker, report.atMs, true);
      this.#transfers++;
    }
  }

  look(state: SceneState<ReadersPlan>): ReadersState {
    return {
      ...state,
      writers: this.#writers,
      reads: this.#reads,
      transfers: this.#transfers,
      wrongSums: this.#wrongSums,
      totalCents: state.accounts.reduce((sum, { balanceCents }) => sum + balanceCents, 0),
      mostReaders: this.#stays.mostReaders,
      intrusions: this.#stays.intrusions,
      longestWriterWaitMs: this.#longestWriterWaitMs,
      takeoverMs: this.#takeoverMs,
    };
  }

  get #writers(): readonly Worker[] {
    return this.#scene.stage.crew.workers.slice(0, WRITERS);
  }

  #writes(worker: Worker): boolean {
    return this.#writers.includes(worker);
  }

  async #killOne(role: Role, atMs: number): Promise<void> {
    await this.#scene.until(atMs);
    const living = this.#scene.stage.crew.living.filter(
      (worker) => this.#writes(worker) === (role === 'writer'),
    );
    const victim = await this.#scene.somebodyMidway(FOREVER_MS, false, living[0]);
    if (!victim) return; // findBug() reports it
    const killedAtMs = monotonicMs();
    this.#killedAtMs.set(role, killedAtMs);
    void victim.kill();
    this.#stays.leave(victim, killedAtMs, role === 'writer');
    const doing = role === 'writer' ? 'holds the write lock, has not written yet' : 'reads';
    this.#scene.tell(`${victim.name} ${doing}: SIGKILL`);
  }

  /** A dead reader blocks writers, a dead writer everybody. */
  #noticeTakeovers(worker: Worker, atMs: number): void {
    for (const [role, killedAtMs] of this.#killedAtMs) {
      const isKeptOut = role === 'writer' || this.#writes(worker);
      if (this.#takeoverMs[role] !== undefined || atMs < killedAtMs || !isKeptOut) continue;
      this.#takeoverMs[role] = atMs - killedAtMs;
      const after = seconds(atMs - killedAtMs, 2);
      const does = this.#writes(worker) ? 'writes' : 'reads';
      this.#scene.tell(`${worker.name} ${does} ${after} later, when the lease ended`);
    }
  }

  /** How long writers wait for live processes: not while a dead one is inside. */
  #noticeWait(worker: Worker, atMs: number, waitedMs: number): void {
    const waitedForTheDead = [...this.#killedAtMs].some(([role, killedAtMs]) => {
      const takenOverAtMs = killedAtMs + (this.#takeoverMs[role] ?? Infinity);
      return atMs > killedAtMs && atMs - waitedMs < takenOverAtMs;
    });
    if (waitedForTheDead || !this.#writes(worker)) return;
    this.#longestWriterWaitMs = Math.max(this.#longestWriterWaitMs, waitedMs);
  }
}

// Who was inside when, as the workers report: how many readers overlapped, and whether anybody overlapped with a writer.

/** One stay in the lock, or at work without one; times on the machine's monotonic clock. */
interface Stay {
  readonly writes: boolean;
  readonly enteredAtMs: number;
  readonly leftAtMs: number;
}

export class Stays {
  readonly #entered = new Map<Worker, number>();
  /** The stays that are over. */
  readonly #past: Stay[] = [];
  #intrusions = 0;
  #mostReaders = 0;

  enter(worker: Worker, atMs: number): void {
    this.#entered.set(worker, atMs);
  }

  /** Ends the worker's stay, if it has one. */
  leave(worker: Worker, leftAtMs: number, writes: boolean): void {
    const enteredAtMs = this.#entered.get(worker);
    if (enteredAtMs === undefined) return;
    this.#entered.delete(worker);
    const stay = { writes, enteredAtMs, leftAtMs };
    const beside = this.#past.filter((other) => overlap(stay, other));
    this.#intrusions += beside.filter((other) => writes || other.writes).length;
    this.#past.push(stay);
    if (!writes) this.#mostReaders = Math.max(this.#mostReaders, this.#readersAlong(stay, beside));
  }

  /** The largest number of readers at the same time. */
  get mostReaders(): number {
    return this.#mostReaders;
  }

  /** How often a worker was inside together with a writer. */
  get intrusions(): number {
    return this.#intrusions;
  }

  /** The most readers at a time during a stay; the maximum is at the entry of one of them. */
  #readersAlong(stay: Stay, beside: readonly Stay[]): number {
    const readers = [stay, ...beside.filter(({ writes }) => !writes)];
    const at = (atMs: number): number =>
      readers.filter(({ enteredAtMs, leftAtMs }) => enteredAtMs <= atMs && atMs < leftAtMs).length;
    return Math.max(...readers.map(({ enteredAtMs }) => at(enteredAtMs)));
  }
}

function overlap(one: Stay, other: Stay): boolean {
  return one.enteredAtMs < other.leftAtMs && other.enteredAtMs < one.leftAtMs;
}

function frame(state: ReadersState): string[] {
  const { plan, workers, writers, accounts, reads, transfers, wrongSums, mostReaders } = state;
  return [
    ...workers.map((worker) => workerRow(worker, writers.includes(worker))),
    '',
    ...accountRows(accounts),
    '',
    [
      `  sums ${reads}`,
      `transfers ${transfers}`,
      ...(plan.lock === 'none' ? [] : [`most readers at a time ${mostReaders}`]),
      fault('wrong sums', wrongSums),
    ].join('  '),
    '',
  ];
}

function workerRow({ name, state, sinceMs }: Worker, isWriter: boolean): string {
  const forTime = seconds(performance.now() - sinceMs, 1);
  switch (state) {
    case 'holds':
      return `  ${name}   ${isWriter ? styleText('yellow', '■ writes, alone') : styleText('green', '● reads')}`;
    case 'waits':
      return `  ${name}   ○ waits to ${isWriter ? 'write' : 'read'} ${forTime}`;
    case 'transfers':
      return `  ${name}   ${isWriter ? '■ writes now and then' : '● reads'}`;
    case 'killed':
      return `  ${name}   ${styleText('red', `✗ killed ${forTime} ago`)}`;
    case 'starts':
    case 'paused':
    case 'rests':
      return `  ${name}   ${styleText('dim', isWriter ? '· between two transfers' : '· between two sums')}`;
  }
}

function summary(state: ReadersState): string {
  const { plan, workers, reads, transfers, wrongSums, mostReaders } = state;
  const names = (which: Worker['state']): string =>
    workers
      .filter((worker) => worker.state === which)
      .map(({ name }) => name)
      .join(', ') || 'nobody';
  return [
    ...(plan.lock === 'none'
      ? []
      : [
          `inside: ${names('holds')}; waiting: ${names('waits')}`,
          `most readers at a time: ${mostReaders}`,
        ]),
    `${transfers} transfers, ${reads} sums, ${wrongSums} wrong`,
  ].join(' | ');
}

/** The part of a scene that the verdict depends on. */
type Outcome = Pick<
  ReadersState,
  'transfers' | 'wrongSums' | 'totalCents' | 'mostReaders' | 'intrusions' | 'takeoverMs'
>;

/** Both scenes side by side. */
function report(bare: ReadersState, locked: ReadersState): string {
  const both = [bare, locked];
  const { longestWriterWaitMs, takeoverMs } = locked;
  return table(
    [
      ['', 'without locks', 'under holdfast'],
      ['sums', ...both.map(({ reads }) => String(reads))],
      ['wrong sums', ...both.map(({ wrongSums }) => faults(wrongSums))],
      ['transfers', ...both.map(({ transfers }) => String(transfers))],
      ['most readers at a time', '-', String(locked.mostReaders)],
      ['overlaps with a writer', '-', String(locked.intrusions)],
      ['longest wait of a writer', '-', seconds(longestWriterWaitMs, 2)],
      ['takeover, a reader killed', '-', takeover(takeoverMs.reader)],
      ['takeover, a writer killed', '-', takeover(takeoverMs.writer)],
      ['total of all accounts', ...both.map(({ totalCents }) => money(totalCents))],
    ],
    32,
  );
}

const MORAL =
  'A sum is wrong if it was computed while money was on its way between two accounts,\n' +
  'or after two processes wrote at the same time. Under the lock readers overlap and\n' +
  'never pause, but a reader that comes while a writer waits enters after it. A dead\n' +
  'reader blocks writers, and the readers behind them; a dead writer blocks everybody,\n' +
  'until its lease of 3 s ends. The longest wait of a writer leaves these out.';

/** The first observation that must not happen, or that is missing although the show is about it; undefined: none. */
export function findBug(bare: Outcome, locked: Outcome): string | undefined {
  if (bare.wrongSums === 0) return 'Without locks all sums were right';
  if (locked.wrongSums > 0) return `Under the lock ${locked.wrongSums} sums were wrong`;
  if (locked.intrusions > 0)
    return `A writer overlapped with another process ${locked.intrusions} times`;
  if (locked.mostReaders < 2) return 'No two readers overlapped';
  if (locked.transfers === 0) return 'Readers shut out the writers';
  if (locked.takeoverMs.reader === undefined) return 'After a reader was killed, nobody wrote';
  if (locked.takeoverMs.writer === undefined)
    return 'After a writer was killed, nobody acquired the lock';
  if (locked.totalCents !== TOTAL_CENTS) {
    return `At the end the accounts held ${money(locked.totalCents)} in total instead of ${money(TOTAL_CENTS)}`;
  }
  return undefined;
}
