/** What one pair of acquire and release makes besides its commands. */
export interface PairCost {
  readonly promises: number;
  readonly timers: number;
  /** Allocated, not kept. */
  readonly heapKib: number;
}
