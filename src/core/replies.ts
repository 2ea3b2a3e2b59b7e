// What a server answers about a lock, whatever kind of lock it is.

import type { LossReason, SeenHolder } from '../api/errors.js';
import type { Instant } from '../runtime/clock.js';
import type { Deadline } from './deadline.js';

/** What a try to acquire a lock found. */
export type AcquireReply = Acquired | HandedOver | HeldReply;

/** The lock is ours. */
interface Acquired {
  readonly outcome: 'acquired';
  /** Since when the lease counts, if not since the try was sent. */
  readonly sentAt?: Instant;
  /** The fencing token, if the lock is fenced. */
  readonly token?: bigint | undefined;
}

/** Somebody else has the lock. */
export interface HeldReply extends Readonly<SeenHolder> {
  readonly outcome: 'held';
  /** When to look again, in milliseconds, where that is not when the holder's lease ends. */
  readonly retryInMs?: number | undefined;
}

/** The holder before us gave the lock to us, while we waited. */
export interface HandedOver {
  readonly outcome: 'handed over';
  /** Until when the lock may be relied on with the lease that it was handed over with. */
  readonly deadline: Deadline;
  /** Sets the lease that was asked for, where that is not what a renewal would set anyway. */
  readonly confirm: (() => Promise<KeepReply>) | undefined;
  /** The fencing token, if the lock is fenced. */
  readonly token?: bigint | undefined;
}

/** Whether the lock is ours now, or was handed over to us. */
export function isAcquired({ outcome }: { readonly outcome: AcquireReply['outcome'] }): boolean {
  return outcome !== 'held';
}

/** What the server says of a lock that its caller should hold: it is kept, or how it was lost. */
export type KeepReply = 'kept' | Extract<LossReason, 'taken' | 'deleted' | 'forced'>;

export function isKept(reply: KeepReply): boolean {
  return reply === 'kept';
}
