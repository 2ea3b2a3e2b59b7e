// The keys and channels of a lock on the server; lua/README.md is their data model.

import { tagForSlotOf } from './slots.js';

/** The names of all that one lock has on the server. They are made when they are asked for: an uncontended lock needs few. */
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

  /** The owner that was forced out of it, for as long as that owner's lease would have run. */
  get forced(): string {
    return inSlotOf(this.lock, 'holdfast_forced');
  }

  /** The line for it, if it is a fair lock: owner -> ticket. */
  get line(): string {
    return inSlotOf(this.lock, 'holdfast_line');
  }

  /** The places in that line: owner -> what is known of it. */
  get places(): string {
    return inSlotOf(this.lock, 'holdfast_places');
  }

  /** When the leases of its holders end, if it is a weighted lock: holder -> expiry. */
  get leases(): string {
    return inSlotOf(this.lock, 'holdfast_leases');
  }

  /** The capacity that was set, if it is a weighted lock, above what is declared. */
  get permits(): string {
    return inSlotOf(this.lock, 'holdfast_permits');
  }

  /** The owners that were forced out of it, if it is a read-write lock, for as long as their leases would have run: owner -> 1. */
  get forcedOwners(): string {
    return inSlotOf(this.lock, 'holdfast_forced_owners');
  }

  /** The longest lease that a master was asked for, if it is one of those of a Redlock. */
  get longestLease(): string {
    return inSlotOf(this.lock, 'holdfast_longest_lease');
  }

  /**
   * The last fencing token that was given out. The key is Redisson's, but for names with odd braces in a cluster: there Redisson's key is
   * in another slot, so that no script can take it beside the lock, and Redisson has no such lock.
   */
  counter(isCluster: boolean): string {
    const nameFor = isCluster && !this.isShardable ? inSlotOf : besides;
    return nameFor(this.lock, 'redisson_lock_token');
  }

  /** How the names of the channels begin on which clients hear that the lock was handed to them. */
  get grants(): string {
    // As with keys, no two names have the same. For a name that brings its hash tag, the second colon stands at the end: a user whom the
    // README's rules permit `holdfast_grants:app:*` could not use `holdfast_grants::app:{x}`.
    const { lock } = this;
    return hasTag(lock) ? `holdfast_grants:${lock}::` : `${inSlotOf(lock, 'holdfast_grants')}:`;
  }

  /** Whether channel and key are in one cluster slot, so that sharded pub/sub can carry it: not for names like `a}b` or `a{}b`. */
  get isShardable(): boolean {
    return hasTag(this.lock) || !/[{}]/.test(this.lock);
  }
}

/** A name by Redisson's rule: braces put it into the lock's slot, unless the lock's name has braces of its own. */
function besides(name: string, prefix: string): string {
  return name.includes('{') ? `${prefix}:${name}` : `${prefix}:{${name}}`;
}

/**
 * A key that is in the lock's slot whatever the lock's name, since scripts take both: a name with odd braces may be hashed as a whole. No
 * two locks have the same key, not even `x` and `{x}`, which Redisson's rule does not tell apart.
 */
function inSlotOf(name: string, prefix: string): string {
  if (hasTag(name)) return `${prefix}::${name}`;
  return name.includes('}') ? `${prefix}:{${tagForSlotOf(name)}}:${name}` : `${prefix}:{${name}}`;
}

/** Whether the name brings a hash tag of its own. */
function hasTag(name: string): boolean {
  return name.includes('{') && hashTag(name) !== name;
}

/** What decides the cluster slot of a key: what stands between its first `{` and the first `}` after it, or the whole key where that is empty or missing. */
export function hashTag(key: string): string {
  return /^[^{]*\{([^}]+)\}/.exec(key)?.[1] ?? key;
}
