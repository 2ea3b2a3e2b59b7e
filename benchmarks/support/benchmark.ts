// What main.ts runs.

export interface BenchmarkContext {
  readonly url: string;
  /** In front of every key, so that nothing of the user's is touched. */
  readonly keyPrefix: string;
  /** Only long enough to see that it works. */
  readonly isSmoke: boolean;
}

export interface Benchmark {
  readonly name: string;
  /** Prints its tables; false when what it saw must never happen. */
  run(context: BenchmarkContext): Promise<boolean>;
}
