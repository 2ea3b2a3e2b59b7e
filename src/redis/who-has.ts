// Who has a key, and which server that is.

import type { RedisClient, Sender } from './driver.js';
import { isReply, failureKind, UnsentError } from './failure.js';
import { hashTag } from './keys.js';
import type { Link } from './link.js';
import { parseServerInfo } from './server-info.js';
import { slotOf } from './slots.js';

/** The one server, or the node of a cluster that has the key as far as is known; undefined: there is no connection to it. */
export function whoHas(key: string, client: RedisClient): Sender | undefined {
  const { cluster } = client;
  if (!cluster) return client;
  const address = cluster.masterOf(slotOf(hashTag(key)));
  return address === undefined ? undefined : cluster.node(address);
}

/** The run id of the node of a cluster that has the key; undefined: it does not say. */
export async function runIdOfNode(key: string, link: Link): Promise<string | undefined> {
  const node = whoHas(key, link.client);
  if (!node) throw new UnsentError(`no connection to the node that has "${key}"`);
  try {
    const info = await link.ask('info', ['server'], String, undefined, node);
    return parseServerInfo(info).runId;
  } catch (error) {
    if (!isReply(error) || failureKind(error) === 'transient') throw error;
    return undefined; // it may not be asked
  }
}
