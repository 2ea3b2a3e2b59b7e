// What one call asks of one lock, and who asks it from where.

import type { HoldOrigin } from './own-hold.js';
import type { AcquireRequest } from '../api/options.js';
import type { Scope } from '../scopes/scope.js';
import type { Seniority } from '../waiting/sleeper.js';

/** What a MultiLock asks of its members, besides what its caller asked for. */
export interface MemberTerms extends Seniority {
  /** Bounds a single attempt, besides `commandTimeout`. */
  readonly attemptMs?: number | undefined;
}

export interface LockRequest extends MemberTerms {
  /** How long to wait if the lock is not free; Infinity: for ever, 0: not at all. */
  readonly waitMs: number;
  readonly leaseMs: number;
  /** Whether the watchdog will renew the lease. */
  readonly isWatched: boolean;
  readonly signal?: AbortSignal | undefined;
}

/** Tells in which hold a call is nested that it waits for, and what to do; undefined: it does not wait for itself any more. */
export type SelfWait = () => { readonly ownerId: string; readonly why: string } | undefined;

export interface CallersRequest extends LockRequest {
  readonly origin: HoldOrigin;
  /** Whether other owners may hold the lock beside the caller (a reader, a permit). */
  readonly isShared: boolean;
  /** The innermost scope of the code that called. */
  readonly position: Scope | undefined;
  /** The scope that the call opens, if it is `withLock`; undefined: the call acts for the innermost run. */
  readonly ownScope: Scope | undefined;
  /** undefined: nothing says that the call is nested in a hold that it cannot re-enter. */
  readonly selfWait: SelfWait | undefined;
}

/** What a hold keeps of the request that it was made for. */
export type HoldTerms = Pick<CallersRequest, 'origin' | 'isShared' | 'isWatched'>;

/** `watchdogLeaseMs`: the lease where the caller named none. */
export function requestOf(
  { waitMs, leaseMs, signal, attemptMs, sinceMs, deferMs }: AcquireRequest & MemberTerms,
  watchdogLeaseMs: number,
  origin: HoldOrigin,
  isShared: boolean,
  position: Scope | undefined,
  ownScope: Scope | undefined,
  selfWait: SelfWait | undefined,
): CallersRequest {
  return {
    waitMs,
    leaseMs: leaseMs ?? watchdogLeaseMs,
    isWatched: leaseMs === undefined,
    signal,
    attemptMs,
    sinceMs,
    deferMs,
    origin,
    isShared,
    position,
    ownScope,
    selfWait,
  };
}
