// The commands on keys that our scripts and our client send, with Redis' errors and replies.

import { RedisError, SortedSet, type Keyspace } from './keyspace.js';
import type { Reply } from './lua-runtime.js';

type Command = (keys: Keyspace, ...args: string[]) => Reply;

export const OK: Reply = { ok: 'OK' };

export const COMMANDS: Readonly<Record<string, Command>> = {
  EXISTS: (keys, ...names) => countOf(names, (key) => keys.entry(key) !== undefined),

  TYPE(keys, key) {
    const value = keys.entry(key)?.value;
    if (value === undefined) return { ok: 'none' };
    if (typeof value === 'string') return { ok: 'string' };
    return { ok: value instanceof SortedSet ? 'zset' : 'hash' };
  },

  /** All in one step: the hashes that match a pattern of literal text and a `*` at its end. */
  SCAN(keys, _cursor, _match, pattern) {
    const prefix = pattern.slice(0, -1).replace(/\\(.)/g, '$1');
    const isMatch = (key: string): boolean =>
      key.startsWith(prefix) && keys.entry(key)?.value instanceof Map;
    return ['0', keys.names.filter(isMatch)];
  },

  DEL: (keys, ...names) => countOf(names, (key) => keys.delete(key)),

  PTTL(keys, key) {
    const entry = keys.entry(key);
    if (!entry) return -2;
    return entry.untilMs === Infinity ? -1 : entry.untilMs - keys.nowMs;
  },

  PEXPIRE(keys, key, ms, condition?: string) {
    const untilMs = keys.nowMs + integer(ms);
    const isRefused = condition === 'GT' && (keys.entry(key)?.untilMs ?? 0) >= untilMs;
    return Number(!isRefused && keys.end(key, untilMs));
  },

  PEXPIREAT: (keys, key, atMs) => Number(keys.end(key, integer(atMs))),

  /** (No script sends it: so keys lose their end by somebody else.) */
  PERSIST: (keys, key) =>
    Number((keys.entry(key)?.untilMs ?? Infinity) < Infinity && keys.end(key, Infinity)),

  TIME: ({ nowUs }) => [String(Math.floor(nowUs / 1e6)), String(nowUs % 1e6)],

  GET: (keys, key) => keys.text(key) ?? null,

  SET(keys, key, value, px?: string, ms?: string) {
    const forMs = px === undefined ? Infinity : integer(ms);
    if (forMs <= 0) throw new RedisError("ERR invalid expire time in 'set' command");
    keys.set(key, value, keys.nowMs + forMs);
    return OK;
  },

  HGET: (keys, key, field) => keys.hash(key)?.get(field) ?? null,

  HMGET(keys, key, ...fields) {
    const hash = keys.hash(key);
    return fields.map((field) => hash?.get(field) ?? null);
  },

  HGETALL: (keys, key) => [...(keys.hash(key) ?? [])].flat(),

  HLEN: (keys, key) => keys.hash(key)?.size ?? 0,

  HEXISTS: (keys, key, field) => Number(keys.hash(key)?.has(field) ?? false),

  HSET(keys, key, ...pairs) {
    const hash = keys.hashToChange(key);
    const before = hash.size;
    for (const [field, value] of inPairs(pairs)) hash.set(field, value);
    return hash.size - before;
  },

  HDEL(keys, key, ...fields) {
    if (!fields.some((field) => keys.hash(key)?.has(field))) return 0;
    const hash = keys.hashToChange(key);
    const count = countOf(fields, (field) => hash.delete(field));
    if (hash.size === 0) keys.delete(key);
    return count;
  },

  ZADD(keys, key, ...pairs) {
    const numbers = inPairs(pairs).map(([score, member]) => [member, float(score)] as const);
    const set = keys.sortedSetToChange(key);
    return countOf(numbers, ([member, score]) => set.add(member, score));
  },

  ZREM(keys, key, ...members) {
    if (!members.some((member) => keys.sortedSet(key)?.score(member) !== undefined)) return 0;
    const set = keys.sortedSetToChange(key);
    const count = countOf(members, (member) => set.delete(member));
    if (set.members.length === 0) keys.delete(key);
    return count;
  },

  ZSCORE(keys, key, member) {
    const score = keys.sortedSet(key)?.score(member);
    return score === undefined ? null : String(score);
  },

  ZRANGE(keys, key, first, last, withScores?: string) {
    const set = keys.sortedSet(key) ?? new SortedSet();
    const index = (text: string): number => {
      const number = integer(text);
      return number < 0 ? Math.max(set.members.length + number, 0) : number;
    };
    const beyond = integer(last) < -set.members.length ? 0 : index(last) + 1;
    return listed(set, set.members.slice(index(first), beyond), withScores !== undefined);
  },

  ZRANGEBYSCORE(keys, key, least, most, ...options) {
    const set = keys.sortedSet(key) ?? new SortedSet();
    const isIn = (member: string): boolean => {
      const score = set.score(member) ?? NaN;
      const isHigh = least.startsWith('(') ? score > float(least.slice(1)) : score >= float(least);
      return isHigh && score <= float(most);
    };
    const limit = options.indexOf('LIMIT');
    const offset = limit < 0 ? 0 : integer(options[limit + 1]);
    const count = limit < 0 ? Infinity : integer(options[limit + 2]);
    const members = set.members.filter(isIn).slice(offset, offset + count);
    return listed(set, members, options.includes('WITHSCORES'));
  },
};

function listed(set: SortedSet, members: readonly string[], withScores: boolean): Reply {
  if (!withScores) return members;
  return members.flatMap((member) => [member, String(set.score(member))]);
}

function countOf<T>(all: readonly T[], isCounted: (each: T) => boolean): number {
  return all.filter(isCounted).length;
}

function inPairs(flat: readonly string[]): [string, string][] {
  const pairs: [string, string][] = [];
  for (let i = 0; i + 1 < flat.length; i += 2) pairs.push([flat[i] ?? '', flat[i + 1] ?? '']);
  return pairs;
}

function integer(text: string | undefined): number {
  if (text !== undefined && /^-?\d+$/.test(text)) return Number(text);
  throw new RedisError('ERR value is not an integer or out of range');
}

function float(text: string): number {
  if (text === '+inf' || text === '-inf') return Number(text.replace('inf', 'Infinity'));
  if (/^[+-]?\d+(\.\d+)?(e[+-]?\d+)?$/i.test(text)) return Number(text);
  throw new RedisError('ERR value is not a valid float');
}
