// A caller who wants a Redlock: each try is an election with an owner of its own, since a failed one is taken back, and
// what takes it back may arrive late.

import type { AcquireReply } from '../../core/replies.js';
import type { Granted, Heir } from '../../core/granted-lock.js';
import type { LockRequest } from '../../core/request.js';
import { now, type Clock } from '../../runtime/clock.js';
import { UnwantedError } from '../../redis/failure.js';
import { LineWaiter } from '../../core/line-waiter.js';
import type { Line } from '../../waiting/line.js';
import type { Health } from './health.js';
import { assertDistinct, type Master } from './master.js';
import { NoQuorum } from './no-quorum.js';
import { repairOn } from './red-renewer.js';
import type { Election, Vote } from './vote.js';

/** A Redlock, as whoever waits for it knows it. */
interface ElectingLock {
  readonly clock: Clock;
  readonly name: string;
  readonly masters: readonly Master[];
  readonly quorum: number;
  readonly health: Health;
  /** The line in which those of this client wait for it. */
  line(): Line<Heir>;
  elect(ownerId: string, leaseMs: number, won: Election['won']): Promise<Vote>;
}

export class RedWaiter extends LineWaiter {
  readonly #lock: ElectingLock;
  readonly #newOwnerId: () => string;
  #ownerId: string;
  #isOwnerUsed = false;
  #hasLeft = false;
  /** The masters that the election which was won did not reach. */
  #unreached: readonly Master[] = [];

  constructor(lock: ElectingLock, newOwnerId: () => string, request: LockRequest) {
    super(request, () => lock.line());
    this.#lock = lock;
    this.#newOwnerId = newOwnerId;
    this.#ownerId = newOwnerId();
  }

  get ownerId(): string {
    return this.#ownerId;
  }

  override leave(leaseMs?: number): boolean {
    this.#hasLeft = true;
    return super.leave(leaseMs);
  }

  /**
   * Asks the masters that the election did not reach, such as one that has been connected since: until they have the owner, the loss of one
   * voter may be that of the lock. (They need not pass the restart guard: the majority that stands keeps everybody else out.)
   */
  won(grant: Granted): void {
    for (const master of this.#unreached)
      if (master.lock.connection.isReady) repairOn(master, grant, 0);
  }

  async try(): Promise<AcquireReply> {
    if (this.#isOwnerUsed) this.#ownerId = this.#newOwnerId();
    this.#isOwnerUsed = true;
    const { health } = this.#lock;
    if (!health.isSettled) await health.whenSettled(() => this.#hasLeft);
    if (this.#hasLeft) throw new UnwantedError();
    assertDistinct(this.#lock.name, this.#lock.masters);
    const sentAt = now(this.#lock.clock); // connecting takes nothing from the lease
    const vote = await this.#lock.elect(this.#ownerId, this.request.leaseMs, (unreached) => {
      this.#unreached = unreached;
    });
    if (vote.outcome === 'acquired') return { ...vote, sentAt };
    if (vote.outcome === 'held') return vote;
    const { name, quorum } = this.#lock;
    const failure = new NoQuorum(name, 'not acquired', quorum, vote.nodes, true);
    throw this.request.waitMs > 0 && !health.isHopeless ? failure : failure.told;
  }
}
