// The workers transfer money for a while, with a lock or without; one of them may be killed in the middle of a transfer.

import { monotonicMs } from '../support/clock.js';
import type { Worker } from '../support/crew.js';
import { seconds } from '../support/figures.js';
import type { Report } from '../support/messages.js';
import { FOREVER_MS, Scene, type ScenePlan, type SceneState } from '../support/scene.js';

export interface TransfersPlan extends ScenePlan {
  /** When to kill a worker in the middle of a transfer; left out: never. */
  readonly killAfterMs?: number;
}

export interface TransfersState extends SceneState<TransfersPlan> {
  readonly transfers: number;
  /** How often the lock went from one process to another. */
  readonly handOvers: number;
  readonly longestWaitMs: number;
  /** From the kill until somebody else held the lock. */
  readonly takeoverMs: number | undefined;
}

export class TransfersScene extends Scene<TransfersPlan, TransfersState> {
  /** Who made each transfer, by its number. */
  readonly #makers: Worker[] = [];
  #longestWaitMs = 0;
  #killedAtMs: number | undefined;
  #takeoverMs: number | undefined;

  protected async happen(): Promise<void> {
    if (this.plan.killAfterMs === undefined) return;
    await this.until(this.plan.killAfterMs);
    const holder = await this.somebodyMidway(FOREVER_MS);
    if (!holder) return; // the verdict tells
    this.#killedAtMs = monotonicMs();
    void holder.kill();
    this.view.tell(`${holder.name} holds the lock, has read and not yet written: SIGKILL`);
  }

  protected heed(worker: Worker, report: Report): void {
    if (report.type === 'transferred') this.#makers[report.number] = worker;
    if (report.type === 'holds') {
      this.#longestWaitMs = Math.max(this.#longestWaitMs, report.waitedMs);
      this.#noticeTakeover(worker);
    }
  }

  protected async look(): Promise<TransfersState> {
    const state = await this.sceneState();
    const makers = this.#makers.filter((maker) => maker as Worker | undefined);
    return {
      ...state,
      transfers: makers.length,
      handOvers: makers.filter((maker, i) => i > 0 && maker !== makers[i - 1]).length,
      longestWaitMs: this.#longestWaitMs,
      takeoverMs: this.#takeoverMs,
    };
  }

  #noticeTakeover(worker: Worker): void {
    if (this.#killedAtMs === undefined || this.#takeoverMs !== undefined) return;
    this.#takeoverMs = monotonicMs() - this.#killedAtMs;
    const after = seconds(this.#takeoverMs, 2);
    this.view.tell(`${worker.name} has the lock ${after} after the kill: the lease ran out`);
  }
}
