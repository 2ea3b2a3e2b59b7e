// The keys and channels of a lock on the server; lua/README.md is their data model.

/** All that one lock has on the server. */
export interface LockKeys {
  /** The hash that is the lock: owner -> hold count. */
  readonly lock: string;
  /** Who was forced out of it, while that owner's lease would still have run. */
  readonly forced: string;
  /** Where its releases are published: the channel that Redisson uses too. */
  readonly channel: string;
  /** Whether channel and key are in one cluster slot, so that sharded pub/sub can carry it. */
  readonly shardable: boolean;
}

export function lockKeys(name: string): LockKeys {
  return {
    lock: name,
    forced: besides('holdfast_forced', name),
    channel: besides('redisson_lock__channel', name),
    shardable: sharesSlot(name),
  };
}

/** Redisson's rule: braces put the key into the lock's slot, unless the name brings its own. */
function besides(prefix: string, name: string): string {
  return name.includes('{') ? `${prefix}:${name}` : `${prefix}:{${name}}`;
}

/**
 * Whether `prefix:{name}` (or `prefix:name`) hashes to the slot of `name`. Redis hashes what stands between the first
 * `{` and the first `}` after it, or the whole key where that is empty or missing; names like `a}b` or `a{}b` differ.
 */
function sharesSlot(name: string): boolean {
  return name.includes('{') ? /^[^{]*\{[^}]+\}/.test(name) : !name.includes('}');
}

/** What decides the cluster slot of a key: keys with the same hash tag are in the same slot. */
export function hashTag(key: string): string {
  return /^[^{]*\{([^}]+)\}/.exec(key)?.[1] ?? key;
}
