// How the read-write locks that a client holds on one Redis are renewed: as all weighted locks, but those who were forced out are
// told so.

import type { KeepReply } from '../../core/replies.js';
import type { Watched } from '../../core/watchdog.js';
import type { Connection } from '../../redis/connection.js';
import type { LockKeys } from '../../redis/keys.js';
import { WeightedRenewer } from '../shared/weighted-renewer.js';

export class ReadWriteRenewer extends WeightedRenewer {
  override readonly kind: string = 'read-write hold';
  readonly #connection: Connection;

  constructor(connection: Connection) {
    super(connection);
    this.#connection = connection;
  }

  override async renew(
    batch: readonly Watched<LockKeys>[],
    leaseMs: number,
  ): Promise<readonly (KeepReply | undefined)[]> {
    const replies = await super.renew(batch, leaseMs);
    return await Promise.all(
      batch.map(async ({ lease, target }, index) => {
        const reply = replies[index];
        return reply === 'deleted' ? await this.wordFor(target, lease.ownerId) : reply;
      }),
    );
  }

  /** Why this owner is no holder any more: whoever forced it out left word, which is for this owner alone. */
  async wordFor({ forcedOwners }: LockKeys, ownerId: string): Promise<KeepReply> {
    try {
      const removed = await this.#connection.command('hdel', forcedOwners, ownerId);
      return removed === 1 ? 'forced' : 'deleted';
    } catch {
      return 'deleted'; // that it is gone is known, whatever becomes of the word
    }
  }
}
