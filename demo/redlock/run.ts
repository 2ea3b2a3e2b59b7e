// The workers transfer money under one Redlock, while masters are killed, one after the other, and started again.

import { setTimeout as sleep } from 'node:timers/promises';
import type { NodeAnswer } from '../../src/index.js';
import { lostCents, type Bank } from '../bank.js';
import { monotonicMs } from '../clock.js';
import type { Crew, Worker } from '../crew.js';
import { seconds } from '../figures.js';
import type { Report } from '../messages.js';
import type { View } from '../view.js';
import type { Master } from './master.js';
import { Refusals } from './refusals.js';
import { TransferLog } from './transfer-log.js';

export interface RunPlan {
  readonly title: string;
  readonly explanation: string;
  readonly durationMs: number;
  /** When to kill one more master: with the last of these, too few are left. */
  readonly killAfterMs: readonly number[];
  /** When to start all of them again. */
  readonly startAgainAfterMs: number;
  /** How long they do not vote then. */
  readonly guardMs: number;
}

/** The run as it stands, or as it ended. */
export interface RunState {
  readonly plan: RunPlan;
  readonly elapsedMs: number;
  readonly masters: readonly Master[];
  readonly workers: readonly Worker[];
  readonly transfers: number;
  readonly lostCents: number;
  /** Up to the kill that left too few masters. */
  readonly longestStallMs: number;
  /** Transfers with so many masters dead, up to when they were started again. */
  readonly transfersByDead: readonly number[];
  readonly transfersAfterRestart: number;
  readonly refusals: Refusals;
  /** How often somebody got the lock though too few masters were left. */
  readonly heldWithoutMajority: number;
  /** From when the masters were started again until somebody held the lock. */
  readonly resumedMs: number | undefined;
}

const REFRESH_MS = 100;
/** Somebody may have been let in just before the kill, and says so a little later. */
const GRACE_MS = 500;

export class Run {
  readonly #plan: RunPlan;
  readonly #crew: Crew;
  readonly #bank: Bank;
  readonly #masters: readonly Master[];
  readonly #view: View<RunPlan, RunState>;
  readonly #startedAtMs = monotonicMs();
  readonly #log = new TransferLog(this.#startedAtMs);
  readonly #refusals = new Refusals();
  readonly #killedAtMs: number[] = [];
  #startedAgainAtMs = Infinity;
  #resumedAtMs: number | undefined;
  #heldWithoutMajority = 0;
  /** What an error is news for, if a master gave this answer. */
  #awaited: NodeAnswer['answer'] | undefined;

  constructor(
    plan: RunPlan,
    crew: Crew,
    bank: Bank,
    masters: readonly Master[],
    view: View<RunPlan, RunState>,
  ) {
    this.#plan = plan;
    this.#crew = crew;
    this.#bank = bank;
    this.#masters = masters;
    this.#view = view;
  }

  /** Runs it to its end. */
  async toEnd(signal: AbortSignal): Promise<RunState> {
    await this.#bank.open();
    this.#view.begin(this.#plan);
    this.#crew.on('report', this.#heed);
    try {
      for (const worker of this.#crew.living) worker.order({ type: 'work', lock: 'redlock' });
      await Promise.race([this.#crew.failure, this.#watch(signal)]);
      const stopped = this.#crew.all('stopped');
      for (const worker of this.#crew.living) worker.order({ type: 'stop' });
      await stopped;
    } finally {
      this.#crew.off('report', this.#heed);
    }
    const state = await this.#look();
    this.#view.end(state);
    return state;
  }

  async #watch(signal: AbortSignal): Promise<void> {
    const { durationMs, killAfterMs, startAgainAfterMs } = this.#plan;
    while (this.#elapsedMs < durationMs) {
      const killed = this.#killedAtMs.length;
      if (this.#elapsedMs >= (killAfterMs[killed] ?? Infinity)) await this.#killOne();
      if (this.#elapsedMs >= startAgainAfterMs && this.#startedAgainAtMs === Infinity) {
        await this.#startAgain();
      }
      this.#view.update(await this.#look());
      await sleep(REFRESH_MS, undefined, { signal });
    }
  }

  async #killOne(): Promise<void> {
    const victim = this.#masters[this.#killedAtMs.length]!;
    await victim.kill();
    this.#killedAtMs.push(monotonicMs());
    const left = this.#masters.length - this.#killedAtMs.length;
    const isEnough = this.#killedAtMs.length < this.#plan.killAfterMs.length;
    if (!isEnough) this.#awaited = 'unreachable';
    const outlook = isEnough ? 'are a majority: it goes on' : 'are none: nobody may go on';
    this.#view.tell(`SIGKILL for ${victim.name}: the ${left} that are left ${outlook}`);
  }

  async #startAgain(): Promise<void> {
    this.#startedAgainAtMs = monotonicMs(); // none of them is older than that
    const dead = this.#masters.filter(({ state }) => state === 'killed');
    await Promise.all(dead.map((master) => master.startAgain()));
    this.#awaited = 'guarded';
    this.#view.tell(`${dead.length} masters are started again, empty: may one of them vote?`);
  }

  readonly #heed = (worker: Worker, report: Report): void => {
    switch (report.type) {
      case 'waits':
        worker.become('waits');
        break;
      case 'holds':
        worker.become('holds');
        this.#noticeHolder(worker, report.atMs);
        break;
      case 'transferred':
        worker.become('rests');
        this.#log.add(report.atMs);
        break;
      case 'no quorum':
        this.#noticeRefusal(worker, report.message, report.nodes);
        break;
      case 'stopped':
        worker.become('rests');
        break;
      case 'ready':
      case 'midway':
      case 'failed':
        break;
    }
  };

  #noticeHolder(worker: Worker, atMs: number): void {
    if (atMs < this.#lastKilledAtMs + GRACE_MS) return;
    if (atMs < this.#startedAgainAtMs) this.#heldWithoutMajority++;
    else if (this.#resumedAtMs === undefined) {
      this.#resumedAtMs = atMs;
      for (const master of this.#masters) master.answer = undefined;
      const afterMs = seconds(atMs - this.#startedAgainAtMs, 1);
      this.#view.tell(`${worker.name} has the lock, ${afterMs} after the masters came back`);
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
    this.#view.tell(`${worker.name}: QuorumError: ${message}`);
  }

  async #look(): Promise<RunState> {
    const fromMs = [this.#startedAtMs, ...this.#killedAtMs];
    const untilMs = [...this.#killedAtMs, Math.min(this.#startedAgainAtMs, monotonicMs())];
    return {
      plan: this.#plan,
      elapsedMs: this.#elapsedMs,
      masters: this.#masters,
      workers: this.#crew.workers,
      transfers: this.#log.count,
      lostCents: lostCents(await this.#bank.accounts()),
      longestStallMs: this.#log.longestStallMs(Math.min(this.#lastKilledAtMs, monotonicMs())),
      transfersByDead: fromMs.map((from, dead) => this.#log.between(from, untilMs[dead]!)),
      transfersAfterRestart: this.#log.between(this.#startedAgainAtMs, Infinity),
      refusals: this.#refusals,
      heldWithoutMajority: this.#heldWithoutMajority,
      resumedMs: this.#resumedAtMs && this.#resumedAtMs - this.#startedAgainAtMs,
    };
  }

  /** When the master was killed without which there is no majority. */
  get #lastKilledAtMs(): number {
    return this.#killedAtMs[this.#plan.killAfterMs.length - 1] ?? Infinity;
  }

  get #elapsedMs(): number {
    return monotonicMs() - this.#startedAtMs;
  }
}
