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
const handOver = (owner: string): string[] => [owner, 'ch', 'PUBLISH', 'grants:', 'PUBLISH', '1'];
const join = (ticket: number): (string | number)[] => [
  ...['me:1', 60_000, 160_000, 50, ticket, 0, 1, 'listening'],
];

const joinFenced = (ticket: number): (string | number)[] => [
  ...['me:1', 60_000, 160_000, 50, ticket, 2, 1, 'listening', TOKEN_TTL_MS],
];
const withCounter = [LOCK, LINE, PLACES, COUNTER];
const voteWithCounter = [LOCK, LONGEST, COUNTER];

export const SCENARIOS: readonly Scenario[] = [
  scenario('of a free lock', scripts.acquire, {}, acquired),
  scenario('sent again', scripts.acquire, { lock: held }, acquired),
  scenario('of a lock that is held', scripts.acquire, { lock: byOther }, acquired),
  scenario('to acquire a free lock', scripts.gather, {}, ['a', 60_000, '', 'me:1']),
  scenario('to acquire it for longer', scripts.gather, {}, ['o', 20_000, '', 'me:1', 60_000]),
  scenario('to acquire it again', scripts.gather, { lock: held }, ['a', 60_000, '', 'me:1']),
  scenario('of a lock that is held', scripts.gather, { lock: byOther }, ['a', 60_000, '', 'me:1']),
  scenario('to release a held lock', scripts.gather, { lock: held }, ['r', 0, 'PUBLISH', 'me:1']),
  scenario('to withdraw a held lock', scripts.gather, { lock: held }, ['w', 0, '', 'me:1']),
  acquireFenced('of a free lock', {}),
  acquireFenced('after others', { counter }),
  acquireFenced('for ever', { counter }, 0),
  acquireFenced('sent again', { lock: held, counter }),
  acquireFenced('of a lock that is held', { lock: byOther, counter }),
  scenario('nested, for longer', scripts.reenter, { lock: held }, ['me:1', 2, 60_000]),
  scenario('nested, for less', scripts.reenter, { lock: held }, ['me:1', 2, 20_000]),
  scenario('of a nested hold', scripts.reenter, { lock: { ...held, count: 2 } }, ['me:1', 1, 0]),
  scenario('for longer', scripts.reenter, { lock: held }, ['me:1', 1, 60_000]),
  scenario('of a lock that was forced', scripts.reenter, { word: 'me:1' }, ['me:1', 1, 0]),
  scenario('of a held lock', scripts.release, { lock: held }, ['me:1', 'ch', 'PUBLISH']),
  scenario('of a held lock', scripts.renew, { lock: held }, [60_000, 'me:1']),
  scenario('not confirmed yet', scripts.renew, { lock: { ...held, count: 0 } }, [60_000, 'me:1']),
  scenario('of a lock that was forced', scripts.renew, { word: 'me:1' }, [60_000, 'me:1']),
  scenario('of a held lock', scripts.forceUnlock, { lock: held }, ['ch', 'PUBLISH', 20_000]),
  scenario('the second', scripts.forceUnlock, { lock: held, word: 'other:1' }, [
    ...['ch', 'PUBLISH', 20_000],
  ]),
  scenario('by a shorter lease', scripts.confirm, { lock: { ...held, count: 0 }, line: [first] }, [
    ...['me:1', 20_000, 'ch', 'PUBLISH', 'grants:', 'PUBLISH'],
  ]),
  scenario('by a longer lease', scripts.confirm, { lock: held }, [
    ...['me:1', 60_000, 'ch', 'PUBLISH', 'grants:', 'PUBLISH'],
  ]),
  scenario('of a lock that was forced', scripts.confirm, { word: 'me:1' }, [
    ...['me:1', 60_000, 'ch', 'PUBLISH', 'grants:', 'PUBLISH'],
  ]),
  scenario('of a free lock', scripts.join, {}, join(0)),
  scenario('of a free lock, first in line', scripts.join, { line: [mine, second] }, join(0)),
  scenario('of a free lock, alone in line', scripts.join, { line: [mine] }, join(0)),
  scenario('of a line', scripts.join, { lock: byOther }, join(0)),
  scenario('at its end', scripts.join, { lock: byOther, line: [first] }, join(0)),
  scenario('with its ticket', scripts.join, { lock: byOther, line: [first] }, join(1)),
  scenario('that renews its place', scripts.join, { lock: byOther, line: [first, mine] }, join(2)),
  scenario('that finds its lock', scripts.join, { lock: held }, join(0)),
  scenario('fenced, of a free lock', scripts.join, { counter }, joinFenced(0), withCounter),
  scenario(
    'fenced, of a free lock, first in line',
    scripts.join,
    { line: [mine, second], counter },
    joinFenced(0),
    withCounter,
  ),
  scenario('fenced, of a line', scripts.join, { lock: byOther }, joinFenced(0), withCounter),
  scenario(
    'fenced, that finds its lock',
    scripts.join,
    { lock: held, counter },
    joinFenced(0),
    withCounter,
  ),
  scenario(
    'fenced, to the first of two',
    scripts.handOver,
    { lock: held, line: [fencedFirst, second], counter },
    handOver('me:1'),
    withCounter,
  ),
  scenario(
    'fenced, past the gone',
    scripts.handOver,
    { lock: held, line: [lapsed, gone, fencedFirst] },
    handOver('me:1'),
    withCounter,
  ),
  scenario('of the lock to nobody', scripts.handOver, { lock: held }, handOver('me:1')),
  scenario('to the last', scripts.handOver, { lock: held, line: [first] }, handOver('me:1')),
  scenario('to the first of two', scripts.handOver, { lock: held, line: [fixed, second] }, [
    ...handOver('me:1'),
  ]),
  scenario('past the gone', scripts.handOver, { lock: held, line: [lapsed, gone, second] }, [
    ...handOver('me:1'),
  ]),
  scenario('past the gone, to nobody', scripts.handOver, { lock: held, line: [lapsed, gone] }, [
    ...handOver('me:1'),
  ]),
  scenario('of a free lock', scripts.handOver, { line: [gone, second] }, handOver('')),
  scenario('of a free lock to nobody', scripts.handOver, { line: [lapsed] }, handOver('')),
  scenario('of a place', scripts.handOver, { lock: byOther, line: [mine, second] }, [
    ...handOver('me:1'),
  ]),
  scenario('of the only place', scripts.handOver, { lock: byOther, line: [mine] }, [
    ...handOver('me:1'),
  ]),
  scenario('of the place of one who left', scripts.handOver, { line: [mine, second] }, [
    ...handOver('me:1'),
  ]),
  scenario('of a place', scripts.renewPlaces, { lock: byOther, line: [first, mine] }, [
    ...[160_000, 50, 'me:1', 1],
  ]),
  scenario('of what was handed over', scripts.renewPlaces, { lock: held }, [
    160_000,
    50,
    'me:1',
    1,
  ]),
  scenario('for a free lock', scripts.vote, {}, acquired),
  scenario('for a free lock, known', scripts.vote, { longest: known }, acquired),
  scenario('for a free lock, for less', scripts.vote, { longest: known }, ['me:1', 20_000]),
  scenario('sent again', scripts.vote, { lock: held, longest: known }, acquired),
  scenario('of a lock that is held', scripts.vote, { lock: byOther, longest: known }, acquired),
  scenario('of a fenced lock', scripts.vote, { counter }, acquired, voteWithCounter),
  scenario(
    'of a fenced lock, sent again',
    scripts.vote,
    { lock: held, longest: known, counter },
    acquired,
    voteWithCounter,
  ),
  scenario('of a larger one', scripts.raiseToken, { counter }, ['7', TOKEN_TTL_MS]),
  scenario('of a larger one, for ever', scripts.raiseToken, { counter }, ['7', 0]),
  scenario('of the first', scripts.raiseToken, {}, ['7', TOKEN_TTL_MS]),
  scenario('of one that is known', scripts.raiseToken, { counter }, ['5', TOKEN_TTL_MS]),
  scenario('of more than is known', scripts.remember, { longest: known }, [120_000]),
  scenario('of less than is known', scripts.remember, { longest: known }, [60_000]),
  scenario('of the first', scripts.remember, {}, [60_000]),
  scenario('at a held lock', scripts.look, { lock: held }, []),
  scenario('in line', scripts.waiters, { line: [first, second] }, []),
];

function acquireFenced(title: string, before: Before, tokenTtlMs = TOKEN_TTL_MS): Scenario {
  const args = [...acquired, tokenTtlMs];
  return scenario(`fenced, ${title}`, scripts.acquire, before, args, [LOCK, COUNTER]);
}

function scenario(
  title: string,
  script: Script,
  before: Before,
  args: Scenario['args'],
  keys = KEYS[script.name]!,
): Scenario {
  return { title: `${script.name} ${title}`, script, before, args, keys };
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
