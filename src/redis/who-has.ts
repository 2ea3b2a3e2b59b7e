// Who has a key.

import type { RedisClient, Sender } from './driver.js';
import { hashTag } from './keys.js';
import { slotOf } from './slots.js';

/** The one server, or the node of a cluster that has the key as far as is known; undefined: there is no connection to it. */
export function whoHas(key: string, client: RedisClient): Sender | undefined {
  const { cluster } = client;
  if (!cluster) return client;
  const address = cluster.masterOf(slotOf(hashTag(key)));
  return address === undefined ? undefined : cluster.node(address);
}
