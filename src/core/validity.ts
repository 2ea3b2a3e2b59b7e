// For how long a process may rely on a lease that the server confirmed.

import { elapsedMs, type Instant } from '../runtime/clock.js';

/**
 * A confirmed lease, seen from the client. It counts from before the command was sent, so it ends before the
 * server's lease does, whatever the network did; the margin covers clocks that run at different speeds.
 */
export interface Validity {
  readonly since: Instant;
  readonly usableMs: number;
}

/** Drift margin as in Redis' description of Redlock: 1 % of the lease and 2 ms, at most half the lease. */
function driftMarginMs(leaseMs: number): number {
  return Math.min(leaseMs * 0.01 + 2, leaseMs / 2);
}

export function validity(sentAt: Instant, leaseMs: number): Validity {
  return { since: sentAt, usableMs: leaseMs - driftMarginMs(leaseMs) };
}

/** Milliseconds that are left; 0 or less when it is over. */
export function leftMs(lease: Validity): number {
  return lease.usableMs - elapsedMs(lease.since);
}

/** A confirmation never shortens a lease: the one that ends later counts. */
export function later(one: Validity, other: Validity): Validity {
  return leftMs(other) > leftMs(one) ? other : one;
}
