// Looks after all that a client has on the server for a time: one timer, a round every third of the lease, in batches.
// Watched leases are renewed, fixed ones only looked at, so that their loss does not go unnoticed.

import type { Renewable } from './backend.js';
import { now, setTimer } from './clock.js';
import { inOwnContext } from './scope.js';

/** Leases in one script call: enough that many cost few calls, few enough that one call takes well under 10 ms. */
const BATCH_SIZE = 500;

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

export interface WatchdogOptions {
  leaseMs: number;
  /** A batch stayed unanswered. It will be sent again before its leases end. */
  failed: (error: unknown, leaseCount: number) => void;
}

interface Entry extends Watched<unknown> {
  readonly renewer: Renewer<unknown>;
}

export class Watchdog {
  readonly #options: WatchdogOptions;
  readonly #intervalMs: number;
  readonly #watched = new Map<Renewable<unknown>, Entry>();
  #timer: NodeJS.Timeout | undefined;
  #roundAt = Infinity;

  constructor(options: WatchdogOptions) {
    this.#options = options;
    this.#intervalMs = options.leaseMs / 3;
  }

  watch<Target>(lease: Renewable<unknown>, target: Target, renewer: Renewer<Target>): void {
    this.#watched.set(lease, { lease, target, renewer });
    // The lease began when it was asked for, which may have been a while ago.
    this.#roundWithin(this.#intervalMs - lease.ageMs);
  }

  unwatch(lease: Renewable<unknown>): void {
    this.#watched.delete(lease);
    if (this.#watched.size === 0) this.#disarm();
  }

  /** Renews everything at once: the connection is new, and the server may be another. */
  readonly renewAll = (): void => {
    if (this.#watched.size > 0) this.#round(0);
  };

  /** Renews these at once. */
  renew(leases: Iterable<Renewable<unknown>>): void {
    const entries = [...leases].flatMap((lease) => this.#watched.get(lease) ?? []);
    this.#renewInBatches(entries);
  }

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
    const due = [...this.#watched.values()].filter(({ lease }) => {
      lease.checkDeadline();
      return lease.ageMs >= dueAgeMs;
    });
    this.#renewInBatches(due);
  }

  /** Whether a lease is prolonged is asked once: that may change while others are sent. */
  #renewInBatches(entries: readonly Entry[]): void {
    const watched: Entry[] = [];
    const fixed: Entry[] = [];
    for (const entry of entries) (entry.lease.isWatched ? watched : fixed).push(entry);
    for (const batch of inBatches(watched)) void this.#renew(batch, this.#options.leaseMs);
    for (const batch of inBatches(fixed)) void this.#renew(batch, 0);
  }

  async #renew(batch: readonly Entry[], leaseMs: number): Promise<void> {
    const [first] = batch;
    if (!first) return;
    const sentAt = now();
    for (const { lease } of batch) lease.renewing(leaseMs);
    try {
      const replies = await first.renewer.renew(batch, leaseMs);
      for (const [index, { lease }] of batch.entries()) {
        const reply = replies[index];
        // Released or lost while the renewal was on its way: what it found says nothing about that.
        if (reply !== undefined && this.#watched.has(lease)) lease.renewed(reply, sentAt, leaseMs);
      }
      const unknown = batch.filter(
        ({ lease }, i) => !replies[i] && this.#watched.has(lease),
      ).length;
      if (unknown > 0) this.#failed(new Error('too few masters answered'), unknown);
    } catch (error) {
      this.#failed(error, batch.length);
    }
  }

  #failed(error: unknown, leaseCount: number): void {
    this.#options.failed(error, leaseCount);
    if (this.#watched.size > 0) this.#roundWithin(this.#intervalMs / 10);
  }
}

/** What may be sent in one call: of one kind, of one slot. */
function inBatches(entries: readonly Entry[]): Entry[][] {
  const open = new Map<string, Entry[]>();
  const batches: Entry[][] = [];
  for (const entry of entries) {
    const { target, renewer } = entry;
    const key = `${renewer.kind} ${renewer.batchKey(target)}`;
    let batch = open.get(key);
    if (!batch || batch.length === BATCH_SIZE) {
      batch = [];
      open.set(key, batch);
      batches.push(batch);
    }
    batch.push(entry);
  }
  return batches;
}
