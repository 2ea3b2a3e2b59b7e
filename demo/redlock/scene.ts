// The workers transfer money under one Redlock, while masters are killed, one after the other, and started again.

import type { NodeAnswer } from '../../src/index.js';
import { monotonicMs } from '../support/clock.js';
import type { Worker } from '../support/crew.js';
import { seconds } from '../support/figures.js';
import type { Report } from '../support/messages.js';
import { Scene, type ScenePlan, type SceneState } from '../support/scene.js';
import type { Stage } from '../support/stage.js';
import type { View } from '../support/view.js';
import type { Master } from './master.js';
import { Refusals } from './refusals.js';
import { TransferLog } from './transfer-log.js';

export interface RedlockPlan extends ScenePlan {
  /** When to kill one more master: with the last of these, too few are left. */
  readonly killAfterMs: readonly number[];
  /** When to start all of them again. */
  readonly startAgainAfterMs: number;
  /** How long they do not vote then. */
  readonly guardMs: number;
}

export interface RedlockState extends SceneState<RedlockPlan> {
  readonly masters: readonly Master[];
  readonly transfers: number;
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

/** Somebody may have been let in just before the kill, and says so a little later. */
const GRACE_MS = 500;

export class RedlockScene extends Scene<RedlockPlan, RedlockState> {
  readonly #masters: readonly Master[];
  readonly #log = new TransferLog(this.startedAtMs);
  readonly #refusals = new Refusals();
  readonly #killedAtMs: number[] = [];
  #startedAgainAtMs = Infinity;
  #resumedAtMs: number | undefined;
  #heldWithoutMajority = 0;
  /** What an error is news for, if a master gave this answer. */
  #awaited: NodeAnswer['answer'] | undefined;

  constructor(
    plan: RedlockPlan,
    stage: Stage,
    view: View<RedlockState>,
    masters: readonly Master[],
  ) {
    super(plan, stage, view);
    this.#masters = masters;
  }

  protected async happen(): Promise<void> {
    for (const afterMs of this.plan.killAfterMs) {
      await this.until(afterMs);
      await this.#killOne();
    }
    await this.until(this.plan.startAgainAfterMs);
    await this.#startAgain();
  }

  protected heed(worker: Worker, report: Report): void {
    if (report.type === 'holds') this.#noticeHolder(worker, report.atMs);
    if (report.type === 'transferred') this.#log.add(report.atMs);
    if (report.type === 'no quorum') this.#noticeRefusal(worker, report.message, report.nodes);
  }

  protected async look(): Promise<RedlockState> {
    const state = await this.sceneState();
    const nowMs = monotonicMs();
    const fromMs = [this.startedAtMs, ...this.#killedAtMs];
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
    const isEnough = this.#killedAtMs.length < this.plan.killAfterMs.length;
    if (!isEnough) this.#awaited = 'unreachable';
    const outlook = isEnough ? 'are a majority: it goes on' : 'are none: nobody may go on';
    this.view.tell(`SIGKILL for ${victim.name}: the ${left} that are left ${outlook}`);
  }

  async #startAgain(): Promise<void> {
    this.#startedAgainAtMs = monotonicMs(); // none of them is older than that
    const dead = this.#masters.filter(({ state }) => state === 'killed');
    await Promise.all(dead.map((master) => master.startAgain()));
    this.#awaited = 'guarded';
    this.view.tell(`${dead.length} masters are started again, empty: may one of them vote?`);
  }

  #noticeHolder(worker: Worker, atMs: number): void {
    if (atMs < this.#lastKilledAtMs + GRACE_MS) return;
    if (atMs < this.#startedAgainAtMs) this.#heldWithoutMajority++;
    else if (this.#resumedAtMs === undefined) {
      this.#resumedAtMs = atMs;
      for (const master of this.#masters) master.answer = undefined;
      const afterMs = seconds(atMs - this.#startedAgainAtMs, 1);
      this.view.tell(`${worker.name} has the lock, ${afterMs} after the masters came back`);
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
    this.view.tell(`${worker.name}: QuorumError: ${message}`);
  }

  /** When the master was killed without which there is no majority. */
  get #lastKilledAtMs(): number {
    return this.#killedAtMs[this.plan.killAfterMs.length - 1] ?? Infinity;
  }
}
