// What the QuorumErrors of a run said, master by master.

import type { NodeAnswer } from '../../src/index.js';

export class Refusals {
  /** How many errors there were. */
  count = 0;
  /** How often each reason was given. */
  readonly #unreachable = new Map<string, number>();
  readonly #votesInMs: number[] = [];

  add(nodes: readonly NodeAnswer[]): void {
    this.count++;
    for (const node of nodes) {
      if (node.answer === 'guarded') this.#votesInMs.push(node.votesInMs);
      if (node.answer !== 'unreachable') continue;
      const reason = node.reason.replace(/ \S+:\d+$/, ''); // where it is differs
      this.#unreachable.set(reason, (this.#unreachable.get(reason) ?? 0) + 1);
    }
  }

  /** Whether the restart guard was ever the reason. */
  get wereGuarded(): boolean {
    return this.#votesInMs.length > 0;
  }

  /** A line for each reason, the most frequent one first. */
  get lines(): string[] {
    const counts = [...this.#unreachable];
    if (this.wereGuarded) {
      const [last, first] = [Math.min(...this.#votesInMs), Math.max(...this.#votesInMs)];
      const countdown = `${(first / 1_000).toFixed(1)} s ... ${(last / 1_000).toFixed(1)} s`;
      counts.push([`started too recently, votes in ${countdown}`, this.#votesInMs.length]);
    }
    counts.sort(([, one], [, other]) => other - one);
    return counts.map(([reason, count]) => `${String(count).padStart(6)} x  ${reason}`);
  }
}
