// Removes owners that may still hold a lock, or a place in line, though nobody wants them any more: those of an acquisition whose
// answer never came, or of a release that did not get through. That is tried until the server does it, or refuses for good.

import { type Clock, PROCESS_CLOCK, type Timer } from '../runtime/clock.js';
import { QuorumError } from '../api/errors.js';
import { failureKind } from '../redis/failure.js';
import type { WaitLimit } from '../runtime/wait-limit.js';
import type { Removable } from './protocol.js';
import { Undecided } from './retry.js';

/** How soon a removal that stayed unanswered, or was refused for now, is tried again. */
const RETRY_MS = 1_000;

/** The same delay while the client is closing, when less time than RETRY_MS may be left. */
const CLOSING_RETRY_MS = 50;

/** How many owners are remembered at most; beyond that the oldest is left to end with its lease. */
const MAX_LEFTOVERS = 10_000;

interface Leftover {
  readonly lock: Removable;
  readonly ownerId: string;
}

export class Cleanup {
  /** The owners that were released last; undefined: no other server takes over that may have missed their releases. */
  readonly released: ReleasedOwners | undefined;
  readonly #clock: Clock;
  readonly #isConnected: () => boolean;
  readonly #owners = new Map<string, Leftover>();
  readonly #underWay = new Set<Promise<unknown>>();
  #timer: Timer | undefined;
  #state: 'open' | 'closing' | 'closed' = 'open';
  /** Called when nothing is left and nothing is under way. */
  #onEmpty: () => void = () => undefined;

  /** `isConnected`: there is a connection, though none perhaps to one node of a cluster; nobody calls `tryAgain` when that comes back. */
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
   * Removes an owner: now if the server can be reached, else as soon as it can.
   *
   * @param isLeft - of a command that is on its way and may still acquire the lock for this owner: whether it left anything
   */
  remove(lock: Removable, ownerId: string, isLeft?: Promise<boolean>): void {
    const [oldest] = this.#owners.keys();
    if (this.#owners.size >= MAX_LEFTOVERS && oldest !== undefined) this.#owners.delete(oldest);
    const id = `${ownerId} ${lock.id}`;
    const leftover = { lock, ownerId };
    this.#owners.set(id, leftover);
    this.#try(id, leftover);
    if (!isLeft) return;
    this.removeAfter(isLeft, () => {
      this.remove(lock, ownerId);
    });
  }

  /**
   * Calls `remove` when a command has left something, or stayed unanswered. The removal that was sent before may have overtaken it where a
   * slot is moving, or where replicas are asked by another connection.
   */
  removeAfter(isLeft: Promise<boolean>, remove: () => void): void {
    const removal = isLeft.then(
      (hasLeft) => {
        if (hasLeft) remove();
      },
      (error: unknown) => {
        if (failureKind(error) === 'unanswered') remove();
      },
    );
    this.expect(removal);
  }

  /** Tries again everything that is left: the connection is back, or a while went by. */
  readonly tryAgain = (): void => {
    this.#clock.clearTimer(this.#timer);
    this.#timer = undefined;
    for (const [id, leftover] of [...this.#owners]) this.#try(id, leftover);
  };

  /** There is a new connection, perhaps to another server: what is left there is removed, and what was released elsewhere is again. */
  readonly connected = (isAnother: boolean): void => {
    this.tryAgain();
    if (!isAnother) return;
    for (const { lock, ownerId } of this.released?.unexpired ?? []) this.remove(lock, ownerId);
  };

  /** Has `close()` wait for an outcome that may leave an owner to be removed, or may still need the connection. */
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
   * Goes on until nothing is left, or the limit is reached: a connection that is being made anew may come back in time.
   * Nothing is tried again after that.
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

  get #isEmpty(): boolean {
    return this.#owners.size === 0 && this.#underWay.size === 0;
  }

  #try(id: string, leftover: Leftover): void {
    // A removal that was asked for since, of the same owner, has yet to be answered itself.
    const forget = (): void => {
      if (this.#owners.get(id) === leftover) this.#owners.delete(id);
    };
    const removal = leftover.lock.release(leftover.ownerId).then(forget, (error: unknown) => {
      const kind = failureKind(error);
      // What could not be removed on one master of a Redlock, the client of that master remembers.
      const isLeftToMasters = error instanceof Undecided || error instanceof QuorumError;
      const isUnsent = kind === 'unsent';
      const isForNow =
        kind === 'unanswered' || kind === 'transient' || (isUnsent && this.#isConnected());
      const mayHelp = !isLeftToMasters && isForNow;
      // Without a connection there is nothing to do until it is back. One who is refused for good cannot remove anything.
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

// The owners that were released last. Where Sentinels name the master, a replica that takes over may have missed their releases, and would
// keep their locks until the leases end.

/** How many are remembered at most; of more than that, only the newest. */
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

  /** `leaseMs`: the lease of an owner of which no other is known. */
  constructor(clock: Clock, leaseMs: number) {
    this.#clock = clock;
    this.#leaseMs = leaseMs;
  }

  add(lock: Removable, ownerId: string, leftMs: number = this.#leaseMs): void {
    this.#newest[this.#next] = { lock, ownerId, endsAtMs: this.#clock.nowMs() + leftMs };
    this.#next = (this.#next + 1) % MOST;
  }

  /** Those that a server may still have if it missed their release. */
  get unexpired(): readonly Released[] {
    const nowMs = this.#clock.nowMs();
    return this.#newest.filter(({ endsAtMs }) => endsAtMs > nowMs);
  }
}
