// What the memory benchmark and its process tell each other.

export interface HeapOrder {
  readonly kind: 'reentrant' | 'fair';
  readonly name: string;
  /** How many wait for it at the same time. */
  readonly waiters: number;
}

/** Bytes of heap per waiter. */
export interface HeapAnswer {
  readonly perWaiter: number;
  /** What was not freed when all had given up. */
  readonly left: number;
}
