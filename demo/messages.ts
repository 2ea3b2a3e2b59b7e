// What the demo's main process and its workers tell each other.

/** From the main process to a worker. */
export type Order =
  /** Transfer money over and over, with the lock or without. */
  | { readonly type: 'work'; readonly underLock: boolean }
  /** Stop in the middle of your next transfer, say so, and stay there. */
  | { readonly type: 'dawdle' }
  | { readonly type: 'stop' };

/** From a worker to the main process. */
export type Report =
  | { readonly type: 'ready' | 'waits' | 'midway' | 'stopped' }
  /** It has the lock now. */
  | { readonly type: 'holds'; readonly waitedMs: number }
  /** A transfer was written; `number` counts the transfers of all workers. */
  | { readonly type: 'transferred'; readonly number: number }
  | { readonly type: 'failed'; readonly message: string };

/** How workers get to know where the bank is. */
export const BANK_URL = 'HOLDFAST_DEMO_REDIS_URL';
export const BANK_PREFIX = 'HOLDFAST_DEMO_KEY_PREFIX';
