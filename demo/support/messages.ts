// What the demo's main process and its workers tell each other. Times in milliseconds on the machine's monotonic clock.
import type { NodeAnswer } from '../../src/index.js';

export type LockKind = 'none' | 'reentrant' | 'fair' | 'redlock' | 'fenced' | 'read-write';

/** What a worker does under the lock: transfer money at once, transfer it in two steps, or add up what there is. */
export type Task = 'transfer' | 'write' | 'read';

/** From the main process to a worker. */
export type Order =
  /** Do this over and over, under such a lock. */
  | { readonly type: 'work'; readonly lock: LockKind; readonly task: Task }
  /** Stop for so long in the middle of your next task, before or after your last look at the lock, and say so. */
  | { readonly type: 'dawdle'; readonly forMs: number; readonly hasLooked: boolean }
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
      /** Of a fenced lock. */
      readonly token: string | undefined;
    }
  /** A transfer was written, and it goes out; `number` counts the transfers of all workers. */
  | { readonly type: 'transferred'; readonly number: number; readonly atMs: number }
  /** All balances were added up, and it goes out. */
  | { readonly type: 'read'; readonly sumCents: number; readonly atMs: number }
  /** The bank has seen a larger token. */
  | { readonly type: 'refused'; readonly token: string }
  /** Too few masters of a Redlock answered; it asks again. */
  | { readonly type: 'no quorum'; readonly message: string; readonly nodes: readonly NodeAnswer[] }
  | { readonly type: 'failed'; readonly message: string };

/** The lease of the workers' locks, which they renew: short, so that nobody waits long for the lock of a dead process. */
export const LOCK_WATCHDOG_TIMEOUT_MS = 3_000;

/** How workers get to know where the bank is, and who they are. */
export const BANK_URL = 'HOLDFAST_DEMO_REDIS_URL';
export const BANK_PREFIX = 'HOLDFAST_DEMO_KEY_PREFIX';
/** Those of a Redlock, separated by spaces; not set: there is none. */
export const MASTER_URLS = 'HOLDFAST_DEMO_MASTER_URLS';
export const CLIENT_ID = 'HOLDFAST_DEMO_CLIENT_ID';

/** The clock of the demo: CLOCK_MONOTONIC, which on Linux is one and the same in all processes of a machine. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
