// Key and channel names: Redisson's rule for braces, and the cluster slots that follow from it.
import fc from 'fast-check';
import { createRequire } from 'node:module';
import { describe, expect, it } from 'vitest';
import { hashTag, LockKeys } from '../../../src/redis/keys.js';

/** ioredis' own function for the slot of a key: its dependency, so that nothing more has to be installed. */
const slotOf = createRequire(createRequire(import.meta.url).resolve('ioredis'))(
  'cluster-key-slot',
) as (key: string) => number;

describe('the names beside a lock', () => {
  it('have its name in braces', () => {
    const keys = new LockKeys('orders:42');
    expect(keys.lock).toBe('orders:42');
    expect(keys.channel).toBe('redisson_lock__channel:{orders:42}');
    expect(keys.forced).toBe('holdfast_forced:{orders:42}');
    expect(keys.counter(false)).toBe('redisson_lock_token:{orders:42}');
  });

  it('keep the braces of a name that has some, as in Redisson', () => {
    for (const name of ['{orders}:42', 'eu:{orders}:42', 'a{', '{}', 'a{}b']) {
      const keys = new LockKeys(name);
      expect(keys.channel).toBe(`redisson_lock__channel:${name}`);
      expect(keys.counter(false)).toBe(`redisson_lock_token:${name}`);
    }
  });
});

it.each([
  ['x', '{x}'],
  ['a{b', '{a{b}'],
  ['a}b', '{20658}:a}b'],
  ['{x}', '{x}:'],
])('%s and %s share no key that scripts write', (one, other) => {
  const own = ownKeys(new LockKeys(other));
  expect(ownKeys(new LockKeys(one)).filter((key) => own.includes(key))).toEqual([]);
});

/** The keys that only holdfast has: channel and counter are Redisson's, by its rule. */
function ownKeys(keys: LockKeys): string[] {
  const { lock, forced, line, places, leases, permits, forcedOwners, longestLease, grants } = keys;
  const channelSuffix = '0b1e0d5c-7f6a-4a39-9f5e-0d4f4a0a2a11';
  return [
    ...[lock, forced, line, places, leases, permits, forcedOwners, longestLease],
    grants + channelSuffix,
  ];
}

/** Names full of braces, and some others. */
const names = fc
  .string({ unit: fc.constantFrom('{', '}', 'a', 'b', ':', 'ü'), minLength: 1 })
  // Redis hashes these as a whole, since their first `{}` is empty; cluster-key-slot goes on to the next `}`.
  .filter((name) => !/^[^{]*\{\}.*\}/.test(name));

describe('in a cluster', () => {
  it.each(['a', '{a}', '{a}b', 'a{b}c', '{a}{b}', '{{a}}', 'a{b}}', '{a}}{', 'ü', '{ü}'])(
    'a name like %s has its channel in its slot, and is reported as such',
    (name) => {
      const keys = new LockKeys(name);
      expect(keys.isShardable).toBe(true);
      expect(slotOf(keys.channel)).toBe(slotOf(name));
    },
  );

  it.each(['}', 'a}b', '{}', 'a{}b', 'a{b', '}{'])(
    'a name like %s has its channel in another slot, and is reported as such',
    (name) => {
      const keys = new LockKeys(name);
      expect(keys.isShardable).toBe(false);
      expect(slotOf(keys.channel)).not.toBe(slotOf(name));
    },
  );

  it('any name that is reported as shardable has key and channel in one slot', () => {
    fc.assert(
      fc.property(names, (name) => {
        const { channel, isShardable } = new LockKeys(name);
        fc.pre(isShardable);
        expect(slotOf(channel)).toBe(slotOf(name));
      }),
    );
  });

  it('no two names have a key in common', () => {
    fc.assert(
      fc.property(names, names, (one, other) => {
        fc.pre(one !== other);
        const own = ownKeys(new LockKeys(other));
        expect(ownKeys(new LockKeys(one)).filter((key) => own.includes(key))).toEqual([]);
      }),
      { numRuns: 2_000 },
    );
  });

  it('any name has its keys in one slot, so that a script can use them together', () => {
    fc.assert(
      fc.property(names, (name) => {
        const keys = new LockKeys(name);
        expect(slotOf(keys.forced)).toBe(slotOf(keys.lock));
        expect(slotOf(keys.counter(true))).toBe(slotOf(keys.lock));
        if (keys.isShardable) expect(keys.counter(true)).toBe(keys.counter(false));
      }),
      { numRuns: 1_000 },
    );
  });

  it('5,000 odd names cost little, and all clients derive the same keys from them', () => {
    const startMs = performance.now();
    const forced = Array.from({ length: 5_000 }, (_, i) => new LockKeys(`a}b:${i}`).forced);
    expect(performance.now() - startMs).toBeLessThan(1_500); // 50 ms on an idle machine
    expect(new LockKeys('a}b:4711').forced).toBe(forced[4_711]);
    expect(new LockKeys('a}b').forced).toBe('holdfast_forced:{20658}:a}b');
    expect(new Set(forced).size).toBe(5_000);
  });

  it('keys with the same hash tag are in the same slot', () => {
    expect(hashTag('orders:42')).toBe('orders:42');
    expect(hashTag('{orders}:42')).toBe('orders');
    expect(hashTag('eu:{orders}:{42}')).toBe('orders');
    expect(hashTag('a{}b')).toBe('a{}b');
    expect(hashTag('{}{a}')).toBe('{}{a}');
    fc.assert(
      fc.property(names, (name) => {
        // Where no tag decides and there is a closing brace, no other key can have the whole name as its tag.
        fc.pre(!hashTag(name).includes('}'));
        expect(slotOf(`other:{${hashTag(name)}}`)).toBe(slotOf(name));
      }),
    );
  });
});
