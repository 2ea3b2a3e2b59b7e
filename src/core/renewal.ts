// What the watchdog looks after, how leases of one kind are renewed, and what a renewal says.

import type { Instant } from '../runtime/clock.js';
import type { Deadline } from './deadline.js';
import type { KeepReply } from './replies.js';

/** What the watchdog looks after: a grant, or a place in line. */
export interface Renewable<Reply = KeepReply> {
  readonly ownerId: string;
  /** Whether the watchdog prolongs the lease; if not, it only looks whether the lease is still there. */
  readonly isWatched: boolean;
  /**
   * Finds out, before anything else is done with the lease, whether it is over while somebody relies on it; and schedules its end, if
   * that comes before the next round.
   */
  checkEnd?(at: Instant): void;
  /**
   * How many milliseconds before `at`, by default now, the command was sent that confirmed the lease last; -1: the lease is not relied
   * on any more.
   */
  ageMs(at?: Instant): number;
  /** The server that has answered, or is about to, may be another one than the one that was told last. */
  doubted?(): void;
  /** A renewal by `leaseMs`, 0 for a mere look, is on its way. */
  renewing?(leaseMs: number): void;
  /** The server's answer to a renewal; an unanswered one is never reported. */
  renewed(reply: Reply, renewal: Renewal): void;
}

/** A renewal that was answered; one for all leases of its batch. */
export interface Renewal {
  readonly sentAt: Instant;
  /** What it prolonged leases by, in milliseconds; 0: it was a mere look. */
  readonly leaseMs: number;
  /** Until when the leases that it prolonged may be relied on. */
  readonly deadline: Deadline;
  readonly answeredAt: Instant;
}

/** How often one lease may be prolonged, where that is limited. */
export interface RenewalLimit {
  /** Whether the lease may be prolonged now; if not, the watchdog only looks whether it is still there. */
  readonly isDue: boolean;
  /** A renewal is on its way. */
  renewing(): void;
  /** A renewal that was sent at `sentAt` was answered. */
  renewed(sentAt: Instant): void;
}

/** A lease under watch, and what its renewer needs to find it on the server. */
export interface Watched<Target> {
  readonly lease: Renewable<unknown>;
  readonly target: Target;
}

/** How leases of one kind are renewed. */
export interface Renewer<Target> {
  readonly kind: string;
  /** What may go into one script call has the same batch key. */
  batchKey(target: Target): string;
  /** Sends one batch, with a lease of 0 for a mere look; the answers are in the same order. */
  renew(batch: readonly Watched<Target>[], leaseMs: number): Promise<readonly unknown[]>;
}
