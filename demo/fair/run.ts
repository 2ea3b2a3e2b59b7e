// The workers queue for the lock for a while; one of them is killed while it is first in line, one while it holds the lock.

import { setTimeout as sleep } from 'node:timers/promises';
import type { FairLock } from '../../src/index.js';
import { lostCents, type Bank } from '../bank.js';
import { monotonicMs } from '../clock.js';
import type { Crew, Worker } from '../crew.js';
import { seconds } from '../figures.js';
import type { Report } from '../messages.js';
import type { View } from '../view.js';
import { Line } from './line.js';

export interface RunPlan {
  readonly title: string;
  readonly explanation: string;
  readonly durationMs: number;
  readonly killFirstAfterMs: number;
  readonly killHolderAfterMs: number;
}

/** The run as it stands, or as it ended. */
export interface RunState {
  readonly plan: RunPlan;
  readonly elapsedMs: number;
  readonly workers: readonly Worker[];
  /** Those in line, the next one first; also one that was killed there, as long as its place stands. */
  readonly waiters: readonly Worker[];
  readonly handOvers: number;
  readonly outOfOrder: number;
  readonly longestWaitMs: number;
  readonly lostCents: number;
  /** After the kill of the first in line: from when the holder left until the next one was inside. */
  readonly firstKilledMs: number | undefined;
  /** After the kill of the holder: from then until the next one was inside. */
  readonly holderKilledMs: number | undefined;
}

const REFRESH_MS = 100;
/** How long the holder stays inside, so that people see who is killed behind it. */
const LINGER_MS = 1_200;
/** Longer than any demo. */
const FOREVER_MS = 600_000;

type Victim = 'first' | 'holder';

export class Run {
  readonly #plan: RunPlan;
  readonly #crew: Crew;
  readonly #bank: Bank;
  readonly #lock: FairLock;
  readonly #view: View<RunPlan, RunState>;
  readonly #startedAtMs = monotonicMs();
  readonly #line = new Line();
  readonly #killedAtMs = new Map<Victim, number>();
  readonly #takeoverMs = new Map<Victim, number>();
  #nextVictim: Victim = 'first';
  /** Who has stopped in the middle of a transfer, as it was told to. */
  #dawdler: Worker | undefined;

  /** `lock` is only looked at. */
  constructor(
    plan: RunPlan,
    crew: Crew,
    bank: Bank,
    lock: FairLock,
    view: View<RunPlan, RunState>,
  ) {
    this.#plan = plan;
    this.#crew = crew;
    this.#bank = bank;
    this.#lock = lock;
    this.#view = view;
  }

  /** Runs it to its end. */
  async toEnd(signal: AbortSignal): Promise<RunState> {
    await this.#bank.open();
    this.#view.begin(this.#plan);
    this.#crew.on('report', this.#heed);
    try {
      for (const worker of this.#crew.living) worker.order({ type: 'work', lock: 'fair' });
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
    const { durationMs, killFirstAfterMs, killHolderAfterMs } = this.#plan;
    const kills: [number, Victim, number][] = [
      [killFirstAfterMs, 'first', LINGER_MS],
      [killHolderAfterMs, 'holder', FOREVER_MS],
    ];
    while (this.#elapsedMs < durationMs) {
      if (this.#elapsedMs >= (kills[0]?.[0] ?? Infinity)) {
        const [, victim, forMs] = kills.shift()!;
        this.#nextVictim = victim;
        this.#crew.living[2]!.order({ type: 'dawdle', forMs });
      }
      if (this.#dawdler) await this.#killWhile(this.#dawdler);
      this.#view.update(await this.#look());
      await sleep(REFRESH_MS, undefined, { signal });
    }
  }

  readonly #heed = (worker: Worker, report: Report): void => {
    if (!worker.isAlive) return;
    switch (report.type) {
      case 'waits':
        worker.become('waits');
        break;
      case 'holds': {
        const { ownerId, waitedMs, atMs: enteredAtMs } = report;
        worker.become('holds');
        this.#line.enter({ worker, ownerId, waitedMs, enteredAtMs });
        break;
      }
      case 'transferred':
        worker.become('rests');
        this.#line.leave(worker, report.atMs);
        break;
      case 'midway':
        this.#dawdler = worker;
        break;
      case 'stopped':
        worker.become('rests');
        break;
      case 'ready':
      case 'no quorum':
      case 'failed':
        break;
    }
    this.#noticeTakeovers();
  };

  /** `holder` stays where it is: now it is clear who holds and who is first. */
  async #killWhile(holder: Worker): Promise<void> {
    this.#dawdler = undefined;
    this.#line.see(await this.#lock.getWaiters());
    const first = this.#crew.withOwner(this.#line.waiters[0] ?? '');
    const victim = this.#nextVictim === 'first' ? first : holder;
    if (!victim) return; // nobody in line: the verdict tells
    this.#killedAtMs.set(this.#nextVictim, monotonicMs());
    void victim.kill();
    this.#view.tell(
      victim === holder
        ? `${holder.name} holds the lock, has read and not yet written: SIGKILL`
        : `${victim.name} is first in line, while ${holder.name} holds the lock: SIGKILL`,
    );
  }

  #noticeTakeovers(): void {
    for (const [victim, killedAtMs] of this.#killedAtMs) {
      const next = this.#line.stays.find(({ enteredAtMs }) => enteredAtMs > killedAtMs);
      if (!next || this.#takeoverMs.has(victim)) continue;
      const before = this.#line.stays[this.#line.stays.indexOf(next) - 1];
      const fromMs = victim === 'first' ? before?.leftAtMs : killedAtMs;
      if (fromMs === undefined) continue; // not told yet
      const takeoverMs = next.enteredAtMs - fromMs;
      this.#takeoverMs.set(victim, takeoverMs);
      const name = next.worker.name;
      this.#view.tell(
        victim === 'first'
          ? `${name}, who was behind it, is in ${takeoverMs.toFixed(1)} ms after ${before!.worker.name} went out`
          : `${name}, who was first in line, is in ${seconds(takeoverMs, 2)} after the kill: the lease ran out`,
      );
    }
  }

  async #look(): Promise<RunState> {
    this.#line.see(await this.#lock.getWaiters());
    const { stays, waiters, outOfOrder } = this.#line;
    return {
      plan: this.#plan,
      elapsedMs: this.#elapsedMs,
      workers: this.#crew.workers,
      // It may have been told that one of them is in since the look that saw it in line.
      waiters: waiters
        .flatMap((owner) => this.#crew.withOwner(owner) ?? [])
        .filter((worker) => worker.state !== 'holds'),
      handOvers: Math.max(stays.length - 1, 0),
      outOfOrder,
      longestWaitMs: Math.max(0, ...stays.map(({ waitedMs }) => waitedMs)),
      lostCents: lostCents(await this.#bank.accounts()),
      firstKilledMs: this.#takeoverMs.get('first'),
      holderKilledMs: this.#takeoverMs.get('holder'),
    };
  }

  get #elapsedMs(): number {
    return monotonicMs() - this.#startedAtMs;
  }
}
