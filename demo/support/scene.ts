// One scene of a show: the workers work on the accounts under one kind of lock for a while, things happen to them, and it is
// shown what becomes of it.

import { setTimeout as sleep } from 'node:timers/promises';
import { lostCents, type Account } from './bank.js';
import { monotonicMs, type LockKind, type Report, type Task } from './messages.js';
import type { Worker } from './crew.js';
import type { Stage } from './stage.js';
import type { View } from './view.js';

export interface ScenePlan {
  readonly title: string;
  /** What is seen, in a line or two. */
  readonly explanation: string;
  readonly lock: LockKind;
  readonly durationMs: number;
}

/** A scene as it stands, or as it ended. */
export interface SceneState<Plan extends ScenePlan = ScenePlan> {
  readonly plan: Plan;
  readonly elapsedMs: number;
  readonly workers: readonly Worker[];
  readonly accounts: readonly Account[];
  readonly lostCents: number;
}

/** Longer than any scene. */
export const FOREVER_MS = 600_000;

const REFRESH_MS = 100;

export abstract class Scene<Plan extends ScenePlan, State extends SceneState<Plan>> {
  protected readonly plan: Plan;
  protected readonly stage: Stage;
  protected readonly view: View<State>;
  protected readonly startedAtMs = monotonicMs();
  /** Who has stopped in the middle of a transfer, as it was told to. */
  #dawdler: Worker | undefined;

  constructor(plan: Plan, stage: Stage, view: View<State>) {
    this.plan = plan;
    this.stage = stage;
    this.view = view;
  }

  /** Plays it to its end. */
  async play(): Promise<State> {
    const { bank, crew } = this.stage;
    await bank.open();
    this.view.begin(this.plan);
    crew.on('report', this.#onReport);
    try {
      crew.work(this.plan.lock, this.taskOf);
      const story = this.happen().then(() => this.until(this.plan.durationMs));
      await Promise.race([crew.failure, story]);
      await crew.stop();
    } finally {
      crew.off('report', this.#onReport);
    }
    const state = await this.look();
    this.view.end(state);
    return state;
  }

  /** What a worker does all the time. */
  protected readonly taskOf: (worker: Worker) => Task = () => 'transfer';

  /** What is done while they work, one thing after the other. */
  protected abstract happen(): Promise<void>;

  /** Notes what a worker reports. */
  protected abstract heed(worker: Worker, report: Report): void;

  /** How it stands. */
  protected abstract look(): Promise<State>;

  /** What is seen in every scene. */
  protected async sceneState(): Promise<SceneState<Plan>> {
    const accounts = await this.stage.bank.accounts();
    return {
      plan: this.plan,
      elapsedMs: this.#elapsedMs,
      workers: this.stage.crew.workers,
      accounts,
      lostCents: lostCents(accounts),
    };
  }

  /** Lets the scene go on up to this time of it, or to its end. */
  protected async until(elapsedMs: number): Promise<void> {
    await this.goOnWhile(() => this.#elapsedMs < elapsedMs);
  }

  /**
   * Stops a worker in the middle of its next task, for so long; `hasLooked`: after its last look at the lock. undefined: the
   * scene ended before that.
   */
  protected async somebodyMidway(
    forMs: number,
    hasLooked = false,
    worker: Worker = this.stage.crew.living[2]!,
  ): Promise<Worker | undefined> {
    this.#dawdler = undefined;
    worker.order({ type: 'dawdle', forMs, hasLooked });
    await this.goOnWhile(() => this.#dawdler === undefined);
    return this.#dawdler;
  }

  /** Lets the scene go on while this is so, or to its end. */
  protected async goOnWhile(isTooEarly: () => boolean): Promise<void> {
    while (isTooEarly() && this.#elapsedMs < this.plan.durationMs) {
      this.view.update(await this.look());
      await sleep(REFRESH_MS, undefined, { signal: this.stage.signal });
    }
  }

  readonly #onReport = (worker: Worker, report: Report): void => {
    if (report.type === 'midway') this.#dawdler = worker;
    this.heed(worker, report);
  };

  get #elapsedMs(): number {
    return monotonicMs() - this.startedAtMs;
  }
}
