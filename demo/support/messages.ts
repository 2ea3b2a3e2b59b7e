// The messages between the demo's main process and its workers. Times in milliseconds on the machine's monotonic clock.
import type { NodeAnswer } from '../../src/index.js';

export type LockKind = 'none' | 'reentrant' | 'kept' | 'fair' | 'redlock' | 'fenced' | 'read-write';

/**
 * What a worker does under the lock: transfer money at once (`transfer`), in two steps (`write`), once and then only when told to hurry
 * (`visit`); take and release the lock again and again, with a transfer now and then (`pairs`); or add up the accounts (`read`).
 */
export type Task = 'transfer' | 'visit' | 'write' | 'pairs' | 'read';

/** From the main process to a worker. */
export type Order =
  /** Repeat this task under this kind of lock. */
  | { readonly type: 'work'; readonly lock: LockKind; readonly task: Task }
  /** Pause for this long in the middle of the next task, before or after the last check of the lock, and report it. */
  | { readonly type: 'dawdle'; readonly forMs: number; readonly hasLooked: boolean }
  /** Take and release the lock until the client keeps it, report it, and do no more. */
  | { readonly type: 'leave it kept' }
  /** From now on, hardly rest between two tasks. */
  | { readonly type: 'hurry' }
  | { readonly type: 'stop' };

/** From a worker to the main process. */
export type Report =
  | { readonly type: 'ready' | 'waits' | 'midway' | 'keeps' | 'stopped' }
  /** The worker has the lock now. */
  | {
      readonly type: 'holds';
      readonly ownerId: string;
      readonly atMs: number;
      readonly waitedMs: number;
      /** Of a fenced lock. */
      readonly token: string | undefined;
    }
  /** A transfer was written, and the worker leaves the lock; `number` counts the transfers of all workers. */
  | { readonly type: 'transferred'; readonly number: number; readonly atMs: number }
  /** The lock was taken and released so often, within so many milliseconds. */
  | { readonly type: 'paired'; readonly count: number; readonly forMs: number }
  /** All balances were added up, and the worker leaves the lock. */
  | { readonly type: 'read'; readonly sumCents: number; readonly atMs: number }
  /** The bank has seen a larger token. */
  | { readonly type: 'refused'; readonly token: string }
  /** Too few masters of a Redlock answered; the worker asks again. */
  | { readonly type: 'no quorum'; readonly message: string; readonly nodes: readonly NodeAnswer[] }
  | { readonly type: 'failed'; readonly message: string };

/** The lease of the workers' locks, which they renew: short, so that the lock of a dead process is soon free. */
export const LOCK_WATCHDOG_TIMEOUT_MS = 3_000;

/** For how long a kept lock stays with its client after its last hold: the longest that this lease allows. */
export const KEEP_MS: number = Math.floor(LOCK_WATCHDOG_TIMEOUT_MS / 9);

/** How workers learn where the bank is, and their ids. */
export const BANK_URL = 'HOLDFAST_DEMO_REDIS_URL';
export const BANK_PREFIX = 'HOLDFAST_DEMO_KEY_PREFIX';
/** The URLs of a Redlock's masters, separated by spaces; not set: there is none. */
export const MASTER_URLS = 'HOLDFAST_DEMO_MASTER_URLS';
export const CLIENT_ID = 'HOLDFAST_DEMO_CLIENT_ID';

/** The clock of the demo: CLOCK_MONOTONIC, which on Linux is the same in all processes of a machine. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
