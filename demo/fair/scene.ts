// The workers queue for the lock for a while; one of them is killed while it is first in line, one while it holds the lock.

import type { FairLock } from '../../src/index.js';
import { monotonicMs } from '../support/clock.js';
import type { Worker } from '../support/crew.js';
import { seconds } from '../support/figures.js';
import type { Report } from '../support/messages.js';
import { FOREVER_MS, Scene, type ScenePlan, type SceneState } from '../support/scene.js';
import type { Stage } from '../support/stage.js';
import type { View } from '../support/view.js';
import { Line } from './line.js';

export interface FairPlan extends ScenePlan {
  readonly killFirstAfterMs: number;
  readonly killHolderAfterMs: number;
}

export interface FairState extends SceneState<FairPlan> {
  /** Those in line, the next one first; also one that was killed there, as long as its place stands. */
  readonly waiters: readonly Worker[];
  readonly handOvers: number;
  readonly outOfOrder: number;
  readonly longestWaitMs: number;
  /** After the kill of the first in line: from when the holder left until the next one was inside. */
  readonly firstKilledMs: number | undefined;
  /** After the kill of the holder: from then until the next one was inside. */
  readonly holderKilledMs: number | undefined;
}

/** How long the holder stays inside, so that people see who is killed behind it. */
const LINGER_MS = 1_200;

type Place = 'first' | 'holder';

export class FairScene extends Scene<FairPlan, FairState> {
  readonly #lock: FairLock;
  readonly #line = new Line();
  readonly #killedAtMs = new Map<Place, number>();
  readonly #takeoverMs = new Map<Place, number>();

  /** `lock` is only looked at. */
  constructor(plan: FairPlan, stage: Stage, view: View<FairState>, lock: FairLock) {
    super(plan, stage, view);
    this.#lock = lock;
  }

  protected async happen(): Promise<void> {
    await this.until(this.plan.killFirstAfterMs);
    const lingering = await this.somebodyMidway(LINGER_MS);
    const first = await this.#firstInLine(); // while nobody can move up
    if (first && lingering) {
      this.#kill('first', first, `is first in line, while ${lingering.name} holds the lock`);
    }

    await this.until(this.plan.killHolderAfterMs);
    const holder = await this.somebodyMidway(FOREVER_MS);
    if (holder) this.#kill('holder', holder, 'holds the lock, has read and not yet written');
  }

  protected heed(worker: Worker, report: Report): void {
    if (report.type === 'holds') {
      const { ownerId, waitedMs, atMs: enteredAtMs } = report;
      this.#line.enter({ worker, ownerId, waitedMs, enteredAtMs });
    }
    if (report.type === 'transferred') this.#line.leave(worker, report.atMs);
    this.#noticeTakeovers();
  }

  protected async look(): Promise<FairState> {
    const state = await this.sceneState();
    this.#line.see(await this.#lock.getWaiters());
    const { stays, waiters, outOfOrder } = this.#line;
    return {
      ...state,
      // It may have been told that one of them is in since the look that saw it in line.
      waiters: waiters
        .flatMap((owner) => this.stage.crew.withOwner(owner) ?? [])
        .filter((worker) => worker.state !== 'holds'),
      handOvers: Math.max(stays.length - 1, 0),
      outOfOrder,
      longestWaitMs: Math.max(0, ...stays.map(({ waitedMs }) => waitedMs)),
      firstKilledMs: this.#takeoverMs.get('first'),
      holderKilledMs: this.#takeoverMs.get('holder'),
    };
  }

  async #firstInLine(): Promise<Worker | undefined> {
    this.#line.see(await this.#lock.getWaiters());
    return this.stage.crew.withOwner(this.#line.waiters[0] ?? '');
  }

  #kill(place: Place, victim: Worker, situation: string): void {
    this.#killedAtMs.set(place, monotonicMs());
    void victim.kill();
    this.view.tell(`${victim.name} ${situation}: SIGKILL`);
  }

  #noticeTakeovers(): void {
    for (const [place, killedAtMs] of this.#killedAtMs) {
      const next = this.#line.stays.find(({ enteredAtMs }) => enteredAtMs > killedAtMs);
      if (!next || this.#takeoverMs.has(place)) continue;
      const before = this.#line.stays[this.#line.stays.indexOf(next) - 1];
      const fromMs = place === 'first' ? before?.leftAtMs : killedAtMs;
      if (fromMs === undefined) continue; // not told yet
      const takeoverMs = next.enteredAtMs - fromMs;
      this.#takeoverMs.set(place, takeoverMs);
      const name = next.worker.name;
      this.view.tell(
        place === 'first'
          ? `${name}, who was behind it, is in ${takeoverMs.toFixed(1)} ms after ${before!.worker.name} went out`
          : `${name}, who was first in line, is in ${seconds(takeoverMs, 2)} after the kill: the lease ran out`,
      );
    }
  }
}
