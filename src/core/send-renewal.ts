// One script call that renews many leases; with `replicas`, it counts only when so many of them have acknowledged it.

import type { RedisClient } from '../redis/client.js';
import type { Script } from '../redis/scripts.generated.js';
import type { TimeLimit } from '../runtime/clock.js';
import { isKept, type KeepReply } from './replies.js';

/**
 * A `leaseMs` of 0 only looks. The answers are in the order of `ownerIds`; undefined: kept, but too few replicas acknowledged it.
 *
 * @param limit - how long replicas may take to acknowledge it, besides `commandTimeout`
 */
export async function sendRenewal(
  connection: RedisClient,
  script: Script,
  keys: readonly string[],
  ownerIds: readonly string[],
  leaseMs: number,
  limit: TimeLimit = { leftMs: leaseMs / 3 },
): Promise<readonly (KeepReply | undefined)[]> {
  const args = [leaseMs, ...ownerIds];
  let replies: readonly KeepReply[] | undefined;
  const read = (reply: unknown): readonly KeepReply[] =>
    (replies = reply === 'kept' ? ownerIds.map(() => 'kept') : (reply as KeepReply[]));
  if (leaseMs === 0) return await connection.run(script, keys, args, read);
  try {
    const areKept = (all: readonly KeepReply[]): boolean => all.some(isKept);
    return await connection.runReplicated(script, keys, args, read, areKept, limit);
  } catch (error) {
    // What is lost is lost, whatever the replicas know.
    if (replies?.every(isKept) ?? true) throw error;
    return replies?.map((reply) => (isKept(reply) ? undefined : reply)) ?? [];
  }
}
