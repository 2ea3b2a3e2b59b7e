// Until when a process may rely on a lease that a server confirmed.

import { elapsedMs, now, type Instant } from '../runtime/clock.js';

/**
 * The end of a confirmed lease as the client sees it. The lease counts from before the command was sent, so the deadline
 * comes before the server's lease ends, whatever the network did; the margin covers clocks that run at different speeds.
 */
export interface Deadline {
  readonly since: Instant;
  readonly usableMs: number;
}

/** Drift margin as in Redis' description of Redlock: 1 % of the lease and 2 ms, at most half the lease. */
function driftMarginMs(leaseMs: number): number {
  return Math.min(leaseMs * 0.01 + 2, leaseMs / 2);
}

/** The server confirmed a lease of `leaseMs` to a command that was sent at `sentAt`, or later. */
export function deadlineOf(sentAt: Instant, leaseMs: number): Deadline {
  return { since: sentAt, usableMs: leaseMs - driftMarginMs(leaseMs) };
}

/** Milliseconds that are left at `at`, by default now; 0 or less when the deadline has passed. */
export function leftMs(deadline: Deadline, at?: Instant): number {
  return deadline.usableMs - elapsedMs(deadline.since, at);
}

/** A confirmation never shortens a lease: of two deadlines the later one counts. */
export function later(
  one: Deadline,
  other: Deadline,
  at: Instant = now(one.since.clock),
): Deadline {
  return leftMs(other, at) > leftMs(one, at) ? other : one;
}
