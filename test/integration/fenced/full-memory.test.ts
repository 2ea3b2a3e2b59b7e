// A server whose memory is full: a fenced lock is granted with a token, or not at all.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { FencedLock, Holdfast } from '../../../src/index.js';
import { connectedClient, nextEvent, rejectionOf } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { counterOf, expectGrowing, FENCED_KINDS, passThrough } from '../../support/fenced-locks.js';
import { empty, fill, FULL } from '../../support/full-memory.js';
import { loadScripts } from '../../support/lock-commands.js';
import { RedNodes } from '../../support/red-nodes.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { startMasters } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

const LONG = { lockWatchdogTimeout: 30_000, commandTimeout: 1_500 };

describe.each(FENCED_KINDS)('$title', ({ options }) => {
  const isFair = options.fair ?? false;
  let server: RedisServer;
  let redis: Redis;
  let one: Holdfast;
  let two: Holdfast;
  let name: string;
  const lockOf = (client: Holdfast): FencedLock => client.getFencedLock(name, options);
  const keysOfLock = (): Promise<number> =>
    redis.exists(name, `holdfast_line:{${name}}`, `holdfast_places:{${name}}`);

  beforeEach(async () => {
    server = await startRedis();
    await loadScripts(server.url);
    redis = new Redis(server.url);
    const options = { redis: server.url, ...LONG };
    [one, two] = await Promise.all([connectedClient(options), connectedClient(options)]);
    name = uniqueName('fenced');
  });

  afterEach(async () => {
    await Promise.all([one.close(), two.close()]);
    redis.disconnect();
    await server[Symbol.asyncDispose]();
  });

  it.each([
    ['at first', false],
    ['after others', true],
  ])('is not granted %s, leaves nothing, and reports why', async (_when, isKnown) => {
    const before = isKnown ? await passThrough(lockOf(one)) : undefined;
    await fill(redis);
    // Each by its own client: a server refuses nothing that follows a release in one call (see gather.lua), and the first acquisition may
    // leave something to release.
    for (const call of [
      () => lockOf(one).acquire({ wait: 1_200 }),
      () => lockOf(two).tryLockAndGetToken(),
    ]) {
      const error = (await rejectionOf(call())) as Error;
      expect(error).toMatchObject({ code: 'REDIS_UNAVAILABLE', lockName: name });
      expect(error.message).toMatch(FULL);
      expect(error.message).not.toContain('script');
    }
    await eventually(async () => {
      expect(await keysOfLock()).toBe(0);
    });
    const last = before === undefined ? null : String(before);
    expect(await redis.get(counterOf(name))).toBe(last);
  });

  it('is granted to a waiter as soon as there is memory again, with a larger token', async () => {
    const before = await passThrough(lockOf(one));
    await fill(redis);
    const waiting = [lockOf(one).acquire(), lockOf(two).tryAcquire({ wait: 20_000 })];
    await sleep(300); // they are refused, and ask again
    expect(await redis.exists(name)).toBe(0);
    await empty(redis);
    const first = (await Promise.race(waiting))!;
    await first.release();
    const [mine, theirs] = await Promise.all(waiting);
    await mine!.release();
    await theirs!.release();
    const tokens = [mine!.token, theirs!.token].sort((a, b) => Number(a - b));
    expectGrowing([before, ...tokens]);
    await eventually(async () => {
      expect(await keysOfLock()).toBe(0);
    });
  });

  it('that is held keeps its token; callers learn that it is held, or that memory is full', async () => {
    const hold = await lockOf(one).acquire();
    await fill(redis);
    expect(await lockOf(two).tryAcquire()).toBeUndefined();
    const wait = lockOf(two).acquire({ wait: 1_200 });
    if (isFair) {
      const error = await rejectionOf(wait);
      expect(error).toMatchObject({
        code: 'REDIS_UNAVAILABLE',
        message: expect.stringMatching(FULL) as string,
      });
    } else expect(await rejectionOf(wait)).toMatchObject({ code: 'LOCK_TIMEOUT' });
    expect(await redis.hgetall(name)).toEqual({ [hold.ownerId]: '1' });
    expect(await redis.get(counterOf(name))).toBe(String(hold.token));
    expect(await redis.exists(`holdfast_line:{${name}}`, `holdfast_places:{${name}}`)).toBe(0);
    await hold.extend(60_000);
    await hold.release();
    await empty(redis);
    expectGrowing([hold.token, await passThrough(lockOf(two))]);
  });

  it('is passed on to a waiter: at once if it is in line, otherwise when there is memory', async () => {
    const hold = await lockOf(one).acquire();
    const isWaiting = nextEvent(two, 'waiting');
    const next = lockOf(two).acquire();
    await isWaiting;
    await fill(redis);
    await hold.release();
    if (!isFair) {
      await eventually(async () => {
        expect(await redis.exists(name)).toBe(0);
      });
      expect(await redis.get(counterOf(name))).toBe(String(hold.token));
      await empty(redis);
    }
    const theirs = await next;
    expectGrowing([hold.token, theirs.token]);
    expect(await redis.get(counterOf(name))).toBe(String(theirs.token));
    const [count] = await redis.hvals(name);
    expect(Number(count)).toBe(1);
    await theirs.release();
    expect(await keysOfLock()).toBe(0);
    await empty(redis);
  });
});

it('a fenced Redlock works while the memory of a minority is full, and again after that of all was', async () => {
  await using servers = await startMasters(3);
  const nodes = new RedNodes(servers);
  await nodes.loadScripts();
  await nodes.unguarded();
  await using client = await nodes.client(LONG);
  const lock = client.fencedLock(uniqueName('fenced-red'));
  const admins = servers.map(({ url }) => new Redis(url));
  const tokens = [await passThrough(lock)];
  await fill(admins[0]!);
  for (let count = 0; count < 3; count++) tokens.push(await passThrough(lock));
  await Promise.all(admins.slice(1).map(fill));
  const before = await nodes.tokens(lock);
  const error = await rejectionOf(lock.tryAcquire());
  expect(error).toMatchObject({
    code: 'NO_QUORUM',
    message: expect.stringMatching(FULL) as string,
  });
  expect(await nodes.tokens(lock)).toEqual(before);
  await nodes.nothingLeft(lock);
  const waiting = lock.acquire({ wait: 20_000 });
  await Promise.all(admins.map(empty));
  const hold = await waiting;
  tokens.push(hold.token);
  await hold.release();
  expectGrowing(tokens);
  await nodes.nothingLeft(lock);
  for (const admin of admins) admin.disconnect();
});
