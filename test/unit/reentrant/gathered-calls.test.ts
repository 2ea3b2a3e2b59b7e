// Gathered acquires and releases: which commands they become, in which order, and which answer each caller gets.
import { AsyncLocalStorage } from 'node:async_hooks';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { type Hold, Holdfast } from '../../../src/index.js';
import { replyError } from '../../../src/redis/failure.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { TappedRedis } from '../../support/tapped-redis.js';

let redis: MemoryRedis;
let tap: TappedRedis;
let client: Holdfast;

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['Date', 'performance'] }); // time passes by advance() alone
  redis = new MemoryRedis();
  tap = new TappedRedis(redis);
  client = new Holdfast({ redis: tap, clientId: 'me' });
  await client.ping();
  tap.sent.length = 0;
});

afterEach(async () => {
  await client.close();
  vi.useRealTimers();
});

function acquire(name: string, signal?: AbortSignal): Promise<Hold> {
  return client.getLock(name).acquire(signal && { signal });
}

/** A command is under way, so that the calls of this turn are gathered. */
function busy(): void {
  void acquire('busy');
}

/** The scripts that were sent, each with its locks. */
function sent(): string[] {
  return tap.sent.map(({ name, keys }) => [name, ...keys].join(' '));
}

/** The letters of the latest gathered call: its actions on each of its locks. */
function kinds(): string | undefined {
  return tap.last('gather').args[0];
}

it('on an idle connection a call is sent at once, by the script for one lock', async () => {
  const acquiring = acquire('a');
  expect(sent()).toEqual(['acquire a']);
  await (await acquiring).release();
  expect(sent()).toEqual(['acquire a', 'release a']);
});

it('while a command is under way the calls of one turn go together, each with its answer', async () => {
  const held = await acquire('held');
  await redis.advance(0);
  await new Holdfast({ redis, clientId: 'other' }).getLock('theirs').acquire();
  tap.sent.length = 0;
  busy();
  const a = acquire('a');
  await Promise.resolve();
  const released = held.release();
  const b = client.getLock('b').acquire({ lease: 5_000 });
  const theirs = client.getLock('theirs').tryLock();
  const fenced = client.getFencedLock('fenced').acquire();
  await released;
  expect(sent().slice(0, 2)).toEqual([
    'acquire busy',
    'gather a held b theirs fenced redisson_lock_token:{fenced}',
  ]);
  expect(kinds()).toBe('aroaf');
  expect(await theirs).toBe(false);
  expect((await a).remaining()).toBeGreaterThan(20_000);
  expect((await b).remaining()).toBeLessThanOrEqual(5_000);
  expect(await fenced).toHaveProperty('token', expect.any(BigInt));
});

it('a call that is alone in its turn is sent at its end, by the script for one lock', async () => {
  busy();
  const acquiring = acquire('a');
  expect(sent()).toEqual(['acquire busy']);
  await acquiring;
  expect(sent()).toEqual(['acquire busy', 'acquire a']);
});

it("64 locks are the most for one call; that many are sent before the turn is over, in no caller's context", async () => {
  const storage = new AsyncLocalStorage<string>();
  busy();
  const all = storage.run('a caller', () =>
    Array.from({ length: 129 }, (_, index) => acquire(`lock${index}`)),
  );
  expect(tap.sent.map(({ keys }) => keys.length)).toEqual([1, 64, 64]);
  await Promise.all(all);
  expect(sent().slice(3)).toEqual(['acquire lock128']);
});

it('calls for the same lock keep their order, and no later call overtakes them', async () => {
  const held = await acquire('a');
  tap.sent.length = 0;
  busy();
  void held.release();
  const again = acquire('a');
  const isLocked = client.getLock('a').isLocked();
  expect(sent()).toEqual(['acquire busy', 'gather a a', 'look a']);
  expect(kinds()).toBe('ra');
  expect(await isLocked).toBe(true);
  await again;
});

it('an acquire whose caller has left is not sent, and a release is', async () => {
  const held = await acquire('b');
  tap.sent.length = 0;
  busy();
  const abort = new AbortController();
  const given = acquire('a', abort.signal).catch((error: unknown) => error);
  const released = held.release();
  const c = acquire('c');
  abort.abort();
  await Promise.all([released, c]);
  expect(sent()).toEqual(['acquire busy', 'gather b c a']);
  expect(kinds()).toBe('rar'); // the clean-up only releases it
  expect(await given).toMatchObject({ code: 'LOCK_ABORTED' });
});

it.each([
  ['one of them was left undone: that one is', [null, 1, 1], ['acquire a']],
  [
    'an error answers the call, so nothing was done: each is',
    replyError('NOPERM no key'),
    ['acquire a', 'acquire b', 'acquire c'],
  ],
])('a call is sent again alone if %s', async (_what, reply, again) => {
  busy();
  tap.answerNext('gather', reply);
  await Promise.all(['a', 'b', 'c'].map((name) => acquire(name)));
  expect(sent().slice(1)).toEqual(['gather a b c', ...again]);
});
