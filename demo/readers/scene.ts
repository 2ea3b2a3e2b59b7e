// Some workers add up what is in the accounts, without a pause; others transfer money in two steps. One of each is killed at work.

import { TOTAL_CENTS } from '../support/bank.js';
import { monotonicMs } from '../support/clock.js';
import type { Worker } from '../support/crew.js';
import { seconds } from '../support/figures.js';
import type { Report, Task } from '../support/messages.js';
import { FOREVER_MS, Scene, type ScenePlan, type SceneState } from '../support/scene.js';
import { Stays } from './stays.js';

export interface ReadersPlan extends ScenePlan {
  /** When to kill one who reads, and one who writes; left out: never. */
  readonly kills?: Readonly<Record<Role, number>>;
}

export type Role = 'reader' | 'writer';

export interface ReadersState extends SceneState<ReadersPlan> {
  /** Those of the workers that write; the others read. */
  readonly writers: readonly Worker[];
  readonly reads: number;
  readonly transfers: number;
  /** Sums that were wrong, as somebody wrote meanwhile. */
  readonly wrongSums: number;
  /** What all accounts have together. */
  readonly totalCents: number;
  readonly mostReaders: number;
  readonly intrusions: number;
  /** Of one that writes, for the living. */
  readonly longestWriterWaitMs: number;
  /** From the kill until somebody was inside whom the dead one kept out. */
  readonly takeoverMs: Readonly<Partial<Record<Role, number>>>;
}

/** Workers 1 and 2 write. */
const WRITERS = 2;

export class ReadersScene extends Scene<ReadersPlan, ReadersState> {
  readonly #stays = new Stays();
  readonly #killedAtMs = new Map<Role, number>();
  readonly #takeoverMs: Partial<Record<Role, number>> = {};
  #reads = 0;
  #transfers = 0;
  #wrongSums = 0;
  #longestWriterWaitMs = 0;

  protected override readonly taskOf = (worker: Worker): Task =>
    this.#writes(worker) ? 'write' : 'read';

  protected async happen(): Promise<void> {
    const { kills } = this.plan;
    if (!kills) return;
    await this.#killOne('reader', kills.reader);
    await this.#killOne('writer', kills.writer);
  }

  protected heed(worker: Worker, report: Report): void {
    if (report.type === 'holds') {
      this.#stays.enter(worker, report.atMs);
      this.#noticeTakeovers(worker, report.atMs);
      this.#noticeWait(worker, report.atMs, report.waitedMs);
    }
    if (report.type === 'read') {
      this.#stays.leave(worker, report.atMs, false);
      this.#reads++;
      if (report.sumCents !== TOTAL_CENTS) this.#wrongSums++;
    }
    if (report.type === 'transferred') {
      this.#stays.leave(worker, report.atMs, true);
      this.#transfers++;
    }
  }

  protected async look(): Promise<ReadersState> {
    const state = await this.sceneState();
    return {
      ...state,
      writers: this.#writers,
      reads: this.#reads,
      transfers: this.#transfers,
      wrongSums: this.#wrongSums,
      totalCents: state.accounts.reduce((sum, { balanceCents }) => sum + balanceCents, 0),
      mostReaders: this.#stays.mostReaders,
      intrusions: this.#stays.intrusions,
      longestWriterWaitMs: this.#longestWriterWaitMs,
      takeoverMs: this.#takeoverMs,
    };
  }

  get #writers(): readonly Worker[] {
    return this.stage.crew.workers.slice(0, WRITERS);
  }

  #writes(worker: Worker): boolean {
    return this.#writers.includes(worker);
  }

  async #killOne(role: Role, atMs: number): Promise<void> {
    await this.until(atMs);
    const living = this.stage.crew.living.filter(
      (worker) => this.#writes(worker) === (role === 'writer'),
    );
    const victim = await this.somebodyMidway(FOREVER_MS, false, living[0]);
    if (!victim) return; // the verdict tells
    const killedAtMs = monotonicMs();
    this.#killedAtMs.set(role, killedAtMs);
    void victim.kill();
    this.#stays.leave(victim, killedAtMs, role === 'writer');
    const doing = role === 'writer' ? 'holds the write lock, has written nothing yet' : 'reads';
    this.view.tell(`${victim.name} ${doing}: SIGKILL`);
  }

  /** A dead reader keeps out who writes, a dead writer everybody. */
  #noticeTakeovers(worker: Worker, atMs: number): void {
    for (const [role, killedAtMs] of this.#killedAtMs) {
      const isKeptOut = role === 'writer' || this.#writes(worker);
      if (this.#takeoverMs[role] !== undefined || atMs < killedAtMs || !isKeptOut) continue;
      this.#takeoverMs[role] = atMs - killedAtMs;
      const after = seconds(atMs - killedAtMs, 2);
      const does = this.#writes(worker) ? 'writes' : 'reads';
      this.view.tell(`${worker.name} ${does} ${after} after that: the lease ran out`);
    }
  }

  /** How long those who write wait for the living: not while somebody dead is inside. */
  #noticeWait(worker: Worker, atMs: number, waitedMs: number): void {
    const waitedForTheDead = [...this.#killedAtMs].some(([role, killedAtMs]) => {
      const takenOverAtMs = killedAtMs + (this.#takeoverMs[role] ?? Infinity);
      return atMs > killedAtMs && atMs - waitedMs < takenOverAtMs;
    });
    if (waitedForTheDead || !this.#writes(worker)) return;
    this.#longestWriterWaitMs = Math.max(this.#longestWriterWaitMs, waitedMs);
  }
}
