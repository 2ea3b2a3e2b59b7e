// Worker processes transfer money under a lock, and one of them is paused past its lease while it holds it: first the bank accepts every
// write, then it refuses a writer with an older token.
import { styleText } from 'node:util';
import type { Worker } from '../support/crew.js';
import {
  accountRows,
  fault,
  faults,
  holderIn,
  seconds,
  table,
  takeover,
} from '../support/figures.js';
import { monotonicMs, type Report } from '../support/messages.js';
import {
  playScene,
  type Scene,
  type ScenePlan,
  type SceneState,
  type Story,
} from '../support/scene.js';
import { conclude, onStage, type Show } from '../support/stage.js';
import { createView } from '../support/view.js';

const WORKERS = 4;

const TIMES = { pauseAfterMs: 2_000, wakeAfterMs: 7_000, durationMs: 9_000 };

const WITHOUT_TOKENS: FencedPlan = {
  title: "1 of 2: without tokens, holdfast.getLock('bank')",
  explanation:
    `${WORKERS} processes transfer money, one at a time. After 2 s the holder is paused, between its last\n` +
    'check of the lock and its write. After 7 s it continues, still believes that it holds the\n' +
    'lock, and writes.',
  lock: 'reentrant',
  ...TIMES,
};

const WITH_TOKENS: FencedPlan = {
  title: "2 of 2: with tokens, holdfast.getFencedLock('bank')",
  explanation:
    'The same. Each holder has a larger token than all holders before it, and sends it with each\n' +
    'write. The bank refuses a write whose token is smaller than one that it has seen.',
  lock: 'fenced',
  ...TIMES,
};

export const fencedShow: Show = {
  about: 'a paused holder writes late, without and with fencing tokens',
  play: (signal) =>
    onStage({ workers: WORKERS, signal }, async (stage) => {
      using view = createView({ frame, summary });
      const play = (plan: FencedPlan): Promise<FencedState> =>
        playScene(plan, stage, view, (scene) => new FencedStory(scene));
      const bare = await play(WITHOUT_TOKENS);
      const fenced = await play(WITH_TOKENS);
      return conclude(report(bare, fenced), findBug(bare, fenced), MORAL);
    }),
};

interface FencedPlan extends ScenePlan {
  /** When to pause the holder. */
  readonly pauseAfterMs: number;
  /** When it continues; later if nobody else has written by then. */
  readonly wakeAfterMs: number;
}

interface FencedState extends SceneState<FencedPlan> {
  readonly transfers: number;
  /** The holders' tokens; empty without tokens. */
  readonly tokens: ReadonlyMap<Worker, string>;
  /** The largest token that the bank has seen. */
  readonly largestToken: string | undefined;
  /** From the pause until another worker held the lock. */
  readonly takeoverMs: number | undefined;
  /** Transfers while the holder was paused. */
  readonly meanwhile: number;
  /** The fate of what the paused process wrote when it continued; undefined: it has not written. */
  readonly lateWrite: 'accepted' | 'refused' | undefined;
}

/** How long the holder stays between its last check of the lock and its write: long enough to be paused there. */
const LINGER_MS = 2_000;

class FencedStory implements Story<FencedPlan, FencedState> {
  readonly #scene: Scene<FencedPlan>;
  readonly #tokens = new Map<Worker, string>();
  #transfers = 0;
  #paused: Worker | undefined;
  #pausedAtMs = Infinity;
  #takeoverMs: number | undefined;
  #meanwhile = 0;
  #isAwake = false;
  #lateWrite: FencedState['lateWrite'];

  constructor(scene: Scene<FencedPlan>) {
    this.#scene = scene;
  }

  async happen(): Promise<void> {
    await this.#scene.until(this.#scene.plan.pauseAfterMs);
    const holder = await this.#scene.somebodyMidway(LINGER_MS, true);
    if (!holder) return; // findBug() reports it
    holder.pause();
    this.#pausedAtMs = monotonicMs();
    this.#paused = holder;
    this.#scene.tell(`${holder.name} holds the lock and is paused just before it writes: SIGSTOP`);

    await this.#scene.until(this.#scene.plan.wakeAfterMs);
    await this.#scene.goOnWhile(() => this.#meanwhile === 0);
    this.#isAwake = true;
    holder.resume();
    this.#scene.tell(
      `${holder.name} continues ${this.#meanwhile} transfers later and writes: SIGCONT`,
    );
  }

  heed(worker: Worker, report: Report): void {
    if (report.type === 'holds') this.#noticeHolder(worker, report.atMs, report.token);
    if (report.type === 'transferred') this.#noticeTransfer(worker, report.atMs);
    if (report.type === 'refused' && this.#isLate(worker)) {
      this.#lateWrite = 'refused';
      this.#scene.tell(`The bank has seen a larger token than its ${report.token}: refused`);
    }
  }

  async look(state: SceneState<FencedPlan>): Promise<FencedState> {
    return {
      ...state,
      transfers: this.#transfers,
      tokens: this.#tokens,
      largestToken: await this.#scene.stage.bank.largestToken(),
      takeoverMs: this.#takeoverMs,
      meanwhile: this.#meanwhile,
      lateWrite: this.#lateWrite,
    };
  }

  #noticeHolder(worker: Worker, atMs: number, token: string | undefined): void {
    if (token !== undefined) this.#tokens.set(worker, token);
    if (atMs < this.#pausedAtMs || this.#takeoverMs !== undefined) return;
    this.#takeoverMs = atMs - this.#pausedAtMs;
    const after = seconds(this.#takeoverMs, 2);
    this.#scene.tell(`${worker.name} has the lock ${after} later, when the lease ended`);
  }

  #noticeTransfer(worker: Worker, atMs: number): void {
    this.#transfers++;
    if (this.#isLate(worker)) {
      this.#lateWrite = 'accepted';
      this.#scene.tell('It writes balances that it read before the pause: the late write wins');
    } else if (atMs > this.#pausedAtMs && !this.#isAwake) this.#meanwhile++;
  }

  /** Whether a worker's report is about the write before which it was paused: the first report after it continues. */
  #isLate(worker: Worker): boolean {
    return worker === this.#paused && this.#isAwake && this.#lateWrite === undefined;
  }
}

function frame(state: FencedState): string[] {
  const { workers, accounts, transfers, largestToken, lostCents } = state;
  return [
    ...workers.map((worker) => workerRow(worker, state)),
    '',
    ...accountRows(accounts),
    '',
    [
      `  transfers ${transfers}`,
      ...(largestToken === undefined ? [] : [`largest token seen ${largestToken}`]),
      fault('cents lost', lostCents),
    ].join('  '),
    '',
  ];
}

function workerRow(worker: Worker, { tokens }: FencedState): string {
  const { name, state, sinceMs } = worker;
  const forTime = seconds(performance.now() - sinceMs, 1);
  const token = tokens.has(worker) ? `   token ${tokens.get(worker)!}` : '';
  switch (state) {
    case 'holds':
      return `  ${name}   ${styleText('green', `● holds the lock${token}`)}`;
    case 'paused':
      return `  ${name}   ${styleText('yellow', `■ paused ${forTime}${token}`)}`;
    case 'waits':
      return `  ${name}   ○ waits ${forTime}`;
    case 'starts':
    case 'transfers':
    case 'rests':
    case 'killed':
      return `  ${name}   ${styleText('dim', '· between two transfers')}`;
  }
}

function summary(state: FencedState): string {
  const { workers, transfers, largestToken, lostCents } = state;
  const holder = holderIn(workers);
  const paused = workers.find((worker) => worker.state === 'paused');
  return [
    `${holder} holds${paused ? `, ${paused.name} is paused` : ''}`,
    ...(largestToken === undefined ? [] : [`largest token seen ${largestToken}`]),
    `${transfers} transfers, ${lostCents.toLocaleString('en')} cents lost`,
  ].join(' | ');
}

/** The part of a scene that the verdict depends on. */
type Outcome = Pick<FencedState, 'takeoverMs' | 'meanwhile' | 'lateWrite' | 'lostCents'>;

/** Both scenes side by side. */
function report(bare: FencedState, fenced: FencedState): string {
  const both = [bare, fenced];
  return table(
    [
      ['', 'without tokens', 'with tokens'],
      ['transfers', ...both.map(({ transfers }) => String(transfers))],
      ['takeover after the pause', ...both.map(({ takeoverMs }) => takeover(takeoverMs))],
      ['transfers during the pause', ...both.map(({ meanwhile }) => String(meanwhile))],
      ['the late write', ...both.map(({ lateWrite }) => lateWrite ?? 'never came')],
      ['cents lost', ...both.map(({ lostCents }) => faults(lostCents))],
    ],
    30,
  );
}

const MORAL =
  'Cents lost: the difference between the balances and a ledger that is written in\n' +
  'the same transactions. Both times the lock did all that a lock can do: the lease\n' +
  'of the paused process ended, and other processes had their turns. The paused one\n' +
  'had checked the lock just before, and wrote when it continued. Only the resource\n' +
  'can refuse such a write: it remembers the largest token that it has seen.';

/** The first observation that must not happen, or that is missing although the show is about it; undefined: none. */
export function findBug(bare: Outcome, fenced: Outcome): string | undefined {
  for (const { takeoverMs, meanwhile, lateWrite } of [bare, fenced]) {
    if (takeoverMs === undefined) return 'While a holder was paused nobody else acquired the lock';
    if (meanwhile === 0) return 'While a holder was paused nobody else wrote';
    if (lateWrite === undefined) return 'The paused process never wrote';
  }
  if (bare.lateWrite !== 'accepted') return 'Without tokens the late write was refused';
  if (bare.lostCents === 0) return 'Without tokens the late write destroyed nothing';
  if (fenced.lateWrite !== 'refused') return 'With tokens the late write was accepted';
  if (fenced.lostCents > 0) return `With tokens ${fenced.lostCents} cents were lost`;
  return undefined;
}
