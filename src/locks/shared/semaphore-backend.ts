// A semaphore on one Redis, for one who wants so many of its permits: a weighted lock whose capacity can be changed.

import type { KeyInTheWay } from '../../core/key-conflict.js';
import type { Server } from '../../core/server.js';
import { scripts } from '../../redis/scripts.generated.js';
import type { TimeLimit } from '../../runtime/clock.js';
import { refusedPermits } from './semaphore-settings.js';
import { PERMITS_TTL_MS, WeightedBackend } from './weighted-backend.js';

export class SemaphoreBackend extends WeightedBackend {
  /** `declared`: how many permits this client says there are. */
  constructor(
    server: Server,
    newOwnerId: () => string,
    name: string,
    declared: number,
    weight: number,
  ) {
    super(server, newOwnerId, {
      name,
      expected: 'a semaphore',
      capacity: declared,
      weight,
      refused: (refusal) => refusedPermits(name, declared, weight, refusal),
    });
  }

  /**
   * Sets how many permits there are from now on, whatever anybody declares; those that are free then go to those in line. It must be
   * acknowledged by replicas: a failover would take it back else.
   */
  async setCapacity(capacity: number, limit: TimeLimit): Promise<void> {
    const { lock, permits } = this.keys;
    try {
      await this.server.connection.runReplicated(
        scripts.weightedSetCapacity,
        [lock, permits],
        [capacity, PERMITS_TTL_MS],
        () => undefined,
        () => true,
        limit,
      );
    } finally {
      // Also where too few replicas have acknowledged the number: the master has it. If this fails, whoever waits sees to the line at the
      // next renewal of its place.
      this.handOn().catch(() => undefined);
    }
  }

  override async keyInTheWay(): Promise<KeyInTheWay | undefined> {
    const found = await super.keyInTheWay();
    const { permits: key, lock } = this.keys;
    if (found && found.key !== lock) return found;
    const set = await this.server.connection.command('get', key).catch(() => null);
    if (typeof set !== 'string' || /^\d+$/.test(set)) return found;
    return { key, type: 'string', expected: 'the capacity that was set of a semaphore' };
  }
}
