// The script for gathered calls compared with the scripts for one lock: the same calls, in the same order, have the same answers and leave
// the same keys; a call that a single script would refuse changes nothing, and its answer is null.
import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { LockKeys } from '../../../src/redis/keys.js';
import { scripts, type Script } from '../../../src/redis/scripts.generated.js';
import { countCommands } from '../../support/recorded-commands.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';

/** Of leases that are far enough apart to be distinguished. */
const LEASES_MS = [100_000, 200_000, 300_000];
/** Short names, some with braces, some with odd ones. */
const NAMES = ['a', 'b', '{t}:c', 'd:{t}', 'e}f', 'g{}h', 'i{', 'ü'];
const OWNERS = ['me:1', 'me:2', 'me:-3', 'other:7'];

/** Above the time in microseconds: the tokens that follow are counted, and the same everywhere. */
const AHEAD = 2n ** 52n;
const TOKEN_TTLS_MS = [0, 100_000, 200_000];

interface Call {
  readonly kind: 'a' | 'o' | 'f' | 'r' | 'w';
  readonly name: string;
  readonly owner: string;
  readonly leaseMs: number;
  /** Of acquisitions that get a token. */
  readonly tokenTtlMs?: number;
}

let server: RedisServer;
let admin: Redis;
/** The same server, for a user with restricted permissions. */
let user: Redis;
let listener: Redis;

beforeAll(async () => {
  server = await startRedis();
  admin = new Redis(server.url);
  await permitAllBut();
  user = new Redis(server.url, { username: 'limited', password: 'any' });
  listener = new Redis(server.url);
  const heard = [0, 2, 4, 5].flatMap((i) => [channelOf('s:', i), channelOf('g:', i)]);
  await Promise.all([user.ping(), listener.subscribe(...heard)]);
}, 60_000);

afterAll(async () => {
  for (const client of [admin, user, listener]) client.disconnect();
  await server[Symbol.asyncDispose]();
});

beforeEach(async () => {
  await permitAllBut();
  await admin.flushall();
});

function channelOf(prefix: string, index: number): string {
  return new LockKeys(prefix + NAMES[index]!).channel;
}

async function permitAllBut(...rules: string[]): Promise<void> {
  const all = ['reset', 'on', 'nopass', '~*', '&*', '+@all'];
  await admin.call('ACL', 'SETUSER', 'limited', ...all, ...rules);
}

const DENIED = [
  'pexpire',
  'hset',
  'hdel',
  'exists',
  'hexists',
  'hlen',
  'hgetall',
  'pttl',
  'get',
  'set',
];

it.each(['', ...[...DENIED, 'time'].map((command) => `-${command}`)])(
  'random calls have the same answers, and leave the same keys (ACL: %j)',
  async (rule) => {
    await permitAllBut(...(rule ? [rule] : []));
    for (let round = 0; round < 25; round++) {
      const seed = round * 7_919 + rule.length * 104_729 + 1;
      await sameAs(seed);
    }
  },
);

it('random calls have the same answers where publishing is refused on some channels', async () => {
  await permitAllBut('resetchannels', `&${channelOf('s:', 0)}`, `&${channelOf('g:', 0)}`);
  for (let round = 0; round < 25; round++) await sameAs(round + 1_000_003);
});

it('the script runs the same commands as the scripts for one lock, and no others', async () => {
  const names = Array.from({ length: 64 }, (_, index) => `n${index}`);
  const acquires = names.map((name): Call => acquireOf(name));
  const acquired = await countCommands(server.url, () => gathered(acquires));
  expect(acquired).toEqual({ eval: 1, exists: 64, hset: 64, pexpire: 64 });
  const releases = acquires.map((call): Call => ({ ...call, kind: 'r' }));
  const released = await countCommands(server.url, () => gathered(releases));
  expect(released).toEqual({ eval: 1, hdel: 64, publish: 64 });
  const fenced = names.map((name): Call => fencedOf(name, 100_000));
  expect(await countCommands(server.url, () => gathered(fenced))).toEqual({
    ...{ eval: 1, exists: 64, hset: 64, pexpire: 64 },
    ...{ get: 64, time: 64, pttl: 64, set: 64 },
  });
  await gathered(releases);
  const forEver = names.map((name): Call => fencedOf(name, 0));
  expect(await countCommands(server.url, () => gathered(forEver))).toEqual({
    ...{ eval: 1, exists: 64, hset: 64, pexpire: 64 },
    ...{ get: 64, time: 64, set: 64 },
  });
});

function acquireOf(name: string): Call {
  return { kind: 'a', name, owner: 'me:1', leaseMs: LEASES_MS[0]! };
}

function fencedOf(name: string, tokenTtlMs: number): Call {
  return { ...acquireOf(name), kind: 'f', tokenTtlMs };
}

/** Prepares the same keys twice, and makes the same calls on both: by the scripts for one lock, and all together. */
async function sameAs(seed: number): Promise<void> {
  const random = randomOf(seed);
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)]!;
  await admin.flushall();
  for (const name of NAMES) {
    const what = pick(['nothing', 'nothing', 'lock', 'lock', 'string', 'hash', 'endless']);
    const owner = pick(OWNERS);
    const counter = pick(['nothing', 'nothing', 'ahead', 'ahead', 'endless', 'text', 'list']);
    for (const prefix of ['s:', 'g:']) {
      await put(prefix + name, what, owner);
      await putCounter(counterOf(prefix, name), counter);
    }
  }
  const calls = Array.from({ length: 1 + Math.floor(random() * 40) }, (): Call => {
    const kind = pick(['a', 'o', 'f', 'f', 'r', 'r', 'w'] as const);
    const leaseMs = kind === 'o' || kind === 'f' ? pick(LEASES_MS) : LEASES_MS[0]!;
    const tokenTtlMs = pick(TOKEN_TTLS_MS);
    return { kind, name: pick(NAMES), owner: pick(OWNERS), leaseMs, tokenTtlMs };
  });
  const alone: unknown[] = [];
  for (const call of calls) alone.push(await single(call));
  const together = await gathered(calls);
  const what = `seed ${seed}: ${JSON.stringify(calls)}`;
  expect(together.map(rounded), what).toEqual(alone.map(rounded));
  expect(await state('g:'), what).toEqual(await state('s:'));
}

async function put(key: string, what: string, owner: string): Promise<void> {
  if (what === 'string') await admin.set(key, 'text');
  if (what === 'hash') await admin.hset(key, { mode: 'read', other: 1 });
  if (what === 'lock' || what === 'endless') await admin.hset(key, owner, 1);
  if (what === 'lock') await admin.pexpire(key, LEASES_MS[1]!);
}

function counterOf(prefix: string, name: string): string {
  return `${prefix}token:${name}`;
}

async function putCounter(key: string, what: string): Promise<void> {
  if (what === 'text') await admin.set(key, 'text');
  if (what === 'list') await admin.rpush(key, 'a');
  if (what === 'endless') await admin.set(key, String(AHEAD));
  if (what === 'ahead') await admin.set(key, String(AHEAD), 'PX', LEASES_MS[1]!);
}

/** null for an error. */
async function single({ kind, name, owner, leaseMs, tokenTtlMs = 0 }: Call): Promise<unknown> {
  const { lock, channel } = new LockKeys(`s:${name}`);
  if (kind === 'f') {
    const keys = [lock, counterOf('s:', name)];
    const { source } = scripts.acquire;
    return await user.eval(source, 2, ...keys, owner, leaseMs, tokenTtlMs).catch(() => null);
  }
  const isAcquire = kind === 'a' || kind === 'o';
  const args = isAcquire ? [owner, leaseMs] : [owner, channel, kind === 'w' ? '' : 'PUBLISH'];
  const script: Script = isAcquire ? scripts.acquire : scripts.release;
  return await user.eval(script.source, 1, lock, ...args).catch(() => null);
}

async function gathered(calls: readonly Call[]): Promise<unknown[]> {
  const keys = calls.flatMap(({ kind, name }) => [
    `g:${name}`,
    ...(kind === 'f' ? [counterOf('g:', name)] : []),
  ]);
  const kinds = calls.map(({ kind }) => kind).join('');
  const owners = calls.flatMap(({ kind, owner, leaseMs, tokenTtlMs = 0 }) => [
    owner,
    ...(kind === 'o' || kind === 'f' ? [leaseMs] : []),
    ...(kind === 'f' ? [tokenTtlMs] : []),
  ]);
  const { source } = scripts.gather;
  const args = [kinds, LEASES_MS[0]!, 'PUBLISH', ...owners];
  return (await user.eval(source, keys.length, ...keys, ...args)) as unknown[];
}

/** Times to live differ by some milliseconds, and a refusal may name the script and its line. */
function rounded(answer: unknown): unknown {
  if (Array.isArray(answer)) return (answer as unknown[]).map(rounded);
  if (typeof answer === 'string' && /^\d+$/.test(answer))
    return BigInt(answer) < AHEAD ? 'the time' : answer;
  if (typeof answer === 'string' && !OWNERS.includes(answer)) return 'a refusal';
  return typeof answer === 'number' && answer > 1_000 ? Math.round(answer / 50_000) : answer;
}

/** All keys of one prefix: their contents, and their times to live. */
async function state(prefix: string): Promise<unknown> {
  return await Promise.all(
    NAMES.map(async (name) => {
      const key = prefix + name;
      const type = await admin.type(key);
      const counter = counterOf(prefix, name);
      const last = (await admin.type(counter)) === 'string' && (await admin.get(counter));
      const rememberedMs = await admin.pttl(counter);
      return [
        ...[type, type === 'hash' && (await admin.hgetall(key)), rounded(await admin.pttl(key))],
        ...[rounded(last), rememberedMs > 1e9 ? 'until the clock is there' : rounded(rememberedMs)],
      ];
    }),
  );
}

/** Numbers from 0 to 1, reproducible by the seed (mulberry32). */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
