// One worker process takes and releases a lock again and again, others want it now and then: first without keeping it, then with. At last it
// is killed while it keeps the lock without using it.
import { styleText } from 'node:util';
import type { Worker } from '../support/crew.js';
import { accountRows, fault, faults, seconds, table, takeover } from '../support/figures.js';
import { KEEP_MS, monotonicMs, type Report, type Task } from '../support/messages.js';
import {
  playScene,
  type Scene,
  type ScenePlan,
  type SceneState,
  type Story,
} from '../support/scene.js';
import { conclude, onStage, type Show } from '../support/stage.js';
import { createView } from '../support/view.js';

const WORKERS = 3;

const WITHOUT_KEEP: KeptPlan = {
  title: "1 of 2: without keep, holdfast.getLock('bank')",
  explanation:
    'Worker 1 takes and releases the lock again and again, and asks Redis twice each time. After\n' +
    '2 s the others want it, too, for a transfer each.',
  lock: 'reentrant',
  durationMs: 4_000,
};

const WITH_KEEP: KeptPlan = {
  title: `2 of 2: holdfast.getLock('bank', { keep: ${KEEP_MS} })`,
  explanation:
    'The same, but worker 1 keeps the lock after each release, and does not ask Redis, until the\n' +
    'others want it; and again when they have not wanted it for a while. After 6 s worker 1 stops,\n' +
    'and the demo kills it while it keeps the lock without using it.',
  lock: 'kept',
  durationMs: 9_000,
  killAfterMs: 6_000,
};

export const keptShow: Show = {
  about: 'a lock that its process keeps; it is killed meanwhile',
  play: (signal) =>
    onStage({ workers: WORKERS, signal }, async (stage) => {
      using view = createView({ frame, summary });
      const play = (plan: KeptPlan): Promise<KeptState> =>
        playScene(plan, stage, view, (scene) => new KeptStory(scene));
      const bare = await play(WITHOUT_KEEP);
      const kept = await play(WITH_KEEP);
      return conclude(report(bare, kept), findBug(bare, kept), MORAL);
    }),
};

interface KeptPlan extends ScenePlan {
  /** When to kill worker 1 while it keeps the lock; left out: never. */
  readonly killAfterMs?: number;
}

interface KeptState extends SceneState<KeptPlan> {
  /** How often worker 1 takes and releases the lock in a second; and how often it did lately. */
  readonly pairsPerSecond: number;
  readonly pairsPerSecondNow: number;
  readonly transfers: number;
  /** Of a worker behind live processes. */
  readonly longestWaitMs: number;
  /** From the kill until another worker held the lock. */
  readonly takeoverMs: number | undefined;
  /** Transfers after the kill. */
  readonly afterwards: number;
}

class KeptStory implements Story<KeptPlan, KeptState> {
  readonly #scene: Scene<KeptPlan>;
  #pairs = 0;
  #pairingMs = 0;
  #pairsPerSecondNow = 0;
  #transfers = 0;
  #afterwards = 0;
  #longestWaitMs = 0;
  #killedAtMs: number | undefined;
  #takeoverMs: number | undefined;

  constructor(scene: Scene<KeptPlan>) {
    this.#scene = scene;
  }

  taskOf(worker: Worker): Task {
    return worker === this.#keeper ? 'pairs' : 'visit';
  }

  async happen(): Promise<void> {
    if (this.#scene.plan.killAfterMs === undefined) return;
    await this.#scene.until(this.#scene.plan.killAfterMs);
    this.#keeper.order({ type: 'leave it kept' });
  }

  heed(worker: Worker, report: Report): void {
    if (report.type === 'paired') {
      this.#pairs += report.count;
      this.#pairingMs += report.forMs;
      this.#pairsPerSecondNow = (report.count * 1_000) / report.forMs;
    }
    if (report.type === 'keeps') this.#kill(worker); // at once: it does not keep the lock for long
    if (report.type === 'holds') this.#noticeHolder(worker, report.atMs, report.waitedMs);
    if (report.type === 'transferred') {
      this.#transfers++;
      if (this.#killedAtMs !== undefined) this.#afterwards++;
    }
  }

  look(state: SceneState<KeptPlan>): KeptState {
    return {
      ...state,
      pairsPerSecond: this.#pairingMs > 0 ? (this.#pairs * 1_000) / this.#pairingMs : 0,
      pairsPerSecondNow: this.#pairsPerSecondNow,
      transfers: this.#transfers,
      longestWaitMs: this.#longestWaitMs,
      takeoverMs: this.#takeoverMs,
      afterwards: this.#afterwards,
    };
  }

  get #keeper(): Worker {
    return this.#scene.stage.crew.workers[0]!;
  }

  #kill(keeper: Worker): void {
    this.#killedAtMs = monotonicMs();
    void keeper.kill();
    this.#scene.tell(`${keeper.name} keeps the lock, and nobody holds it: SIGKILL`);
    for (const worker of this.#scene.stage.crew.living) worker.order({ type: 'hurry' });
  }

  #noticeHolder(worker: Worker, atMs: number, waitedMs: number): void {
    if (this.#killedAtMs === undefined) {
      this.#longestWaitMs = Math.max(this.#longestWaitMs, waitedMs);
      if (worker !== this.#keeper)
        this.#scene.tell(`${worker.name} wants the lock, and has it ${seconds(waitedMs, 3)} later`);
    } else if (this.#takeoverMs === undefined) {
      this.#takeoverMs = atMs - this.#killedAtMs;
      const after = seconds(this.#takeoverMs, 2);
      this.#scene.tell(`${worker.name} has the lock ${after} after the kill, when the lease ended`);
    }
  }
}

function frame(state: KeptState): string[] {
  const { workers, accounts, transfers, longestWaitMs, lostCents } = state;
  return [
    ...workers.map((worker, index) => workerRow(worker, index === 0 ? state : undefined)),
    '',
    ...accountRows(accounts),
    '',
    [
      `  transfers ${transfers}`,
      `longest wait ${seconds(longestWaitMs, 3)}`,
      fault('cents lost', lostCents),
    ].join('  '),
    '',
  ];
}

/** `pairing`: the worker takes and releases the lock again and again. */
function workerRow({ name, state, sinceMs }: Worker, pairing: KeptState | undefined): string {
  const forTime = seconds(performance.now() - sinceMs, 1);
  if (state === 'killed')
    return `  ${name}   ${styleText('red', `✗ killed ${forTime} ago, while it kept the lock`)}`;
  if (pairing)
    return `  ${name}   ● takes and releases the lock, ${perSecond(pairing.pairsPerSecondNow)}`;
  if (state === 'holds') return `  ${name}   ${styleText('green', '● holds the lock')}`;
  if (state === 'waits') return `  ${name}   ○ waits ${forTime}`;
  return `  ${name}   ${styleText('dim', '· between two transfers')}`;
}

function perSecond(rate: number): string {
  return `${Math.round(rate).toLocaleString('en')}/s`;
}

function summary(state: KeptState): string {
  const { workers, pairsPerSecondNow, transfers, lostCents, longestWaitMs } = state;
  const waiting = workers.filter((worker) => worker.state === 'waits').length;
  return [
    workers[0]!.isAlive ? `worker 1: ${perSecond(pairsPerSecondNow)}` : 'worker 1 is dead',
    `${waiting} wait, longest wait ${seconds(longestWaitMs, 3)}`,
    `${transfers} transfers, ${lostCents.toLocaleString('en')} cents lost`,
  ].join(' | ');
}

/** The part of a scene that the verdict depends on. */
type Outcome = Pick<KeptState, 'pairsPerSecond' | 'takeoverMs' | 'afterwards' | 'lostCents'>;

/** Both scenes side by side. */
function report(bare: KeptState, kept: KeptState): string {
  const both = [bare, kept];
  return table(
    [
      ['', 'without keep', `keep: ${KEEP_MS}`],
      ['lock + unlock of worker 1', ...both.map((one) => perSecond(one.pairsPerSecond))],
      ['transfers', ...both.map(({ transfers }) => String(transfers))],
      ['longest wait of a transfer', ...both.map((one) => seconds(one.longestWaitMs, 3))],
      ['takeover after the kill', '-', takeover(kept.takeoverMs)],
      ['cents lost', ...both.map(({ lostCents }) => faults(lostCents))],
    ],
    30,
  );
}

const MORAL =
  'A lock that is kept is taken and released without Redis, and its process lets go of\n' +
  'it when another one wants it. That costs one thing: a process that dies while it\n' +
  'keeps a lock that nobody holds keeps the others out, for up to a third of its\n' +
  'lease, here 1 s. Without keep they would not have waited. Cents lost: the\n' +
  'difference between the balances and a ledger; two holders at a time lose some.';

/** The first observation that must not happen, or that is missing although the show is about it; undefined: none. */
export function findBug(bare: Outcome, kept: Outcome): string | undefined {
  for (const { lostCents } of [bare, kept])
    if (lostCents > 0) return `Under the lock ${lostCents} cents were lost`;
  if (kept.pairsPerSecond <= bare.pairsPerSecond) return 'With keep the lock was no faster';
  if (kept.takeoverMs === undefined) return 'After the kill nobody acquired the lock';
  if (kept.afterwards === 0) return 'After the kill nobody wrote';
  return undefined;
}
