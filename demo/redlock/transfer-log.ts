// When money was transferred, and for how long it was not. Times in milliseconds on the machine's monotonic clock.

export class TransferLog {
  readonly #startedAtMs: number;
  readonly #timesMs: number[] = [];

  constructor(startedAtMs: number) {
    this.#startedAtMs = startedAtMs;
  }

  get count(): number {
    return this.#timesMs.length;
  }

  /** Told by different processes: the order in which that arrives is not quite the order in which it happened. */
  add(atMs: number): void {
    const index = this.#timesMs.findLastIndex((known) => known <= atMs);
    this.#timesMs.splice(index + 1, 0, atMs);
  }

  between(fromMs: number, toMs: number): number {
    return this.#timesMs.filter((atMs) => atMs >= fromMs && atMs < toMs).length;
  }

  /** The longest time without any, up to then. */
  longestStallMs(untilMs: number): number {
    const timesMs = [this.#startedAtMs, ...this.#timesMs.filter((atMs) => atMs < untilMs), untilMs];
    return Math.max(...timesMs.slice(1).map((atMs, i) => atMs - timesMs[i]!));
  }
}
