// The slots of a cluster (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/), and hash tags for given slots.

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

/** The smallest number that is hashed to each slot, as far as numbers were tried. */
const tags = new Map<number, string>();
let nextNumber = 0;

/**
 * A hash tag that puts other keys into the slot of `key`, which is hashed as a whole: the smallest number that is hashed to that slot, so
 * that all clients find the same. Each number is tried once for all keys: some thousand such names must not block the event loop.
 */
export function tagForSlotOf(key: string): string {
  const slot = slotOf(key);
  for (;;) {
    const tag = tags.get(slot);
    if (tag !== undefined) return tag;
    const number = String(nextNumber++);
    const slotOfNumber = slotOf(number);
    if (!tags.has(slotOfNumber)) tags.set(slotOfNumber, number);
  }
}
