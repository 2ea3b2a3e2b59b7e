// One half of the demo: the workers transfer money for a while, and it is watched what becomes of it.

import { setTimeout as sleep } from 'node:timers/promises';
import { lostCents, type Account, type Bank } from '../bank.js';
import type { Crew, Worker } from '../crew.js';
import type { LockKind, Report } from '../messages.js';
import type { View } from '../view.js';

export interface PhasePlan {
  readonly title: string;
  /** What is seen, in a line. */
  readonly explanation: string;
  readonly lock: LockKind;
  readonly durationMs: number;
  /** When to kill a worker in the middle of a transfer; left out: never. */
  readonly killAfterMs?: number;
}

/** A phase as it stands, or as it ended. */
export interface PhaseState {
  readonly plan: PhasePlan;
  readonly elapsedMs: number;
  readonly workers: readonly Worker[];
  readonly accounts: readonly Account[];
  readonly lostCents: number;
  readonly transfers: number;
  /** How often the lock went from one process to another. */
  readonly handOvers: number;
  readonly longestWaitMs: number;
  /** From the kill until somebody else held the lock. */
  readonly takeoverMs: number | undefined;
}

const REFRESH_MS = 100;
/** Longer than any demo. */
const FOREVER_MS = 600_000;

export class Phase {
  readonly #plan: PhasePlan;
  readonly #crew: Crew;
  readonly #bank: Bank;
  readonly #view: View<PhasePlan, PhaseState>;
  readonly #startedAtMs = performance.now();
  /** Who made each transfer, by its number. */
  readonly #makers: Worker[] = [];
  #longestWaitMs = 0;
  #killedAtMs: number | undefined;
  #takeoverMs: number | undefined;

  constructor(plan: PhasePlan, crew: Crew, bank: Bank, view: View<PhasePlan, PhaseState>) {
    this.#plan = plan;
    this.#crew = crew;
    this.#bank = bank;
    this.#view = view;
  }

  /** Runs it to its end. */
  async run(signal: AbortSignal): Promise<PhaseState> {
    await this.#bank.open();
    this.#view.begin(this.#plan);
    this.#crew.on('report', this.#heed);
    try {
      for (const worker of this.#crew.living) {
        worker.become('transfers');
        worker.order({ type: 'work', lock: this.#plan.lock });
      }
      await Promise.race([this.#crew.failure, this.#watch(signal)]);
      const stopped = this.#crew.all('stopped');
      for (const worker of this.#crew.living) worker.order({ type: 'stop' });
      await stopped;
    } finally {
      this.#crew.off('report', this.#heed);
    }
    const state = await this.#state();
    this.#view.end(state);
    return state;
  }

  async #watch(signal: AbortSignal): Promise<void> {
    let isKillDue = this.#plan.killAfterMs !== undefined;
    while (this.#elapsedMs < this.#plan.durationMs) {
      if (isKillDue && this.#elapsedMs >= this.#plan.killAfterMs!) {
        isKillDue = false;
        this.#crew.living[2]!.order({ type: 'dawdle', forMs: FOREVER_MS });
      }
      this.#view.update(await this.#state());
      await sleep(REFRESH_MS, undefined, { signal });
    }
  }

  readonly #heed = (worker: Worker, report: Report): void => {
    if (!worker.isAlive) return;
    switch (report.type) {
      case 'waits':
        worker.become('waits');
        break;
      case 'holds':
        worker.become('holds');
        this.#longestWaitMs = Math.max(this.#longestWaitMs, report.waitedMs);
        this.#noticeTakeover(worker);
        break;
      case 'transferred':
        this.#makers[report.number] = worker;
        if (this.#plan.lock !== 'none') worker.become('rests');
        break;
      case 'midway':
        this.#kill(worker);
        break;
      case 'stopped':
        worker.become('rests');
        break;
      case 'ready':
      case 'no quorum':
      case 'failed':
        break;
    }
  };

  #kill(worker: Worker): void {
    this.#killedAtMs = performance.now();
    void worker.kill();
    this.#view.tell(`${worker.name} holds the lock, has read and not yet written: SIGKILL`);
  }

  #noticeTakeover(worker: Worker): void {
    if (this.#killedAtMs === undefined || this.#takeoverMs !== undefined) return;
    this.#takeoverMs = performance.now() - this.#killedAtMs;
    const seconds = (this.#takeoverMs / 1_000).toFixed(2);
    this.#view.tell(`${worker.name} has the lock ${seconds} s after the kill: the lease ran out`);
  }

  async #state(): Promise<PhaseState> {
    const accounts = await this.#bank.accounts();
    const makers = this.#makers.filter((maker) => maker as Worker | undefined);
    return {
      plan: this.#plan,
      elapsedMs: this.#elapsedMs,
      workers: this.#crew.workers,
      accounts,
      lostCents: lostCents(accounts),
      transfers: makers.length,
      handOvers: makers.filter((maker, i) => i > 0 && maker !== makers[i - 1]).length,
      longestWaitMs: this.#longestWaitMs,
      takeoverMs: this.#takeoverMs,
    };
  }

  get #elapsedMs(): number {
    return performance.now() - this.#startedAtMs;
  }
}
