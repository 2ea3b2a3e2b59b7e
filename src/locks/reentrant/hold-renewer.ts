// How the locks that a client holds on one Redis are renewed: many in one call.

import type { KeepReply } from '../../core/replies.js';
import { sendRenewal } from '../../core/send-renewal.js';
import type { TimeLimit } from '../../runtime/clock.js';
import type { RedisClient } from '../../redis/client.js';
import { hashTag, type LockKeys } from '../../redis/keys.js';
import { scripts } from '../../redis/scripts.generated.js';
import type { Renewer, Watched } from '../../core/renewal.js';

export class HoldRenewer implements Renewer<LockKeys> {
  readonly kind = 'hold';
  readonly #connection: RedisClient;

  constructor(connection: RedisClient) {
    this.#connection = connection;
  }

  batchKey({ lock }: LockKeys): string {
    return this.#connection.isSlotted ? hashTag(lock) : '';
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
   * Renews many locks in one call, each for its owner. An answer is undefined where the lock is kept, but not acknowledged by as many
   * replicas as must know.
   *
   * @param limit - how long replicas may take to acknowledge it, besides `commandTimeout`
   */
  send(
    locks: readonly LockKeys[],
    ownerIds: readonly string[],
    leaseMs: number,
    limit?: TimeLimit,
  ): Promise<readonly (KeepReply | undefined)[]> {
    const keys: string[] = [];
    for (const { lock, forced } of locks) keys.push(lock, forced);
    return sendRenewal(this.#connection, scripts.renew, keys, ownerIds, leaseMs, limit);
  }
}
