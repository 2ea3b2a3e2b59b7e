// The keys and channels of a lock on the server; lua/README.md is their data model.

import { tagForSlotOf } from './slots.js';

/** All that one lock has on the server. What an uncontended lock does not need is made when it is. */
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

  /** Where its releases are published: the channel that Redisson uses too. */
  get channel(): string {
    return besides('redisson_lock__channel', this.lock);
  }

  /** Who was forced out of it, while that owner's lease would still have run. */
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

  /** Who was forced out of it, if it is a read-write lock, while those owners' leases would still have run: owner -> 1. */
  get forcedOwners(): string {
    return (this.#forcedOwners ??= inSlotOf(this.lock, 'holdfast_forced_owners'));
  }

  /** The longest lease that was asked of a master, if it is a Redlock. */
  get longestLease(): string {
    return (this.#longestLease ??= inSlotOf(this.lock, 'holdfast_longest_lease'));
  }

  /**
   * The last fencing token that was given out. It is Redisson's, but for names with odd braces in a cluster: there Redisson has it in
   * another slot, and no such lock.
   */
  counter(isCluster: boolean): string {
    const prefix = 'redisson_lock_token';
    return isCluster && !sharesSlot(this.lock)
      ? inSlotOf(this.lock, prefix)
      : besides(prefix, this.lock);
  }

  /** What the names of the channels begin with where clients hear that it was handed to them. */
  get grants(): string {
    const prefix = 'holdfast_grants';
    // As with the keys, no other name's: the colons of one that brings its hash tag stand where a user's permissions do not count them.
    return hasTag(this.lock) ? `${prefix}:${this.lock}::` : `${inSlotOf(this.lock, prefix)}:`;
  }

  /** Whether channel and key are in one cluster slot, so that sharded pub/sub can carry it. */
  get isShardable(): boolean {
    return sharesSlot(this.lock);
  }
}

/** Redisson's rule: braces put the key into the lock's slot, unless the name brings its own. */
function besides(prefix: string, name: string): string {
  return name.includes('{') ? `${prefix}:${name}` : `${prefix}:{${name}}`;
}

/**
 * Scripts take both keys, so they must be in one slot whatever the name: odd braces may hash it as a whole. No two names have the same
 * key, not even `x` and `{x}`, which Redisson's rule does not tell apart.
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
