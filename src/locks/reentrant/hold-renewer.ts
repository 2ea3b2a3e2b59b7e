// How the locks that a client holds on one Redis are renewed: many in one call.

import { isKept, type KeepReply } from '../../core/replies.js';
import type { TimeLimit } from '../../runtime/clock.js';
import type { Connection } from '../../redis/connection.js';
import { hashTag, type LockKeys } from '../../redis/keys.js';
import { scripts } from '../../redis/scripts.generated.js';
import type { Renewer, Watched } from '../../core/watchdog.js';

export class HoldRenewer implements Renewer<LockKeys> {
  readonly kind = 'hold';
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  batchKey({ lock }: LockKeys): string {
    return this.#connection.isCluster ? hashTag(lock) : '';
  }

  renew(
    batch: readonly Watched<LockKeys>[],
    leaseMs: number,
  ): Promise<readonly (KeepReply | undefined)[]> {
    const locks = batch.map(({ target }) => target);
    const ownerIds = batch.map(({ lease }) => lease.ownerId);
    return this.send(locks, ownerIds, leaseMs);
  }

  /**
   * One call for many locks, each with its owner; undefined: kept, but not by as many replicas as must know.
   *
   * @param limit - how long replicas may take to acknowledge it, besides `commandTimeout`
   */
  async send(
    locks: readonly LockKeys[],
    ownerIds: readonly string[],
    leaseMs: number,
    limit: TimeLimit = { leftMs: leaseMs / 3 },
  ): Promise<readonly (KeepReply | undefined)[]> {
    const keys = locks.flatMap(({ lock, forced }) => [lock, forced]);
    const args = [leaseMs, ...ownerIds];
    let replies: readonly KeepReply[] | undefined;
    const read = (reply: unknown): readonly KeepReply[] => (replies = reply as KeepReply[]);
    if (leaseMs === 0) return await this.#connection.run(scripts.renew, keys, args, read);
    try {
      const areKept = (all: readonly KeepReply[]): boolean => all.some(isKept);
      return await this.#connection.runReplicated(scripts.renew, keys, args, read, areKept, limit);
    } catch (error) {
      // What is lost is lost, whatever the replicas know.
      if (replies?.every(isKept) ?? true) throw error;
      return replies?.map((reply) => (isKept(reply) ? undefined : reply)) ?? [];
    }
  }
}
