// What goes on in this moment, in one line that is drawn over; without a terminal, a line for each round.
import { machineMs } from '../../support/time.js';
import type { Plan } from '../plan.js';
import type { Progress } from '../round.js';
import type { Tally } from './tally.js';

export class StatusLine implements Disposable {
  readonly #tally: Tally;
  readonly #endsAt: number;
  readonly #present = new Map<Plan, Progress>();
  readonly #startedAt = machineMs();

  constructor(tally: Tally, endsAt: number) {
    this.#tally = tally;
    this.#endsAt = endsAt;
  }

  show(plan: Plan, progress: Progress): void {
    if (!this.#present.has(plan) && !process.stdout.isTTY) this.print(this.#describe(plan));
    this.#present.set(plan, progress);
    this.#draw();
  }

  over(plan: Plan): void {
    this.#present.delete(plan);
  }

  /** A line that stays. */
  print(text: string): void {
    this.clear();
    console.log(text);
  }

  clear(): void {
    if (process.stdout.isTTY) process.stdout.write('\r\u001b[K');
  }

  [Symbol.dispose](): void {
    this.clear();
  }

  #describe({ kind, seed, topology }: Plan): string {
    const { rounds, sections, faults, violations } = this.#tally.total;
    return `${this.#clock()} ${kind} ${seed} on ${topology} (so far ${rounds} rounds, ${sections} sections, ${faults} faults, ${violations} violations)`;
  }

  #clock(): string {
    const seconds = Math.round((machineMs() - this.#startedAt) / 1_000);
    const ends =
      this.#endsAt === Infinity
        ? ''
        : `/${Math.round((this.#endsAt - this.#startedAt) / 60_000)}min`;
    return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}${ends}`;
  }

  #draw(): void {
    if (!process.stdout.isTTY) return;
    const { rounds, violations } = this.#tally.total;
    const present = [...this.#present].map(
      ([{ kind, seed, topology }, { phase, sections, faults }]) =>
        `${kind} ${seed} on ${topology}, ${phase}: ${sections} calls${faults.map((fault) => `, ${fault}`).join('')}`,
    );
    const text = `${this.#clock()} ${rounds} rounds, ${violations} violations | ${present.join(' | ')}`;
    process.stdout.write(`\r\u001b[K${text.slice(0, process.stdout.columns - 1)}`);
  }
}
