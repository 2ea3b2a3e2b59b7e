// The keys and channels of a lock on the server; lua/README.md is their data model.

/** The names of one lock's keys and channels. Each is made on first use: an uncontended lock needs few. */
export class LockKeys {
  /** The hash that is the lock: owner -> hold count. */
  readonly lock: string;

  constructor(lock: string) {
    this.lock = lock;
  }

  /** The channel on which its releases are published, the same as Redisson's. */
  get channel(): string {
    return besides(this.lock, 'redisson_lock__channel');
  }

  /** The owner that was forced out, for as long as that owner's lease would have run. */
  get forced(): string {
    return inSlotOf(this.lock, 'holdfast_forced');
  }

  /** The queue, if it is a fair lock: owner -> ticket. */
  get line(): string {
    return inSlotOf(this.lock, 'holdfast_line');
  }

  /** The places in that queue: owner -> its lease and how to reach its client. */
  get places(): string {
    return inSlotOf(this.lock, 'holdfast_places');
  }

  /** The ends of the holders' leases, if it is a weighted lock: holder -> expiry. */
  get leases(): string {
    return inSlotOf(this.lock, 'holdfast_leases');
  }

  /** The capacity that `setPermits()` set, if it is a weighted lock; it overrides the declared one. */
  get permits(): string {
    return inSlotOf(this.lock, 'holdfast_permits');
  }

  /** The owners that were forced out, if it is a read-write lock, for as long as their leases would have run: owner -> 1. */
  get forcedOwners(): string {
    return inSlotOf(this.lock, 'holdfast_forced_owners');
  }

  /** The longest lease that a master of a Redlock was asked for. */
  get longestLease(): string {
    return inSlotOf(this.lock, 'holdfast_longest_lease');
  }

  /**
   * The last fencing token that was given out. The key is Redisson's, except for names with odd braces in a cluster: there Redisson's key
   * is in another slot than the lock, so no script can use both, and Redisson has no such lock.
   */
  counter(isCluster: boolean): string {
    const nameFor = isCluster && !this.isShardable ? inSlotOf : besides;
    return nameFor(this.lock, 'redisson_lock_token');
  }

  /** The beginning of the names of the channels on which clients hear that the lock was handed to them. */
  get grants(): string {
    // As with keys, no two lock names share one. For a name with its own hash tag, the second colon stands at the end: a user with the
    // ACL rule `holdfast_grants:app:*` could not use `holdfast_grants::app:{x}`.
    const { lock } = this;
    return hasTag(lock) ? `holdfast_grants:${lock}::` : `${inSlotOf(lock, 'holdfast_grants')}:`;
  }

  /** Whether channel and key are in one cluster slot, so that sharded pub/sub can carry it: not for names like `a}b` or `a{}b`. */
  get isShardable(): boolean {
    return hasTag(this.lock) || !/[{}]/.test(this.lock);
  }
}

/** A key name by Redisson's rule: braces put it into the lock's slot, unless the lock's name has braces of its own. */
function besides(name: string, prefix: string): string {
  return name.includes('{') ? `${prefix}:${name}` : `${prefix}:{${name}}`;
}

/**
 * A key that is in the lock's slot whatever the lock's name, since scripts take both; a name with odd braces may be hashed as a whole. No
 * two locks share a key, not even `x` and `{x}`, which Redisson's rule does not tell apart.
 */
function inSlotOf(name: string, prefix: string): string {
  if (hasTag(name)) return `${prefix}::${name}`;
  return name.includes('}') ? `${prefix}:{${tagForSlotOf(name)}}:${name}` : `${prefix}:{${name}}`;
}

/** Whether the name brings a hash tag of its own. */
function hasTag(name: string): boolean {
  return name.includes('{') && hashTag(name) !== name;
}

/**
 * The part of a key that decides its cluster slot: the text between its first `{` and the first `}` after it; the whole key if that is
 * empty or missing.
 */
export function hashTag(key: string): string {
  return /^[^{]*\{([^}]+)\}/.exec(key)?.[1] ?? key;
}

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

/** By slot, the smallest number that is hashed to it, among the numbers tried so far. */
const tags: (string | undefined)[] = [];
let nextNumber = 0;

/**
 * A hash tag that puts other keys into the slot of `key`, which is hashed as a whole: the smallest number that is hashed to that slot, so
 * that all clients find the same. Each number is tried once for all keys: some thousand such names must not block the event loop.
 */
function tagForSlotOf(key: string): string {
  return tagOf(slotOf(key));
}

/** The smallest number that is hashed to a slot. */
export function tagOf(slot: number): string {
  while (tags[slot] === undefined) {
    const number = String(nextNumber++);
    tags[slotOf(number)] ??= number;
  }
  return tags[slot];
}

/** Which master has which slot; a master is named by the address at which we reach it. */
export interface SlotMap {
  /** By slot; undefined: no master is known to have it. */
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
  // A node that was restarted empty knows no slots: that says nothing about the cluster.
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
    throw new Error(
      'the nodes of the cluster do not tell their addresses (cluster-preferred-endpoint-type unknown-endpoint)',
    );
  return { masterBySlot, masters: [...masters] };
}
