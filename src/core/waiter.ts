// One caller in a line: how an acquisition tries to get its lock, and where it waits between the tries.

import type { TimeLimit } from '../runtime/clock.js';
import type { Findings } from '../waiting/findings.js';
import type { Granted } from './granted-lock.js';
import type { AcquireReply, HandedOver, HeldReply } from './replies.js';

export interface Waiter {
  readonly ownerId: string;
  /**
   * Tries to acquire the lock. It may be repeated: the owner is never used for anything else.
   *
   * @param limit - how long the caller will wait; left out: for ever
   */
  try(limit?: TimeLimit): Promise<AcquireReply>;
  /** The grant is made that its latest try was answered with. */
  won?(grant: Granted): void;
  /** Waits in line without asking, if this client has the lock or others of this client wait; returns what is known of the holder. */
  queue?(): HeldReply | undefined;
  /** Takes, without asking, what was handed over while it waited; undefined: nothing that may be relied on. */
  claim?(): HandedOver | Granted | undefined;
  /** A try, begun at `triedAtMs` (monotonic), found that somebody else has the lock: waits in line, at the same place as before. */
  wait(seen: HeldReply, triedAtMs: number): void;
  /** What those of this client who wait for the lock know of it; undefined: it does not wait. */
  readonly findings?: Findings | undefined;
  /** Sees to it that the server is asked, now unless that was done since `sinceMs` (monotonic): once for all who wait. */
  look(sinceMs: number): void;
  /** Whether it is its turn to try: it stands in no line, or was woken. */
  readonly mayTry: boolean;
  /** Resolves when `mayTry` is true. */
  readonly woken: Promise<void>;
  /**
   * Leaves the line: the lock was acquired, for `leaseMs`, or it is not wanted any more. Returns whether something of the
   * waiter may be left on the server.
   */
  leave(leaseMs?: number): boolean;
}
