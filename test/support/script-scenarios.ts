// What is tried of each script, but for those of weighted locks: what is on the server before, and how to see what is there after.
import type { Redis } from 'ioredis';
import { scripts, type Script } from '../../src/redis/scripts.generated.js';

const LOCK = 'lock';
const FORCED = 'forced';
const LINE = 'line';
const PLACES = 'places';
const LONGEST = 'longest';
const COUNTER = 'counter';
const KEYS: Record<string, readonly string[]> = {
  acquire: [LOCK],
  confirm: [LOCK, FORCED, LINE, PLACES],
  'force-unlock': [LOCK, FORCED],
  gather: [LOCK],
  'hand-over': [LOCK, LINE, PLACES],
  join: [LOCK, LINE, PLACES],
  reenter: [LOCK, FORCED],
  release: [LOCK],
  renew: [LOCK, FORCED],
  remember: [LONGEST],
  'renew-places': [LOCK, LINE, PLACES],
  'raise-token': [COUNTER],
  vote: [LOCK, LONGEST],
  look: [LOCK],
  waiters: [LOCK, LINE, PLACES],
};

/** What is on the server before; times in seconds, far enough apart to be told from each other. */
export interface Before {
  readonly lock?: { readonly owner: string; readonly count: number; readonly ttl: number };
  /** Who was forced out. */
  readonly word?: string;
  /** The last fencing token, and how much longer that is remembered. */
  readonly counter?: { readonly token: string; readonly ttl: number };
  /** The longest lease that was asked for, and how much longer that is remembered. */
  readonly longest?: { readonly ms: number; readonly ttl: number };
  /** In order; of those who listen to their grants, or are gone, or do not listen. */
  readonly line?: readonly {
    readonly owner: string;
    readonly ttl: number;
    readonly is: 'listening' | 'gone' | 'deaf';
    readonly isFixed?: boolean;
    readonly isFenced?: boolean;
  }[];
}

export interface Scenario {
  readonly title: string;
  readonly script: Script;
  readonly before: Before;
  readonly args: readonly (string | number)[];
  readonly keys: readonly string[];
}

type Args = Scenario['args'];

const held = { owner: 'me:1', count: 1, ttl: 40 };
const byOther = { owner: 'other:1', count: 1, ttl: 40 };
const first = { owner: 'a:1', ttl: 80, is: 'listening' } as const;
const fixed = { ...first, isFixed: true };
const second = { owner: 'b:1', ttl: 120, is: 'listening' } as const;
const mine = { owner: 'me:1', ttl: 80, is: 'listening' } as const;
const gone = { owner: 'gone:1', ttl: 80, is: 'gone' } as const;
const lapsed = { owner: 'lapsed:1', ttl: -20, is: 'listening' } as const;
const known = { ms: 100_000, ttl: 20 };
const fencedFirst = { ...first, isFenced: true };
const counter = { token: '5', ttl: 40 };
const TOKEN_TTL_MS = 100_000;
const acquired = ['me:1', 60_000];
const fenced = [...acquired, TOKEN_TTL_MS];
const fencedKeys = [LOCK, COUNTER];
const handOver = (owner: string): string[] => [owner, 'ch', 'PUBLISH', 'grants:', 'PUBLISH', '1'];
const request = ['me:1', 60_000, 160_000, 50];
const join = (ticket: number, wants = 0): Args => [...request, ticket, wants, 1, 'listening'];
const joinFenced = (ticket: number): Args => [...join(ticket, 2), TOKEN_TTL_MS];
const confirm = (leaseMs: number): Args => ['me:1', leaseMs, 'ch', 'PUBLISH', 'grants:', 'PUBLISH'];
const withCounter = [LOCK, LINE, PLACES, COUNTER];
const voteWithCounter = [LOCK, LONGEST, COUNTER];

export const SCENARIOS: readonly Scenario[] = [
  ...scenariosOf(scripts.acquire, [
    ['of a free lock', {}, acquired],
    ['sent again', { lock: held }, acquired],
    ['of a lock that is held', { lock: byOther }, acquired],
    ['fenced, of a free lock', {}, fenced, fencedKeys],
    ['fenced, after others', { counter }, fenced, fencedKeys],
    ['fenced, for ever', { counter }, [...acquired, 0], fencedKeys],
    ['fenced, sent again', { lock: held, counter }, fenced, fencedKeys],
    ['fenced, of a lock that is held', { lock: byOther, counter }, fenced, fencedKeys],
  ]),
  ...scenariosOf(scripts.gather, [
    ['to acquire a free lock', {}, ['a', 60_000, '', 'me:1']],
    ['to acquire it for longer', {}, ['o', 20_000, '', 'me:1', 60_000]],
    ['to acquire it again', { lock: held }, ['a', 60_000, '', 'me:1']],
    ['of a lock that is held', { lock: byOther }, ['a', 60_000, '', 'me:1']],
    ['to release a held lock', { lock: held }, ['r', 0, 'PUBLISH', 'me:1']],
    ['to withdraw a held lock', { lock: held }, ['w', 0, '', 'me:1']],
  ]),
  ...scenariosOf(scripts.reenter, [
    ['nested, for longer', { lock: held }, ['me:1', 2, 60_000]],
    ['nested, for less', { lock: held }, ['me:1', 2, 20_000]],
    ['of a nested hold', { lock: { ...held, count: 2 } }, ['me:1', 1, 0]],
    ['for longer', { lock: held }, ['me:1', 1, 60_000]],
    ['of a lock that was forced', { word: 'me:1' }, ['me:1', 1, 0]],
  ]),
  ...scenariosOf(scripts.release, [['of a held lock', { lock: held }, ['me:1', 'ch', 'PUBLISH']]]),
  ...scenariosOf(scripts.renew, [
    ['of a held lock', { lock: held }, [60_000, 'me:1']],
    ['not confirmed yet', { lock: { ...held, count: 0 } }, [60_000, 'me:1']],
    ['of a lock that was forced', { word: 'me:1' }, [60_000, 'me:1']],
  ]),
  ...scenariosOf(scripts.forceUnlock, [
    ['of a held lock', { lock: held }, ['ch', 'PUBLISH', 20_000]],
    ['the second', { lock: held, word: 'other:1' }, ['ch', 'PUBLISH', 20_000]],
  ]),
  ...scenariosOf(scripts.confirm, [
    ['by a shorter lease', { lock: { ...held, count: 0 }, line: [first] }, confirm(20_000)],
    ['by a longer lease', { lock: held }, confirm(60_000)],
    ['of a lock that was forced', { word: 'me:1' }, confirm(60_000)],
  ]),
  ...scenariosOf(scripts.join, [
    ['of a free lock', {}, join(0)],
    ['of a free lock, first in line', { line: [mine, second] }, join(0)],
    ['of a free lock, alone in line', { line: [mine] }, join(0)],
    ['of a line', { lock: byOther }, join(0)],
    ['at its end', { lock: byOther, line: [first] }, join(0)],
    ['with its ticket', { lock: byOther, line: [first] }, join(1)],
    ['that renews its place', { lock: byOther, line: [first, mine] }, join(2)],
    ['that finds its lock', { lock: held }, join(0)],
    ['fenced, of a free lock', { counter }, joinFenced(0), withCounter],
    [
      'fenced, of a free lock, first in line',
      { line: [mine, second], counter },
      joinFenced(0),
      withCounter,
    ],
    ['fenced, of a line', { lock: byOther }, joinFenced(0), withCounter],
    ['fenced, that finds its lock', { lock: held, counter }, joinFenced(0), withCounter],
  ]),
  ...scenariosOf(scripts.handOver, [
    [
      'fenced, to the first of two',
      { lock: held, line: [fencedFirst, second], counter },
      handOver('me:1'),
      withCounter,
    ],
    [
      'fenced, past the gone',
      { lock: held, line: [lapsed, gone, fencedFirst] },
      handOver('me:1'),
      withCounter,
    ],
    ['of the lock to nobody', { lock: held }, handOver('me:1')],
    ['to the last', { lock: held, line: [first] }, handOver('me:1')],
    ['to the first of two', { lock: held, line: [fixed, second] }, handOver('me:1')],
    ['past the gone', { lock: held, line: [lapsed, gone, second] }, handOver('me:1')],
    ['past the gone, to nobody', { lock: held, line: [lapsed, gone] }, handOver('me:1')],
    ['of a free lock', { line: [gone, second] }, handOver('')],
    ['of a free lock to nobody', { line: [lapsed] }, handOver('')],
    ['of a place', { lock: byOther, line: [mine, second] }, handOver('me:1')],
    ['of the only place', { lock: byOther, line: [mine] }, handOver('me:1')],
    ['of the place of one who left', { line: [mine, second] }, handOver('me:1')],
  ]),
  ...scenariosOf(scripts.renewPlaces, [
    ['of a place', { lock: byOther, line: [first, mine] }, [160_000, 50, 'me:1', 1]],
    ['of what was handed over', { lock: held }, [160_000, 50, 'me:1', 1]],
  ]),
  ...scenariosOf(scripts.vote, [
    ['for a free lock', {}, acquired],
    ['for a free lock, known', { longest: known }, acquired],
    ['for a free lock, for less', { longest: known }, ['me:1', 20_000]],
    ['sent again', { lock: held, longest: known }, acquired],
    ['of a lock that is held', { lock: byOther, longest: known }, acquired],
    ['of a fenced lock', { counter }, acquired, voteWithCounter],
    [
      'of a fenced lock, sent again',
      { lock: held, longest: known, counter },
      acquired,
      voteWithCounter,
    ],
  ]),
  ...scenariosOf(scripts.raiseToken, [
    ['of a larger one', { counter }, ['7', TOKEN_TTL_MS]],
    ['of a larger one, for ever', { counter }, ['7', 0]],
    ['of the first', {}, ['7', TOKEN_TTL_MS]],
    ['of one that is known', { counter }, ['5', TOKEN_TTL_MS]],
  ]),
  ...scenariosOf(scripts.remember, [
    ['of more than is known', { longest: known }, [120_000]],
    ['of less than is known', { longest: known }, [60_000]],
    ['of the first', {}, [60_000]],
  ]),
  ...scenariosOf(scripts.look, [['at a held lock', { lock: held }, []]]),
  ...scenariosOf(scripts.waiters, [['in line', { line: [first, second] }, []]]),
];

type Tried = readonly [title: string, before: Before, args: Args, keys?: readonly string[]];

function scenariosOf(script: Script, all: readonly Tried[]): Scenario[] {
  return all.map(([title, before, args, keys = KEYS[script.name]!]) => ({
    title: `${script.name} ${title}`,
    script,
    before,
    args,
    keys,
  }));
}

/** Makes the server have this, and nothing else. */
export async function prepare(redis: Redis, before: Before): Promise<void> {
  const { lock, word, longest, line = [] } = before;
  await redis.flushall();
  if (lock) {
    await redis.hset(LOCK, lock.owner, lock.count);
    await redis.pexpire(LOCK, lock.ttl * 1_000);
  }
  if (word) await redis.set(FORCED, word, 'PX', 40_000);
  if (before.counter)
    await redis.set(COUNTER, before.counter.token, 'PX', before.counter.ttl * 1_000);
  if (longest) await redis.set(LONGEST, longest.ms, 'PX', longest.ttl * 1_000);
  for (const [index, { owner, ttl, is, isFixed = false, isFenced = false }] of line.entries()) {
    const wants = Number(isFixed) + 2 * Number(isFenced);
    const place = [index + 1, Date.now() + ttl * 1_000, wants, is === 'deaf' ? 0 : 1, is];
    if (isFenced) place.push(TOKEN_TTL_MS);
    await redis.zadd(LINE, index + 1, owner);
    await redis.hset(PLACES, owner, place.join(' '));
  }
  await Promise.all([LINE, PLACES].map((key) => redis.pexpire(key, 120_000)));
}

/** All keys with what is in them, and until when; in seconds, rounded. Line and places need only have an end. */
export async function state(redis: Redis): Promise<Record<string, unknown>> {
  const [lock, word, token, longest, line, places, ...ttls] = await Promise.all([
    redis.hgetall(LOCK),
    redis.get(FORCED),
    redis.get(COUNTER),
    redis.get(LONGEST),
    redis.zrange(LINE, '0', '-1'),
    redis.hgetall(PLACES),
    ...[LOCK, FORCED, COUNTER, LONGEST, LINE, PLACES].map((key) => redis.pttl(key)),
  ]);
  const [ofLock, ofWord, ofCounter, ofLongest, ofLine, ofPlaces] = ttls.map((ttlMs) =>
    ttlMs < 0 ? ttlMs : Math.round(ttlMs / 20_000) * 20,
  );
  const rounded = Object.entries(places).map(([owner, place]) => [
    owner,
    place.replace(/\d{10,}/, (atMs) =>
      String(Math.round((Number(atMs) - Date.now()) / 20_000) * 20),
    ),
  ]);
  return {
    lock: [lock, ofLock],
    word: [word, ofWord],
    counter: [token && token.length > 10 ? 'the time' : token, ofCounter],
    longest: [longest, ofLongest],
    line: [line, Math.sign(ofLine!) || ofLine],
    places: [Object.fromEntries(rounded), Math.sign(ofPlaces!) || ofPlaces],
  };
}
