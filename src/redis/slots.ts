// The slots of a cluster (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/), and hash tags for given slots.

import { replyError } from './failure.js';

export const SLOT_COUNT = 16_384;

/** The slot of a key that is hashed as a whole: CRC16 (XMODEM) of its bytes. */
export function slotOf(text: string): number {
  let crc = 0;
  for (const byte of Buffer.from(text)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++)
      crc = (crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1) & 0xffff;
  }
  return crc % SLOT_COUNT;
}

/** By slot, the smallest number that is hashed to it, as far as numbers were tried. */
const tags: (string | undefined)[] = [];
let nextNumber = 0;

/**
 * A hash tag that puts other keys into the slot of `key`, which is hashed as a whole: the smallest number that is hashed to that slot, so
 * that all clients find the same. Each number is tried once for all keys: some thousand such names must not block the event loop.
 */
export function tagForSlotOf(key: string): string {
  const slot = slotOf(key);
  while (tags[slot] === undefined) {
    const number = String(nextNumber++);
    tags[slotOf(number)] ??= number;
  }
  return tags[slot];
}

/** Which master has which slot, each named by the address at which we reach it. */
export interface SlotMap {
  /** By slot; undefined: nobody is known to have it. */
  readonly masterBySlot: readonly (string | undefined)[];
  readonly masters: readonly string[];
}

/**
 * Reads the answer to CLUSTER SLOTS.
 *
 * @param reachedAt - the address at which we reach the node that the answer calls by this one
 * @throws Error the answer names no node that has slots
 */
export function readSlots(reply: unknown, reachedAt: (announced: string) => string): SlotMap {
  // A node that was restarted with nothing knows of no slots: that is no news of the cluster.
  if (!Array.isArray(reply) || reply.length === 0)
    throw new Error('the cluster is not up (cluster_state): the node knows of no slots');
  const masterBySlot: (string | undefined)[] = new Array<undefined>(SLOT_COUNT);
  const masters = new Set<string>();
  for (const [first, last, [host, port]] of reply as [number, number, [string | null, number]][]) {
    if (host === null || host === '?') continue; // (an empty host is "the one that you have asked")
    const address = reachedAt(`${host}:${String(port)}`);
    masters.add(address);
    masterBySlot.fill(address, first, last + 1);
  }
  if (masters.size === 0)
    throw replyError(
      'the nodes of the cluster do not tell their addresses (cluster-preferred-endpoint-type unknown-endpoint)',
    );
  return { masterBySlot, masters: [...masters] };
}
