// How what a client holds of weighted locks on one Redis is renewed: many in one call.

import type { KeepReply } from '../../core/replies.js';
import { sendRenewal } from '../../core/send-renewal.js';
import type { Renewer, Watched } from '../../core/renewal.js';
import type { RedisClient } from '../../redis/client.js';
import { hashTag, type LockKeys } from '../../redis/keys.js';
import { scripts } from '../../redis/scripts.generated.js';

export class WeightedRenewer implements Renewer<LockKeys> {
  readonly kind = 'weighted hold';
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
    const keys = batch.flatMap(({ target: { lock, leases, forcedOwners } }) => [
      lock,
      leases,
      forcedOwners,
    ]);
    const ownerIds = batch.map(({ lease }) => lease.ownerId);
    return sendRenewal(this.#connection, scripts.weightedRenew, keys, ownerIds, leaseMs);
  }
}
