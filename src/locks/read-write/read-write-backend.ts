// One half of a read-write lock on one Redis: a weighted lock, of which a reader has one permit and a writer has all.

import { KeyConflictError } from '../../api/errors.js';
import type { KeepReply } from '../../core/replies.js';
import type { Server } from '../../core/server.js';
import { scripts } from '../../redis/scripts.generated.js';
import type { TimeLimit } from '../../runtime/clock.js';
import { WeightedBackend } from '../shared/weighted-backend.js';
import type { HalfBackend } from './half-lock.js';

/** More permits than any semaphore may have: by this number the scripts tell a read-write lock from a semaphore. */
const ALL_PERMITS = 2 ** 31;

/** Which half it is. */
export type Half = 'read' | 'write';

export class ReadWriteBackend extends WeightedBackend implements HalfBackend {
  readonly kind: string;
  override readonly isShared: boolean;
  override readonly isReentrant = true;

  constructor(server: Server, newOwnerId: () => string, name: string, half: Half) {
    super(server, newOwnerId, {
      name,
      expected: 'a read-write lock',
      capacity: ALL_PERMITS,
      weight: half === 'read' ? 1 : ALL_PERMITS,
      refused: () =>
        new KeyConflictError(`lock "${name}" is no read-write lock`, { lockName: name }),
    });
    this.kind = half === 'read' ? 'ReadLock' : 'WriteLock';
    this.isShared = half === 'read';
  }

  /**
   * The server keeps no hold count. That all holds of this owner only read from now on is told without a lease (`leaseMs` 0) and lowers its
   * weight to a reader's; a call that prolongs the lease changes no weight.
   */
  override async reenter(
    ownerId: string,
    holdCount: number,
    leaseMs: number,
    limit?: TimeLimit,
    isShared = false,
  ): Promise<KeepReply> {
    const reply =
      isShared && leaseMs === 0
        ? await this.lower(ownerId, 1, limit)
        : await super.reenter(ownerId, holdCount, leaseMs, limit);
    return await this.#explained(ownerId, reply);
  }

  override async confirm(ownerId: string, leaseMs: number): Promise<KeepReply> {
    return await this.#explained(ownerId, await super.confirm(ownerId, leaseMs));
  }

  async isLocked(): Promise<boolean> {
    return (await this.remainTimeToLive()) > 0;
  }

  async remainTimeToLive(): Promise<number> {
    const { lock, leases } = this.keys;
    const { connection } = this.server;
    const last = await connection.run(scripts.weightedLast, [lock, leases], [], (reply) => {
      const [weight, endsInMs] = (reply as [string, number] | null) ?? [];
      return { isRead: Number(weight) < ALL_PERMITS, endsInMs };
    });
    return last.isRead === this.isShared ? (last.endsInMs ?? -2) : -2;
  }

  async forceUnlock(wordMs: number): Promise<string | undefined> {
    const [owner] = await this.forceUnlockAll(wordMs);
    return owner;
  }

  async forceUnlockAll(wordMs: number): Promise<readonly string[]> {
    const { lock, leases, line, forcedOwners } = this.keys;
    const [least, most] = this.isShared ? [1, ALL_PERMITS - 1] : [ALL_PERMITS, ALL_PERMITS];
    const forced = await this.server.connection.run(
      scripts.weightedForce,
      [lock, leases, line, forcedOwners],
      [least, most, wordMs],
      (reply) => reply as string[],
    );
    // Not before that is answered: a server that does not know the script that forces is sent it again, behind whatever else was sent.
    // If this fails, the next renewal of a place lets in the next in line.
    this.handOn().catch(() => undefined);
    return forced;
  }

  /** Why this owner is no holder any more: whoever forced it out left word, which is for this owner alone. */
  async #explained(ownerId: string, reply: KeepReply): Promise<KeepReply> {
    if (reply !== 'deleted') return reply;
    try {
      const { forcedOwners } = this.keys;
      const removed = await this.server.connection.command('hdel', forcedOwners, ownerId);
      return removed === 1 ? 'forced' : 'deleted';
    } catch {
      return 'deleted'; // that it is gone is known, whatever becomes of the word
    }
  }
}
