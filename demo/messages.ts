// What the demo's main process and its workers tell each other. Times in milliseconds on the machine's monotonic clock.

export type LockKind = 'none' | 'reentrant' | 'fair';

/** From the main process to a worker. */
export type Order =
  /** Transfer money over and over, under such a lock. */
  | { readonly type: 'work'; readonly lock: LockKind }
  /** Stop for so long in the middle of your next transfer, and say so. */
  | { readonly type: 'dawdle'; readonly forMs: number }
  | { readonly type: 'stop' };

/** From a worker to the main process. */
export type Report =
  | { readonly type: 'ready' | 'waits' | 'midway' | 'stopped' }
  /** It has the lock now. */
  | {
      readonly type: 'holds';
      readonly ownerId: string;
      readonly atMs: number;
      readonly waitedMs: number;
    }
  /** A transfer was written, and it goes out; `number` counts the transfers of all workers. */
  | { readonly type: 'transferred'; readonly number: number; readonly atMs: number }
  | { readonly type: 'failed'; readonly message: string };

/** How workers get to know where the bank is, and who they are. */
export const BANK_URL = 'HOLDFAST_DEMO_REDIS_URL';
export const BANK_PREFIX = 'HOLDFAST_DEMO_KEY_PREFIX';
export const CLIENT_ID = 'HOLDFAST_DEMO_CLIENT_ID';
