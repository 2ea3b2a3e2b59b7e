// Removes owners that may still hold a lock, or a place in line, but are no longer wanted: after an acquisition without an answer, or a
// release that failed. Repeats the removal until the server executes it, or refuses permanently.

import { type Clock, PROCESS_CLOCK, type Timer } from '../runtime/clock.js';
import { QuorumError } from '../api/errors.js';
import { failureKind, isOutcomeUnknown } from '../redis/failure.js';
import type { WaitLimit } from '../runtime/wait-limit.js';
import { idOf, type Removable } from './protocol.js';
import { Undecided } from './retry.js';

/** The delay before a removal that was not answered, or was refused temporarily, is tried again; in milliseconds. */
const RETRY_MS = 1_000;

/** The same delay while the client is closing, which may leave less time than RETRY_MS. */
const CLOSING_RETRY_MS = 50;

/** The maximum number of owners to remember; beyond it, the oldest is left to expire with its lease. */
const MAX_LEFTOVERS = 10_000;

interface Leftover {
  readonly lock: Removable;
  readonly ownerId: string;
  /** Whether another server has removed it before. */
  readonly isAgain: boolean;
}

export class Cleanup {
  /** The owners that went recently; undefined: there is no failover in which a new server may have missed that. */
  readonly released: ReleasedOwners | undefined;
  readonly #clock: Clock;
  readonly #isConnected: () => boolean;
  readonly #owners = new Map<string, Leftover>();
  readonly #underWay = new Set<Promise<unknown>>();
  #timer: Timer | undefined;
  #state: 'open' | 'closing' | 'closed' = 'open';
  /** Called when no owner is left and no removal is under way. */
  #onEmpty: () => void = () => undefined;

  /**
   * `isConnected`: whether there is a connection, though perhaps not to every node of a cluster. (`tryAgain` is not called when such a node
   * comes back.)
   */
  constructor(
    isConnected: () => boolean = () => false,
    released?: ReleasedOwners,
    clock: Clock = PROCESS_CLOCK,
  ) {
    this.#clock = clock;
    this.#isConnected = isConnected;
    this.released = released;
  }

  /**
   * Removes an owner: now if the server is reachable, else as soon as it is.
   *
   * @param isLeft - for a command under way that may still acquire the lock for this owner: resolves to whether it left anything
   */
  remove(lock: Removable, ownerId: string, isLeft?: Promise<boolean>): void {
    this.#add(lock, ownerId, false);
    if (!isLeft) return;
    this.removeAfter(isLeft, () => {
      this.remove(lock, ownerId);
    });
  }

  /**
   * Calls `remove` if a command has left something, or was not answered. The removal that was already sent may have overtaken the command,
   * while a slot is moving, or with `replicas`, which use another connection.
   */
  removeAfter(isLeft: Promise<boolean>, remove: () => void): void {
    const removal = isLeft.then(
      (hasLeft) => {
        if (hasLeft) remove();
      },
      (error: unknown) => {
        if (isOutcomeUnknown(error)) remove();
      },
    );
    this.expect(removal);
  }

  /** Repeats all pending removals: the connection is back, or the delay is over. */
  readonly tryAgain = (): void => {
    this.#clock.clearTimer(this.#timer);
    this.#timer = undefined;
    for (const [id, leftover] of [...this.#owners]) this.#try(id, leftover);
  };

  /** There is a new connection. Repeats the pending removals; if it is to another server, also the recent releases. */
  readonly connected = (isAnother: boolean): void => {
    this.tryAgain();
    if (!isAnother) return;
    for (const { lock, ownerId } of this.released?.unexpired ?? []) this.#add(lock, ownerId, true);
  };

  /** Makes `close()` wait for an operation that may leave an owner to be removed, or still needs the connection. */
  expect(outcome: Promise<unknown>): void {
    const settled = outcome
      .catch(() => undefined)
      .finally(() => {
        this.#underWay.delete(settled);
        if (this.#isEmpty) this.#onEmpty();
      });
    this.#underWay.add(settled);
  }

  /**
   * Continues until nothing is left, or the limit is reached, since a reconnection may succeed in time. Afterwards nothing is tried again.
   */
  async close(waitLimit: WaitLimit): Promise<void> {
    this.#state = 'closing';
    if (this.#timer) this.tryAgain();
    try {
      while (!this.#isEmpty)
        await waitLimit.within(new Promise<void>((resolve) => (this.#onEmpty = resolve)));
    } finally {
      this.#state = 'closed';
      this.#clock.clearTimer(this.#timer);
    }
  }

  #add(lock: Removable, ownerId: string, isAgain: boolean): void {
    const [oldest] = this.#owners.keys();
    if (this.#owners.size >= MAX_LEFTOVERS && oldest !== undefined) this.#owners.delete(oldest);
    const id = idOf(ownerId, lock.id);
    const leftover = { lock, ownerId, isAgain };
    this.#owners.set(id, leftover);
    this.#try(id, leftover);
  }

  get #isEmpty(): boolean {
    return this.#owners.size === 0 && this.#underWay.size === 0;
  }

  #try(id: string, leftover: Leftover): void {
    // A later removal of the same owner is still unanswered, and must not be forgotten.
    const forget = (): void => {
      if (this.#owners.get(id) === leftover) this.#owners.delete(id);
    };
    const { lock, ownerId, isAgain } = leftover;
    const removed = (isRemoved: boolean): void => {
      forget();
      if (isRemoved && !isAgain) this.released?.add(lock, ownerId);
    };
    const removal = lock.release(ownerId).then(removed, (error: unknown) => {
      const kind = failureKind(error);
      // For a Redlock, each master's own client repeats what could not be removed on that master.
      const isLeftToMasters = error instanceof Undecided || error instanceof QuorumError;
      const isUnsent = kind === 'unsent';
      const isForNow =
        isOutcomeUnknown(error) || kind === 'transient' || (isUnsent && this.#isConnected());
      const mayHelp = !isLeftToMasters && isForNow;
      // Without a connection nothing can be done until it is back. A client that is refused permanently cannot remove anything.
      if (!mayHelp && !isUnsent) forget();
      if (mayHelp) this.#tryAgainSoon();
    });
    this.expect(removal);
  }

  #tryAgainSoon(): void {
    if (this.#state === 'closed') return;
    const delayMs = this.#state === 'closing' ? CLOSING_RETRY_MS : RETRY_MS;
    this.#timer ??= this.#clock.setTimer(this.tryAgain, delayMs);
  }
}

// The owners that were recently released, removed or lost. With Sentinels, a replica that takes over may have missed that, and would keep
// their locks until the leases end.

/** The maximum number of owners to remember: the newest ones. */
const MOST = 1_000;

/** Where an owner was released, and when its lease would have ended (monotonic). */
interface Released {
  readonly lock: Removable;
  readonly ownerId: string;
  readonly endsAtMs: number;
}

export class ReleasedOwners {
  readonly #clock: Clock;
  readonly #leaseMs: number;
  readonly #newest: Released[] = [];
  #next = 0;

  /** `leaseMs`: the assumed lease of owners added without one. */
  constructor(clock: Clock, leaseMs: number) {
    this.#clock = clock;
    this.#leaseMs = leaseMs;
  }

  add(lock: Removable, ownerId: string, leftMs: number = this.#leaseMs): void {
    if (leftMs <= 0) return;
    this.#newest[this.#next] = { lock, ownerId, endsAtMs: this.#clock.nowMs() + leftMs };
    this.#next = (this.#next + 1) % MOST;
  }

  /** The owners that a server may still have if it missed their release. */
  get unexpired(): readonly Released[] {
    const nowMs = this.#clock.nowMs();
    return this.#newest.filter(({ endsAtMs }) => endsAtMs > nowMs);
  }
}
