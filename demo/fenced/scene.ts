// The workers transfer money under a lock; the holder is paused until others have long had the lock, and then writes.

import { monotonicMs } from '../support/clock.js';
import type { Worker } from '../support/crew.js';
import { seconds } from '../support/figures.js';
import type { Report } from '../support/messages.js';
import { Scene, type ScenePlan, type SceneState } from '../support/scene.js';

export interface FencedPlan extends ScenePlan {
  /** When to pause the holder. */
  readonly pauseAfterMs: number;
  /** When it wakes up; later if nobody else has written by then. */
  readonly wakeAfterMs: number;
}

export interface FencedState extends SceneState<FencedPlan> {
  readonly transfers: number;
  /** What the holders have; empty without tokens. */
  readonly tokens: ReadonlyMap<Worker, string>;
  /** The largest that the bank has seen. */
  readonly largestToken: string | undefined;
  /** From the pause until somebody else held the lock. */
  readonly takeoverMs: number | undefined;
  /** Transfers while the holder was paused. */
  readonly meanwhile: number;
  /** What became of what the paused process wrote when it woke up; undefined: it has not written. */
  readonly lateWrite: 'accepted' | 'refused' | undefined;
}

/** How long the holder stays between its last look at the lock and its write: long enough to be paused there. */
const LINGER_MS = 2_000;

export class FencedScene extends Scene<FencedPlan, FencedState> {
  readonly #tokens = new Map<Worker, string>();
  #transfers = 0;
  #paused: Worker | undefined;
  #pausedAtMs = Infinity;
  #takeoverMs: number | undefined;
  #meanwhile = 0;
  #isAwake = false;
  #lateWrite: FencedState['lateWrite'];

  protected async happen(): Promise<void> {
    await this.until(this.plan.pauseAfterMs);
    const holder = await this.somebodyMidway(LINGER_MS, true);
    if (!holder) return; // the verdict tells
    holder.pause();
    this.#pausedAtMs = monotonicMs();
    this.#paused = holder;
    this.view.tell(`${holder.name} holds the lock, and is paused just before it writes: SIGSTOP`);

    await this.until(this.plan.wakeAfterMs);
    await this.goOnWhile(() => this.#meanwhile === 0);
    this.#isAwake = true;
    holder.resume();
    this.view.tell(
      `${holder.name} wakes up ${this.#meanwhile} transfers later, and writes: SIGCONT`,
    );
  }

  protected heed(worker: Worker, report: Report): void {
    if (report.type === 'holds') this.#noticeHolder(worker, report.atMs, report.token);
    if (report.type === 'transferred') this.#noticeTransfer(worker, report.atMs);
    if (report.type === 'refused' && this.#isLate(worker)) {
      this.#lateWrite = 'refused';
      this.view.tell(`The bank has seen a larger token than its ${report.token}: refused`);
    }
  }

  protected async look(): Promise<FencedState> {
    return {
      ...(await this.sceneState()),
      transfers: this.#transfers,
      tokens: this.#tokens,
      largestToken: await this.stage.bank.largestToken(),
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
    this.view.tell(`${worker.name} has the lock ${after} after that: the lease ran out`);
  }

  #noticeTransfer(worker: Worker, atMs: number): void {
    this.#transfers++;
    if (this.#isLate(worker)) {
      this.#lateWrite = 'accepted';
      this.view.tell('What it writes is what it had read before the pause: the late write wins');
    } else if (atMs > this.#pausedAtMs && !this.#isAwake) this.#meanwhile++;
  }

  /** Whether what this worker tells is of the write before which it was paused: the first that it tells when it is awake. */
  #isLate(worker: Worker): boolean {
    return worker === this.#paused && this.#isAwake && this.#lateWrite === undefined;
  }
}
