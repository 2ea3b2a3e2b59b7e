// One scene of a show: the workers work on the accounts under one kind of lock for a while, events happen to them, and the view shows the
// effects.

import { setTimeout as sleep } from 'node:timers/promises';
import { lostCents, type Account } from './bank.js';
import { monotonicMs, type LockKind, type Report, type Task } from './messages.js';
import type { Worker } from './crew.js';
import type { Stage } from './stage.js';
import type { View } from './view.js';

export interface ScenePlan {
  readonly title: string;
  /** What the viewer sees, in a line or two. */
  readonly explanation: string;
  readonly lock: LockKind;
  readonly durationMs: number;
}

/** The current or final state of a scene. */
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

/** What is special about one kind of scene; the rest is the same for all of them. */
export interface Story<Plan extends ScenePlan, State extends SceneState<Plan>> {
  /** A worker's task during the scene; left out: it transfers money. */
  taskOf?(worker: Worker): Task;
  /** The events of the scene, one after the other. */
  happen(): Promise<void>;
  /** Notes what a worker reports. */
  heed(worker: Worker, report: Report): void;
  /** The state of the scene, beyond what every scene has. */
  look(state: SceneState<Plan>): State | Promise<State>;
}

/** Plays a scene to its end. */
export async function playScene<Plan extends ScenePlan, State extends SceneState<Plan>>(
  plan: Plan,
  stage: Stage,
  view: View<State>,
  storyOf: (scene: Scene<Plan>) => Story<Plan, State>,
): Promise<State> {
  const scene = new Scene(plan, stage, view, async () => {
    view.update(await look());
  });
  const story = storyOf(scene);
  const look = async (): Promise<State> => await story.look(await scene.state());
  const onReport = (worker: Worker, report: Report): void => {
    scene.heed(worker, report);
    story.heed(worker, report);
  };
  const { bank, crew } = stage;
  await bank.open();
  view.begin(plan);
  crew.on('report', onReport);
  try {
    crew.work(plan.lock, (worker) => story.taskOf?.(worker) ?? 'transfer');
    const happening = story.happen().then(() => scene.until(plan.durationMs));
    await Promise.race([crew.failure, happening]);
    await crew.stop();
  } finally {
    crew.off('report', onReport);
  }
  const state = await look();
  view.end(state);
  return state;
}

/** A scene for its story: the stage, and control over its course. */
export class Scene<Plan extends ScenePlan> {
  readonly plan: Plan;
  readonly stage: Stage;
  readonly startedAtMs = monotonicMs();
  readonly #view: Pick<View<never>, 'tell'>;
  readonly #show: () => Promise<void>;
  /** The worker that has stopped in the middle of a transfer, as it was ordered to. */
  #dawdler: Worker | undefined;

  constructor(
    plan: Plan,
    stage: Stage,
    view: Pick<View<never>, 'tell'>,
    show: () => Promise<void>,
  ) {
    this.plan = plan;
    this.stage = stage;
    this.#view = view;
    this.#show = show;
  }

  /** Shows an event. */
  tell(event: string): void {
    this.#view.tell(event);
  }

  heed(worker: Worker, { type }: Report): void {
    if (type === 'midway') this.#dawdler = worker;
  }

  /** The state that every scene has. */
  async state(): Promise<SceneState<Plan>> {
    const accounts = await this.stage.bank.accounts();
    return {
      plan: this.plan,
      elapsedMs: this.#elapsedMs,
      workers: this.stage.crew.workers,
      accounts,
      lostCents: lostCents(accounts),
    };
  }

  /** Lets the scene continue until this time, or to its end. */
  async until(elapsedMs: number): Promise<void> {
    await this.goOnWhile(() => this.#elapsedMs < elapsedMs);
  }

  /**
   * Stops a worker in the middle of its next task, for `forMs`; `hasLooked`: after its last check of the lock. undefined: the scene ended
   * before that.
   */
  async somebodyMidway(
    forMs: number,
    hasLooked = false,
    worker: Worker = this.stage.crew.living[2]!,
  ): Promise<Worker | undefined> {
    this.#dawdler = undefined;
    worker.order({ type: 'dawdle', forMs, hasLooked });
    await this.goOnWhile(() => this.#dawdler === undefined);
    return this.#dawdler;
  }

  /** Lets the scene continue while this is true, or to its end. */
  async goOnWhile(isTooEarly: () => boolean): Promise<void> {
    while (isTooEarly() && this.#elapsedMs < this.plan.durationMs) {
      await this.#show();
      await sleep(REFRESH_MS, undefined, { signal: this.stage.signal });
    }
  }

  get #elapsedMs(): number {
    return monotonicMs() - this.startedAtMs;
  }
}
