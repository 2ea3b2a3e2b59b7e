// How the locks that a client holds on one Redis are renewed: many in one call.

import type { KeepReply } from '../backend.js';
import type { Connection } from '../redis/connection.js';
import { hashTag, type LockKeys } from '../redis/keys.js';
import { scripts } from '../redis/scripts.generated.js';
import type { Renewer, Watched } from '../watchdog.js';

export class HoldRenewer implements Renewer<LockKeys> {
  readonly kind = 'hold';
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  batchKey({ lock }: LockKeys): string {
    return this.#connection.isCluster ? hashTag(lock) : '';
  }

  renew(batch: readonly Watched<LockKeys>[], leaseMs: number): Promise<readonly KeepReply[]> {
    const locks = batch.map(({ target }) => target);
    const ownerIds = batch.map(({ lease }) => lease.ownerId);
    return this.send(locks, ownerIds, leaseMs);
  }

  /** One call for many locks, each with its owner. */
  send(
    locks: readonly LockKeys[],
    ownerIds: readonly string[],
    leaseMs: number,
  ): Promise<readonly KeepReply[]> {
    const keys = locks.flatMap(({ lock, forced }) => [lock, forced]);
    const read = (replies: unknown): KeepReply[] => replies as KeepReply[];
    return this.#connection.run(scripts.renew, keys, [leaseMs, ...ownerIds], read);
  }
}
