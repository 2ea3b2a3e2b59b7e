// A server whose memory is full and that evicts nothing refuses new keys. Existing holds are kept, and can be released and handed over.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Hold, Holdfast } from '../../../src/index.js';
import { connectedClient, eventsOf, nextEvent, rejectionOf } from '../../support/clients.js';
import { empty, fill, FULL } from '../../support/full-memory.js';
import { loadScripts } from '../../support/lock-commands.js';
import { RedNodes, type RedClient } from '../../support/red-nodes.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { startMasters } from '../../support/redis-topologies.js';
import { scripts } from '../../../src/redis/scripts.generated.js';
import { commandsFor, SCENARIOS } from '../../support/script-scenarios.js';
import { uniqueName } from '../../support/unique-name.js';

/** The calls of each script that make a new key and so are refused. All other calls keep, end or query an existing one: those must run. */
const REFUSED: Readonly<Record<string, readonly string[]>> = {
  acquire: [
    'of a free lock',
    'of a free lock that may be kept',
    'fenced, of a free lock',
    'fenced, after others',
    'fenced, for ever',
  ],
  confirm: [],
  forceUnlock: [],
  gather: [
    'to acquire a free lock',
    'to acquire it for longer',
    'to acquire it so that it may be kept',
  ],
  handOver: [],
  join: [
    'of the line for a lock that is kept',
    'of a free lock',
    'of a line',
    'at its end',
    'with its ticket',
    'fenced, of a free lock',
    'fenced, of a line',
  ],
  inspect: [],
  look: [],
  raiseToken: ['of a larger one', 'of a larger one, for ever', 'of the first'],
  reenter: [],
  release: [],
  releaseTo: [],
  remember: ['of the first'],
  renew: [],
  renewPlaces: [],
  vote: [
    'for a free lock',
    'for a free lock, known',
    'for a free lock, for less',
    'of a fenced lock',
  ],
  waiters: [],
  weightedAdopt: [],
  weightedForce: [],
  weightedHandOver: [],
  weightedJoin: [
    'of what nobody has',
    'of what others have, too',
    'of what was set',
    'of a line',
    'at its end',
    'with its ticket',
    'without a place, of a mere line',
  ],
  weightedLast: [],
  weightedLook: [],
  weightedRenew: [],
  weightedRenewPlaces: [],
  weightedSetCapacity: ['of one in use', 'again'],
};

const CALLS = SCENARIOS.map((scenario) => ({
  ...scenario,
  isRefused:
    REFUSED[scenario.script]?.some((call) => scenario.title === `${scenario.script} ${call}`) ??
    false,
}));

type Call = (typeof CALLS)[number];

/** The server has the keys of the preparation, and nothing else. */
async function prepare({ before }: Call): Promise<void> {
  await redis.flushall();
  for (const [name, ...args] of commandsFor(before, Date.now())) await redis.call(name, ...args);
}

function run({ script, keys, args }: Call): Promise<unknown> {
  const { source } = scripts[script];
  return redis.eval(source, keys.length, ...keys, ...args).catch((error: unknown) => error);
}

/** All keys with their contents, and their ends, where they expire together; times in units of 20 s from now. */
async function state(): Promise<Record<string, unknown>> {
  const names = await redis.keys('*');
  const contents = names.map(async (key) => {
    const kind = await redis.type(key);
    const content =
      kind === 'hash'
        ? Object.entries(await redis.hgetall(key)).sort()
        : kind === 'zset'
          ? await redis.zrange(key, '0', '-1', 'WITHSCORES')
          : await redis.get(key);
    const ttlMs = await redis.pttl(key);
    const isOfOne = kind === 'string' || (key === 'lock' && !names.includes('leases'));
    return [key, isOfOne ? roughly(ttlMs) : Math.sign(ttlMs), inRoughTimes(content)] as const;
  });
  const kept = await Promise.all(contents);
  return Object.fromEntries(kept.map(([key, ttl, content]) => [key, [ttl, content]]));
}

function roughly(ms: number): number {
  return Math.round(ms / 20_000) * 20;
}

/** A token is a time as well, in microseconds. */
function inRoughTimes(content: unknown): string {
  return JSON.stringify(content).replace(/\d{13,}/g, (at) =>
    String(roughly(Number(at.slice(0, 13)) - Date.now())),
  );
}

let server: RedisServer;
let redis: Redis;
let listener: Redis;

beforeAll(async () => {
  server = await startRedis();
  redis = new Redis(server.url);
  listener = new Redis(server.url);
  await listener.subscribe('grants:listening', 'grants:deaf');
}, 60_000);

afterAll(async () => {
  for (const client of [redis, listener]) client.disconnect();
  await server[Symbol.asyncDispose]();
});

beforeEach(() => empty(redis));

it('each script is listed as one that needs memory for some of its calls, or for none', () => {
  const names = Object.keys(scripts);
  expect(Object.keys(REFUSED).sort()).toEqual(names.sort());
  expect(new Set(CALLS.map(({ title }) => title.split(' ')[0]))).toEqual(new Set(names));
  const refused = Object.entries(REFUSED).flatMap(([name, calls]) =>
    calls.map((call) => `${name} ${call}`),
  );
  expect(
    CALLS.filter(({ isRefused }) => isRefused)
      .map(({ title }) => title)
      .sort(),
  ).toEqual(refused.sort());
});

describe.each(CALLS.filter(({ isRefused }) => !isRefused))('$title', (call) => {
  it('does the same in a full server as in any other', async () => {
    await prepare(call);
    expect(await run(call)).not.toBeInstanceOf(Error);
    const usual = await state();
    await prepare(call);
    await fill(redis);
    const reply = await run(call);
    expect(reply).not.toBeInstanceOf(Error);
    expect(reply).not.toEqual([null]);
    expect(await state()).toEqual(usual);
  });
});

describe.each(CALLS.filter(({ isRefused }) => isRefused))('$title', (call) => {
  it('is refused by a full server with the reason, and changes nothing', async () => {
    await prepare(call);
    const before = await state();
    await fill(redis);
    const reply = await run(call);
    // The answer to a gathered call is null: it is sent again alone to learn the reason.
    if (Array.isArray(reply)) expect(reply).toEqual([null]);
    else expect(reply).toMatchObject({ message: expect.stringMatching(FULL) as string });
    expect(await state()).toEqual(before);
  });
});

describe('a hold when the memory is full', () => {
  const LEASE_MS = 4_000; // long enough for a busy machine
  type Held = Pick<Hold, 'remaining' | 'extend' | 'release'>;
  type Acquire = (client: Holdfast, name: string) => Promise<Held>;
  type AcquireFromMost = (client: RedClient, name: string) => Promise<Held>;

  /** How a holder acquires the lock, and how a waiter does. A waiter in line on the server gets it there. */
  const IN_LINE: Readonly<Record<string, readonly [Acquire, Acquire?]>> = {
    'a fair lock': [(client, name) => client.getFairLock(name).acquire()],
    'a fair lock with a token': [
      (client, name) => client.getFencedLock(name, { fair: true }).acquire(),
    ],
    'a fair lock with a fixed lease next': [
      (client, name) => client.getFairLock(name).acquire(),
      (client, name) => client.getFairLock(name).acquire({ lease: 60_000 }),
    ],
    'a permit': [(client, name) => client.getSemaphore(name, { permits: 1 }).acquire()],
    'a permit with a fixed lease next': [
      (client, name) => client.getSemaphore(name, { permits: 1 }).acquire(),
      (client, name) => client.getSemaphore(name, { permits: 1 }).acquire({ lease: 60_000 }),
    ],
    'a read lock': [
      (client, name) => client.getReadWriteLock(name).readLock().acquire(),
      (client, name) => client.getReadWriteLock(name).writeLock().acquire(),
    ],
    'a write lock': [
      (client, name) => client.getReadWriteLock(name).writeLock().acquire(),
      (client, name) => client.getReadWriteLock(name).readLock().acquire(),
    ],
  };
  /** A caller that wants one of these needs a new key. */
  const ANEW: Readonly<Record<string, Acquire>> = {
    'a lock': (client, name) => client.getLock(name).acquire(),
    'a lock with a token': (client, name) => client.getFencedLock(name).acquire(),
    'two at once': (client, name) =>
      client
        .getMultiLock(client.getLock(`${name}:a`), client.getReadWriteLock(`${name}:b`).writeLock())
        .acquire(),
  };
  const OF_MASTERS: Readonly<Record<string, AcquireFromMost>> = {
    'a Redlock': (client, name) => client.lock(name).acquire(),
    'a Redlock with a token': (client, name) => client.fencedLock(name).acquire(),
  };

  it('is kept for three leases and extended, and then goes to the waiter: at once if it is in line, otherwise when there is memory', async () => {
    await using servers = await startMasters(3);
    const nodes = new RedNodes(servers);
    await nodes.loadScripts();
    await nodes.unguarded();
    await using one = await nodes.client({ lockWatchdogTimeout: LEASE_MS });
    await using two = await nodes.client({ lockWatchdogTimeout: LEASE_MS });
    const clients = [...one.members, ...two.members];
    const lost = clients.map((client) => eventsOf(client, 'lost'));
    for (const client of clients) client.on('error', () => undefined); // otherwise the refusals of the waiters cause a warning
    const courses: {
      what: string;
      hold: Held;
      next: Promise<Held>;
      isInLine: boolean;
    }[] = [];
    const begin = async (
      what: string,
      acquire: AcquireFromMost,
      wait = acquire,
      isInLine = false,
    ): Promise<void> => {
      const name = uniqueName('full');
      const hold = await acquire(one, name);
      const isWaiting = nextEvent(two.holdfast, 'waiting');
      const next = wait(two, name);
      await isWaiting;
      courses.push({ what, hold, next, isInLine });
    };
    const ofFirst =
      (acquire: Acquire): AcquireFromMost =>
      ({ holdfast }, name) =>
        acquire(holdfast, name);
    for (const [what, [acquire, wait = acquire]] of Object.entries(IN_LINE))
      await begin(what, ofFirst(acquire), ofFirst(wait), true);
    for (const [what, acquire] of Object.entries(ANEW)) await begin(what, ofFirst(acquire));
    for (const [what, acquire] of Object.entries(OF_MASTERS)) await begin(what, acquire);
    expect(await nodes.ask((admin) => fill(admin).then(() => 'full'))).not.toContain(undefined);
    await sleep(3 * LEASE_MS);
    expect(lost.flat()).toEqual([]);
    for (const { what, hold } of courses) {
      expect(hold.remaining(), what).toBeGreaterThan(0);
      await hold.extend(2 * LEASE_MS);
      expect(hold.remaining(), what).toBeGreaterThan(LEASE_MS);
      await hold.release();
    }
    for (const { next, isInLine } of courses) if (isInLine) await (await next).release();
    await nodes.ask(empty);
    for (const { next, isInLine } of courses) if (!isInLine) await (await next).release();
    expect(lost.flat()).toEqual([]);
  });
});

it('a full server refuses every kind of new key, and the error gives the reason', async () => {
  await loadScripts(server.url);
  await using client = await connectedClient({ redis: server.url, commandTimeout: 1_500 });
  await fill(redis);
  const calls: Readonly<Record<string, (name: string) => Promise<unknown>>> = {
    'a lock': (name) => client.getLock(name).tryAcquire(),
    'a place in line': (name) => client.getFairLock(name).acquire({ wait: 1_500 }),
    'a token': (name) => client.getFencedLock(name).tryLockAndGetToken(),
    permits: (name) => client.getSemaphore(name, { permits: 2 }).tryAcquire(),
    'a number of permits': (name) => client.getSemaphore(name, { permits: 2 }).setPermits(3),
    'a read lock': (name) => client.getReadWriteLock(name).readLock().tryLock(),
    'a write lock': (name) => client.getReadWriteLock(name).writeLock().tryLock(),
  };
  const refuse = async ([what, call]: [
    string,
    (name: string) => Promise<unknown>,
  ]): Promise<void> => {
    const name = uniqueName('full');
    const error = (await rejectionOf(call(name))) as Error;
    expect(error, what).toMatchObject({ code: 'REDIS_UNAVAILABLE', lockName: name });
    expect(error.message, what).toMatch(FULL);
    expect(error.message, what).not.toContain('script');
    expect(await redis.keys(`*${name}*`), what).toEqual([]);
  };
  await Promise.all(Object.entries(calls).map(refuse));
  await empty(redis);
});
