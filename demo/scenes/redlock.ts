// Worker processes transfer money in one Redis under a Redlock on five others, of which three are killed.
import { styleText } from 'node:util';
import type { NodeAnswer } from '../../src/index.js';
import type { RedisServer } from '../../test/support/redis-server.js';
import { startMasters } from '../../test/support/redis-topologies.js';
import type { Worker } from '../support/crew.js';
import { fault, faults, holderIn, seconds, table, takeover } from '../support/figures.js';
import {
  LOCK_WATCHDOG_TIMEOUT_MS,
  MASTER_URLS,
  monotonicMs,
  type Report,
} from '../support/messages.js';
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
const MASTERS = 5;

const PLAN: RedlockPlan = {
  title: "one Redlock on five masters: holdfast.getRedLock(...five.map((f) => f.getLock('bank')))",
  explanation:
    `${WORKERS} processes transfer money under it. After 4 s and 7 s the demo kills a master: the other\n` +
    'three are a majority. After 11 s it kills a third one; after 15 s it restarts all three, empty.',
  lock: 'redlock',
  durationMs: 24_000,
  killAfterMs: [4_000, 7_000, 11_000],
  startAgainAfterMs: 15_000,
  guardMs: LOCK_WATCHDOG_TIMEOUT_MS, // the default: the longest lease that a worker was granted
};

export const redlockShow: Show = {
  about: 'a lock on five masters, of which three are killed',
  async play(signal) {
    if (process.env['HOLDFAST_TEST_BACKEND'] === 'none') {
      console.log('This show needs five Redis servers of its own, and none can be started here.');
      return false;
    }
    await using servers = await startMasters(MASTERS);
    const masters = servers.map((server, index) => new Master(`master ${index + 1}`, server));
    console.log(
      `${MASTERS} masters are up; they vote ${seconds(PLAN.guardMs, 0)} after their start`,
    );
    const env = { [MASTER_URLS]: servers.map(({ url }) => url).join(' ') };
    return await onStage({ workers: WORKERS, signal, env }, async (stage) => {
      using view = createView({ frame, summary });
      const state = await playScene(PLAN, stage, view, (scene) => new RedlockStory(scene, masters));
      return conclude(report(state), findBug(state), moral(PLAN));
    });
  },
};

interface RedlockPlan extends ScenePlan {
  /** When to kill one more master: after the last of these, too few remain. */
  readonly killAfterMs: readonly number[];
  /** When to start all of them again. */
  readonly startAgainAfterMs: number;
  /** How long they do not vote after that. */
  readonly guardMs: number;
}

interface RedlockState extends SceneState<RedlockPlan> {
  readonly masters: readonly Master[];
  readonly transfers: number;
  /** Up to the kill after which too few masters remained. */
  readonly longestStallMs: number;
  /** Transfers by the number of dead masters, up to the restart. */
  readonly transfersByDead: readonly number[];
  readonly transfersAfterRestart: number;
  readonly refusals: Refusals;
  /** How often a worker acquired the lock although too few masters remained. */
  readonly heldWithoutMajority: number;
  /** From the restart of the masters until a worker held the lock. */
  readonly resumedMs: number | undefined;
}

/** A worker may have entered just before the kill, and report it a little later. */
const GRACE_MS = 500;

class RedlockStory implements Story<RedlockPlan, RedlockState> {
  readonly #scene: Scene<RedlockPlan>;
  readonly #masters: readonly Master[];
  readonly #log: TransferLog;
  readonly #refusals = new Refusals();
  readonly #killedAtMs: number[] = [];
  #startedAgainAtMs = Infinity;
  #resumedAtMs: number | undefined;
  #heldWithoutMajority = 0;
  /** The answer of a master that makes the next error worth showing. */
  #awaited: NodeAnswer['answer'] | undefined;

  constructor(scene: Scene<RedlockPlan>, masters: readonly Master[]) {
    this.#scene = scene;
    this.#masters = masters;
    this.#log = new TransferLog(scene.startedAtMs);
  }

  async happen(): Promise<void> {
    for (const afterMs of this.#scene.plan.killAfterMs) {
      await this.#scene.until(afterMs);
      await this.#killOne();
    }
    await this.#scene.until(this.#scene.plan.startAgainAfterMs);
    await this.#startAgain();
  }

  heed(worker: Worker, report: Report): void {
    if (report.type === 'holds') this.#noticeHolder(worker, report.atMs);
    if (report.type === 'transferred') this.#log.add(report.atMs);
    if (report.type === 'no quorum') this.#noticeRefusal(worker, report.message, report.nodes);
  }

  look(state: SceneState<RedlockPlan>): RedlockState {
    const nowMs = monotonicMs();
    const fromMs = [this.#scene.startedAtMs, ...this.#killedAtMs];
    const untilMs = [...this.#killedAtMs, Math.min(this.#startedAgainAtMs, nowMs)];
    return {
      ...state,
      masters: this.#masters,
      transfers: this.#log.count,
      longestStallMs: this.#log.longestStallMs(Math.min(this.#lastKilledAtMs, nowMs)),
      transfersByDead: fromMs.map((from, dead) => this.#log.between(from, untilMs[dead]!)),
      transfersAfterRestart: this.#log.between(this.#startedAgainAtMs, Infinity),
      refusals: this.#refusals,
      heldWithoutMajority: this.#heldWithoutMajority,
      resumedMs: this.#resumedAtMs && this.#resumedAtMs - this.#startedAgainAtMs,
    };
  }

  async #killOne(): Promise<void> {
    const victim = this.#masters[this.#killedAtMs.length]!;
    await victim.kill();
    this.#killedAtMs.push(monotonicMs());
    const left = this.#masters.length - this.#killedAtMs.length;
    const isEnough = this.#killedAtMs.length < this.#scene.plan.killAfterMs.length;
    if (!isEnough) this.#awaited = 'unreachable';
    const outlook = isEnough
      ? 'are a majority: work continues'
      : 'are no majority: nobody gets the lock';
    this.#scene.tell(`SIGKILL for ${victim.name}: the remaining ${left} ${outlook}`);
  }

  async #startAgain(): Promise<void> {
    this.#startedAgainAtMs = monotonicMs(); // none of them is older than that
    const dead = this.#masters.filter(({ state }) => state === 'killed');
    await Promise.all(dead.map((master) => master.startAgain()));
    this.#awaited = 'guarded';
    this.#scene.tell(`${dead.length} masters are restarted, empty: they may not vote yet`);
  }

  #noticeHolder(worker: Worker, atMs: number): void {
    if (atMs < this.#lastKilledAtMs + GRACE_MS) return;
    if (atMs < this.#startedAgainAtMs) this.#heldWithoutMajority++;
    else if (this.#resumedAtMs === undefined) {
      this.#resumedAtMs = atMs;
      for (const master of this.#masters) master.answer = undefined;
      const afterMs = seconds(atMs - this.#startedAgainAtMs, 1);
      this.#scene.tell(`${worker.name} has the lock, ${afterMs} after the masters came back`);
    }
  }

  #noticeRefusal(worker: Worker, message: string, nodes: readonly NodeAnswer[]): void {
    this.#refusals.add(nodes);
    for (const node of this.#resumedAtMs === undefined ? nodes : []) {
      const master = this.#masters.find(({ address }) => address === node.node);
      if (master) master.answer = node;
    }
    if (!nodes.some(({ answer }) => answer === this.#awaited)) return;
    this.#awaited = undefined;
    this.#scene.tell(`${worker.name}: QuorumError: ${message}`);
  }

  /** When the master was killed after which there was no majority. */
  get #lastKilledAtMs(): number {
    return this.#killedAtMs[this.#scene.plan.killAfterMs.length - 1] ?? Infinity;
  }
}

// The masters of the show, which are killed and restarted, and the latest answer of each.

type MasterState = 'up' | 'killed' | 'back';

class Master {
  readonly name: string;
  /** As errors name it. */
  readonly address: string;
  state: MasterState = 'up';
  /** Since when it has been in this state, on the monotonic clock. */
  sinceMs: number = monotonicMs();
  /** The master's answer in the last QuorumError; undefined: none since its state changed. */
  answer: NodeAnswer | undefined;
  readonly #server: RedisServer;

  constructor(name: string, server: RedisServer) {
    this.name = name;
    this.address = `${server.host}:${server.port}`;
    this.#server = server;
  }

  /** SIGKILL: the master loses all that it knew of locks. */
  async kill(): Promise<void> {
    await this.#server.kill();
    this.#become('killed');
  }

  /** On the same port, without data. */
  async startAgain(): Promise<void> {
    await this.#server.start();
    this.#become('back');
  }

  #become(state: MasterState): void {
    this.state = state;
    this.sinceMs = monotonicMs();
    this.answer = undefined;
  }
}

// The answers in the QuorumErrors of a run, master by master.

class Refusals {
  /** How many errors there were. */
  count = 0;
  /** How often each reason was given. */
  readonly #unreachable = new Map<string, number>();
  readonly #votesInMs: number[] = [];

  add(nodes: readonly NodeAnswer[]): void {
    this.count++;
    for (const node of nodes) {
      if (node.answer === 'guarded') this.#votesInMs.push(node.votesInMs);
      if (node.answer !== 'unreachable') continue;
      const reason = node.reason.replace(/ \S+:\d+$/, ''); // the address differs
      this.#unreachable.set(reason, (this.#unreachable.get(reason) ?? 0) + 1);
    }
  }

  /** Whether the restart guard was ever the reason. */
  get wereGuarded(): boolean {
    return this.#votesInMs.length > 0;
  }

  /** A line for each reason, the most frequent one first. */
  get lines(): string[] {
    const counts = [...this.#unreachable];
    if (this.wereGuarded) {
      const [last, first] = [Math.min(...this.#votesInMs), Math.max(...this.#votesInMs)];
      const countdown = `${(first / 1_000).toFixed(1)} s ... ${(last / 1_000).toFixed(1)} s`;
      counts.push([`started too recently, votes in ${countdown}`, this.#votesInMs.length]);
    }
    counts.sort(([, one], [, other]) => other - one);
    return counts.map(([reason, count]) => `${String(count).padStart(6)} x  ${reason}`);
  }
}

// The times of the transfers, and the gaps between them, in milliseconds on the machine's monotonic clock.

class TransferLog {
  readonly #startedAtMs: number;
  readonly #timesMs: number[] = [];

  constructor(startedAtMs: number) {
    this.#startedAtMs = startedAtMs;
  }

  get count(): number {
    return this.#timesMs.length;
  }

  /** Different processes report this: the messages may arrive in another order than that of the events. */
  add(atMs: number): void {
    const index = this.#timesMs.findLastIndex((known) => known <= atMs);
    this.#timesMs.splice(index + 1, 0, atMs);
  }

  between(fromMs: number, toMs: number): number {
    return this.#timesMs.filter((atMs) => atMs >= fromMs && atMs < toMs).length;
  }

  /** The longest gap up to this time. */
  longestStallMs(untilMs: number): number {
    const timesMs = [this.#startedAtMs, ...this.#timesMs.filter((atMs) => atMs < untilMs), untilMs];
    return Math.max(...timesMs.slice(1).map((atMs, i) => atMs - timesMs[i]!));
  }
}

function frame(state: RedlockState): string[] {
  const { masters, workers, transfers, lostCents, refusals } = state;
  return [
    ...masters.map(masterRow),
    '',
    `  ${workers.map(workerCell).join('   ')}`,
    '',
    `  transfers ${transfers}  refusals ${refusals.count}  ${fault('cents lost', lostCents)}`,
    '',
  ];
}

function masterRow({ name, address, state, sinceMs, answer }: Master): string {
  const forTime = seconds(monotonicMs() - sinceMs, 1);
  const place = `${name}   ${address}   `;
  switch (state) {
    case 'up':
      return `  ${styleText('green', '●')} ${place}up`;
    case 'killed':
      return `  ${styleText('red', `✗ ${place}killed ${forTime} ago`)}`;
    case 'back':
      return answer?.answer === 'guarded'
        ? `  ${styleText('yellow', `○ ${place}back, empty: votes in ${seconds(answer.votesInMs, 1)}`)}`
        : `  ${styleText('green', '●')} ${place}up again for ${forTime}`;
  }
}

function workerCell({ name, state }: Worker): string {
  switch (state) {
    case 'holds':
      return styleText('green', `● ${name}`);
    case 'waits':
      return `○ ${name}`;
    case 'starts':
    case 'transfers':
    case 'rests':
    case 'paused':
    case 'killed':
      return styleText('dim', `· ${name}`);
  }
}

function summary(state: RedlockState): string {
  const { masters, workers, transfers, lostCents, refusals } = state;
  const holder = holderIn(workers);
  const up = masters.filter((master) => master.state !== 'killed').length;
  return [
    `${up} of ${masters.length} masters up`,
    `${holder} holds`,
    `${transfers} transfers, ${refusals.count} refusals, ${lostCents} cents lost`,
  ].join(' | ');
}

function report(state: RedlockState): string {
  const { transfersByDead, transfersAfterRestart, longestStallMs, resumedMs, refusals } = state;
  const rows = [
    ['', 'Redlock'],
    ['transfers', String(state.transfers)],
    ...transfersByDead.map((count, dead) => [
      `  ${state.masters.length - dead} of ${state.masters.length} masters up`,
      String(count),
    ]),
    ['  after the restart', String(transfersAfterRestart)],
    ['cents lost', faults(state.lostCents)],
    ['longest stall with 3 or more up', seconds(longestStallMs, 2)],
    ['restart to the next holder', takeover(resumedMs)],
    ['QuorumErrors', String(refusals.count)],
  ];
  const reasons = ['The answers of the masters in them:', ...refusals.lines, ''];
  return [table(rows, 34), ...(refusals.count > 0 ? reasons : [])].join('\n');
}

function moral({ guardMs }: RedlockPlan): string {
  return (
    'Cents lost: the difference between the balances and a ledger that is written in\n' +
    'the same transactions. With three of five masters work continues. With two nobody\n' +
    'can know whether the lock is free, and the error says so. A restarted master may\n' +
    'have forgotten the holder of the lock: it does not vote until every lease that it\n' +
    `may have granted has ended, here ${seconds(guardMs, 0)}.`
  );
}

/** The first observation that must not happen; undefined: none. */
function findBug(state: RedlockState): string | undefined {
  const { plan, lostCents, transfersByDead, refusals, heldWithoutMajority, resumedMs } = state;
  if (lostCents > 0) return `${lostCents} cents were lost`;
  if (heldWithoutMajority > 0)
    return `${heldWithoutMajority} times a process acquired the lock from two masters`;
  if (transfersByDead[2] === 0) return 'With three of five masters work stopped';
  if (refusals.count === 0) return 'No error said that too few masters remained';
  if (!refusals.wereGuarded) return 'Restarted masters were not prevented from voting';
  if (resumedMs === undefined) return 'After the restart nobody acquired the lock';
  if (resumedMs < plan.guardMs) return 'A master voted too soon after its start';
  return undefined;
}
