// The keys and channels of a lock on the server; lua/README.md is their data model.

import { tagForSlotOf } from './slots.js';

/** The names of all that one lock has on the server. Those that an uncontended lock does not need are made when they are asked for. */
export class LockKeys {
  /** The hash that is the lock: owner -> hold count. */
  readonly lock: string;
  #forced: string | undefined;
  #line: string | undefined;
  #places: string | undefined;
  #longestLease: string | undefined;
  #leases: string | undefined;
  #permits: string | undefined;
  #forcedOwners: string | undefined;

  constructor(lock: string) {
    this.lock = lock;
  }

  /** The channel on which its releases are published, the same as Redisson's. */
  get channel(): string {
    return besides('redisson_lock__channel', this.lock);
  }

  /** The owner that was forced out of it, for as long as that owner's lease would have run. */
  get forced(): string {
    return (this.#forced ??= inSlotOf(this.lock, 'holdfast_forced'));
  }

  /** The line for it, if it is a fair lock: owner -> ticket. */
  get line(): string {
    return (this.#line ??= inSlotOf(this.lock, 'holdfast_line'));
  }

  /** The places in that line: owner -> what is known of it. */
  get places(): string {
    return (this.#places ??= inSlotOf(this.lock, 'holdfast_places'));
  }

  /** When the leases of its holders end, if it is a weighted lock: holder -> expiry. */
  get leases(): string {
    return (this.#leases ??= inSlotOf(this.lock, 'holdfast_leases'));
  }

  /** The capacity that was set, if it is a weighted lock, above what is declared. */
  get permits(): string {
    return (this.#permits ??= inSlotOf(this.lock, 'holdfast_permits'));
  }

  /** The owners that were forced out of it, if it is a read-write lock, for as long as their leases would have run: owner -> 1. */
  get forcedOwners(): string {
    return (this.#forcedOwners ??= inSlotOf(this.lock, 'holdfast_forced_owners'));
  }

  /** The longest lease that a master was asked for, if it is one of those of a Redlock. */
  get longestLease(): string {
    return (this.#longestLease ??= inSlotOf(this.lock, 'holdfast_longest_lease'));
  }

  /**
   * The last fencing token that was given out. The key is Redisson's, but for names with odd braces in a cluster: there Redisson's key is
   * in another slot, so that no script can take it beside the lock, and Redisson has no such lock.
   */
  counter(isCluster: boolean): string {
    const prefix = 'redisson_lock_token';
    return isCluster && !sharesSlot(this.lock)
      ? inSlotOf(this.lock, prefix)
      : besides(prefix, this.lock);
  }

  /** How the names of the channels begin on which clients hear that the lock was handed to them. */
  get grants(): string {
    const prefix = 'holdfast_grants';
    // As with keys, no two names have the same. For a name that brings its hash tag, the second colon stands at the end: a user whom the
    // README's rules permit `holdfast_grants:app:*` could not use `holdfast_grants::app:{x}`.
    return hasTag(this.lock) ? `${prefix}:${this.lock}::` : `${inSlotOf(this.lock, prefix)}:`;
  }

  /** Whether channel and key are in one cluster slot, so that sharded pub/sub can carry it. */
  get isShardable(): boolean {
    return sharesSlot(this.lock);
  }
}

/** A name by Redisson's rule: braces put it into the lock's slot, unless the lock's name has braces of its own. */
function besides(prefix: string, name: string): string {
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

/**
 * Whether `prefix:{name}` (or `prefix:name`) hashes to the slot of `name`. Redis hashes what stands between the first
 * `{` and the first `}` after it, or the whole key where that is empty or missing; names like `a}b` or `a{}b` differ.
 */
function sharesSlot(name: string): boolean {
  return name.includes('{') ? /^[^{]*\{[^}]+\}/.test(name) : !name.includes('}');
}

/** Whether the name brings a hash tag of its own. */
function hasTag(name: string): boolean {
  return name.includes('{') && sharesSlot(name);
}

/** What decides the cluster slot of a key: keys with the same hash tag are in the same slot. */
export function hashTag(key: string): string {
  return /^[^{]*\{([^}]+)\}/.exec(key)?.[1] ?? key;
}
