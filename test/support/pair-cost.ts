/** What one pair of acquire and release makes besides its commands. */
export interface PairCost {
  readonly promises: number;
  readonly timers: number;
  /** Allocated, not kept; beside what a raw pair takes at the same time. */
  readonly heapKib: number;
}
