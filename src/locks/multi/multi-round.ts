// One round of a caller who wants several locks: waits for one of them while holding nothing, if that one was in the way, then tries
// all others at once.

import { LockLostError } from '../../api/errors.js';
import type { Session } from '../../core/session.js';
import type { SingleHold } from '../../core/single-hold.js';
import type { Clock, Timer } from '../../runtime/clock.js';
import { WaitEnded, WaitLimit } from '../../runtime/wait-limit.js';
import type { SingleLock } from '../single-lock.js';
import { commonOwner } from './common-owner.js';

/** The longest that is taken for a round trip, in milliseconds. */
const LONGEST_ROUND_TRIP_MS = 20;

/** How long a failing call waits for the members that it gives back; one that went silent must not keep the caller. */
const UNDO_LIMIT_MS = 100;

export interface RoundOptions {
  readonly session: Session;
  readonly clock: Clock;
  readonly members: readonly SingleLock[];
  /** undefined: the watchdog renews it. */
  readonly leaseMs: number | undefined;
  /** Milliseconds until the caller gives up. */
  readonly leftMs: () => number;
  /** Aborts when nobody wants the locks any more. */
  readonly stop: AbortSignal;
  readonly acquire: (
    member: SingleLock,
    waitMs: number,
    attemptMs: number,
    newOwnerId: () => string,
  ) => Promise<SingleHold>;
}

/** A member that could not be had. */
export interface Refusal {
  readonly member: SingleLock;
  readonly error: unknown;
}

export interface RoundOutcome {
  /** The members that were acquired, in the caller's order: all of them, if none was refused. */
  readonly holds: readonly SingleHold[];
  readonly refusals: readonly Refusal[];
  /** When the members that were refused began to be asked, on the monotonic clock. */
  readonly triedAtMs: number;
  /** How long it took to try all at once; undefined: it did not come to that. */
  readonly roundTripMs?: number;
}

export class MultiRound {
  readonly #options: RoundOptions;
  readonly #holds = new Map<SingleLock, SingleHold>();

  constructor(options: RoundOptions) {
    this.#options = options;
  }

  /** `first`: the member that was in the way; it is waited for before the others are tried. */
  async play(first: SingleLock | undefined): Promise<RoundOutcome> {
    const { session, clock, members, leaseMs, leftMs } = this.#options;
    let ownerId = '';
    const newOwnerId = (): string => (ownerId = session.newOwnerId());
    const waitedSinceMs = clock.nowMs();
    const refusal = first && (await this.#acquire(first, leftMs(), leftMs(), newOwnerId));
    if (refusal) return { holds: [], refusals: [refusal], triedAtMs: waitedSinceMs };
    const waited = first && this.#holds.get(first);
    // A waiter may have tried as one owner after another: the members share the last one. (A member that was held already keeps its own.)
    const commonId = waited?.ownerId === ownerId ? ownerId : newOwnerId();

    const triedAtMs = clock.nowMs();
    // However short the wait is, there is an attempt; but none after one that took longer.
    const attemptMs = first ? leftMs() : Math.max(leftMs(), 1);
    const tries = members
      .filter((member) => member !== first)
      .map((member) => this.#acquire(member, 0, attemptMs, commonOwner(commonId, member.name)));
    // All leases count from one instant.
    if (first && leaseMs !== undefined) tries.push(this.#extend(first, waited, leaseMs));
    const refusals = (await Promise.all(tries)).filter((given) => given !== undefined);
    const roundTripMs = Math.min(clock.nowMs() - triedAtMs, LONGEST_ROUND_TRIP_MS);
    const holds = members.flatMap((member) => this.#holds.get(member) ?? []);
    return { holds, refusals, triedAtMs, roundTripMs };
  }

  async #acquire(
    member: SingleLock,
    waitMs: number,
    attemptMs: number,
    newOwnerId: () => string,
  ): Promise<Refusal | undefined> {
    try {
      this.#holds.set(member, await this.#options.acquire(member, waitMs, attemptMs, newOwnerId));
      return undefined;
    } catch (error) {
      return { member, error };
    }
  }

  /** Extends the lease of the member that was waited for, within the time that is left, and for as long as that is wanted. */
  async #extend(
    member: SingleLock,
    hold: SingleHold | undefined,
    leaseMs: number,
  ): Promise<Refusal | undefined> {
    const limitMs = this.#options.leftMs();
    // The other members must not stay held until Redis answers, if nobody wants them any more.
    const { stop: signal, clock } = this.#options;
    const waitLimit = new WaitLimit({ clock, limitMs, signal, sparesAttempts: limitMs > 0 });
    if (signal.aborted) waitLimit.end('aborted');
    try {
      if (hold) await waitLimit.attempt(() => hold.extend(leaseMs));
      return undefined;
    } catch (error) {
      if (error instanceof LockLostError) return undefined; // a lost hold has nothing remaining
      if (!(error instanceof WaitEnded)) return { member, error };
      const what = `not extended: Redis did not answer within ${String(Math.round(limitMs))} ms`;
      return { member, error: this.#options.session.unavailable(member.name, what) };
    } finally {
      waitLimit.dispose();
    }
  }
}

/** Gives back what a round acquired. */
export async function undo(holds: Iterable<SingleHold>, clock: Clock): Promise<void> {
  const releases = [...holds].map((hold) => hold.releaseQuietly());
  let timer: Timer | undefined;
  const tooLong = new Promise<void>((resolve) => (timer = clock.setTimer(resolve, UNDO_LIMIT_MS)));
  await Promise.race([Promise.allSettled(releases), tooLong]);
  clock.clearTimer(timer);
}
