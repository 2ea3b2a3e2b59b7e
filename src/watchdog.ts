// Looks after all that a client holds: one timer, a round every third of the lease, in batches. Watched leases are
// renewed, fixed ones only looked at, so that their loss does not go unnoticed.

import type { KeepReply, Renewable } from './backend.js';
import { now, setTimer } from './clock.js';
import type { LockKeys } from './redis/keys.js';
import { inOwnContext } from './scope.js';

/** Leases in one script call: enough that many cost few calls, few enough that one call takes well under 10 ms. */
const BATCH_SIZE = 500;

/** A lease under watch, and where it is on the server. */
export interface WatchedLease {
  readonly lease: Renewable;
  readonly keys: LockKeys;
}

export interface WatchdogOptions {
  leaseMs: number;
  /** What may go into one script call has the same batch key. */
  batchKey: (keys: LockKeys) => string;
  /** Sends one batch, with a lease of 0 for a mere look; the answers are in the same order. */
  renew: (batch: readonly WatchedLease[], leaseMs: number) => Promise<readonly KeepReply[]>;
  /** A batch stayed unanswered. It will be sent again before its leases end. */
  failed: (error: unknown, batch: readonly WatchedLease[]) => void;
}

export class Watchdog {
  readonly #options: WatchdogOptions;
  readonly #intervalMs: number;
  readonly #watched = new Map<Renewable, WatchedLease>();
  #timer: NodeJS.Timeout | undefined;
  #roundAt = Infinity;

  constructor(options: WatchdogOptions) {
    this.#options = options;
    this.#intervalMs = options.leaseMs / 3;
  }

  watch(lease: Renewable, keys: LockKeys): void {
    this.#watched.set(lease, { lease, keys });
    // The lease began when it was asked for, which may have been a while ago.
    this.#roundWithin(this.#intervalMs - lease.ageMs);
  }

  unwatch(lease: Renewable): void {
    this.#watched.delete(lease);
    if (this.#watched.size === 0) this.#disarm();
  }

  /** Renews everything at once: the connection is new, and the server may be another. */
  readonly renewNow = (): void => {
    if (this.#watched.size > 0) this.#round(0);
  };

  #roundWithin(delayMs: number): void {
    const at = performance.now() + delayMs;
    if (this.#roundAt <= at) return;
    this.#disarm();
    this.#roundAt = at;
    const round = (): void => {
      this.#round();
    };
    this.#timer = inOwnContext(() => setTimer(round, delayMs));
  }

  #disarm(): void {
    clearTimeout(this.#timer);
    this.#roundAt = Infinity;
  }

  /**
   * A lease is due at half the interval: so a round leaves out what was just acquired or renewed, and a round that
   * retries leaves out what was answered.
   */
  #round(dueAgeMs = this.#intervalMs / 2): void {
    this.#disarm();
    this.#roundWithin(this.#intervalMs);
    for (const batch of this.#batches(dueAgeMs)) void this.#renew(batch);
  }

  #batches(dueAgeMs: number): WatchedLease[][] {
    const open = new Map<string, WatchedLease[]>();
    const batches: WatchedLease[][] = [];
    for (const watched of [...this.#watched.values()]) {
      watched.lease.checkDeadline();
      if (watched.lease.ageMs < dueAgeMs) continue;
      const key = `${String(watched.lease.isWatched)} ${this.#options.batchKey(watched.keys)}`;
      let batch = open.get(key);
      if (!batch || batch.length === BATCH_SIZE) {
        batch = [];
        open.set(key, batch);
        batches.push(batch);
      }
      batch.push(watched);
    }
    return batches;
  }

  async #renew(batch: readonly WatchedLease[]): Promise<void> {
    const { renew, failed } = this.#options;
    const leaseMs = batch[0]?.lease.isWatched ? this.#options.leaseMs : 0;
    const sentAt = now();
    for (const { lease } of batch) lease.renewing();
    try {
      const replies = await renew(batch, leaseMs);
      for (const [index, { lease }] of batch.entries()) {
        const reply = replies[index];
        // Released or lost while the renewal was on its way: what it found says nothing about that.
        if (reply !== undefined && this.#watched.has(lease)) lease.renewed(reply, sentAt, leaseMs);
      }
    } catch (error) {
      failed(error, batch);
      if (this.#watched.size > 0) this.#roundWithin(this.#intervalMs / 10);
    }
  }
}
