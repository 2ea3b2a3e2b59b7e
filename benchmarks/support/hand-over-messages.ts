// What the hand-over benchmarks and their worker processes tell each other.

/** What guards the critical section. */
export type Guard =
  | 'reentrant'
  | 'fair'
  /** On several masters: holdfast's, and that of npm's redlock. */
  | 'redlock'
  | 'npm redlock'
  /** A token in a list: BLPOP takes it, RPUSH hands it on. */
  | 'token'
  /** Nothing: then the violation counter must count. */
  | 'nothing';

export interface Order {
  readonly guard: Guard;
  /** The lock's name, and where the counters are. */
  readonly name: string;
  /** Where a Redlock is; the counters are on the Redis of the others. */
  readonly masters?: readonly string[];
  readonly waiters: number;
  /** Nobody asks any more when so much time went by, or after a stay of this number or a higher one. */
  readonly until: { readonly durationMs: number } | { readonly number: number };
}

/** One stay in the critical section; times in milliseconds on the machine's monotonic clock. */
export interface Stay {
  /** Whose: counted from 0, across all processes. */
  readonly waiter: number;
  /** The how-manieth of all. */
  readonly number: number;
  readonly askedMs: number;
  readonly enteredMs: number;
  readonly leftMs: number;
}

export interface Result {
  /** In the order of their numbers. */
  readonly stays: readonly Stay[];
  /** How long those waited who still did when the time was over, in milliseconds; only a Redlock lets them give up. */
  readonly inVainMs: readonly number[];
  /** How often somebody else was inside, or wrote between our read and our write. */
  readonly violations: number;
}
