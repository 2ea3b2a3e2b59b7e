// What the hand-over benchmark and its worker processes tell each other.

/** What guards the critical section. */
export type Guard =
  | 'holdfast'
  /** A token in a list: BLPOP takes it, RPUSH hands it on. */
  | 'token'
  /** Nothing: then the violation counter must count. */
  | 'nothing';

export interface Order {
  readonly guard: Guard;
  /** The lock's name, and where the counters are. */
  readonly name: string;
  readonly waiters: number;
  readonly durationMs: number;
}

/** One stay in the critical section; times in milliseconds on the machine's monotonic clock. */
export interface Stay {
  /** The how-manieth of all. */
  readonly number: number;
  readonly enteredMs: number;
  readonly leftMs: number;
  readonly waitedMs: number;
}

export interface Result {
  readonly stays: readonly Stay[];
  /** How often somebody else was inside. */
  readonly violations: number;
}
