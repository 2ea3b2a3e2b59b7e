// The scripts that renew many leases at once: what each lock or place costs the server, and the outcome for every lease.
import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { scripts } from '../../../src/redis/scripts.generated.js';
import { loadScripts } from '../../support/lock-commands.js';
import { countCommands } from '../../support/recorded-commands.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { uniqueName } from '../../support/unique-name.js';

const LEASE_MS = 30_000;
const COUNT = 50;

let server: RedisServer;
let redis: Redis;
/** Whether PEXPIRE knows GT. */
let knowsGt: boolean;

beforeAll(async () => {
  server = await startRedis();
  await loadScripts(server.url);
  redis = new Redis(server.url);
  knowsGt = /^redis_version:([7-9]|\d\d)/m.test(await redis.info('server'));
}, 60_000);

afterAll(async () => {
  redis.disconnect();
  await server[Symbol.asyncDispose]();
});

/** How many changes a replica would have received while this ran, as far as they are counted. */
async function changesDuring(fn: () => Promise<unknown>): Promise<number> {
  const changes = async (): Promise<number> =>
    Number(/rdb_changes_since_last_save:(\d+)/.exec(await redis.info('persistence'))![1]);
  const before = await changes();
  await fn();
  return (await changes()) - before;
}

describe('a renewal of locks', () => {
  let locks: string[];

  beforeEach(() => {
    const name = uniqueName();
    locks = Array.from({ length: COUNT }, (_, index) => `${name}:${String(index)}`);
  });

  async function hold(lock: string, ttlMs: number, count = 1): Promise<void> {
    await redis.hset(lock, 'me:1', count);
    if (ttlMs > 0) await redis.pexpire(lock, ttlMs);
  }

  async function renew(leaseMs: number, ...names: string[]): Promise<unknown> {
    const keys = names.flatMap((lock) => [lock, `holdfast_forced:{${lock}}`]);
    const owners = names.map(() => 'me:1');
    return await redis.evalsha(scripts.renew.sha1, keys.length, ...keys, leaseMs, ...owners);
  }

  it('runs two commands for each lock, or three where PEXPIRE does not know GT', async () => {
    await Promise.all(locks.map((lock) => hold(lock, 20_000)));
    const counts = await countCommands(server.url, async () => {
      expect(await renew(LEASE_MS, ...locks)).toBe('kept');
    });
    const each = { hget: COUNT, pexpire: COUNT };
    expect(counts).toEqual({ evalsha: 1, ...each, ...(knowsGt ? {} : { pttl: COUNT }) });
    for (const lock of locks) expect(await redis.pttl(lock)).toBeGreaterThan(20_000);
  });

  it('extends a lease that ends sooner, shortens none that ends later, and gives one to a lock without one', async () => {
    const [sooner, later, endless, last] = locks as [string, string, string, string];
    await Promise.all([hold(sooner, 20_000), hold(later, 60_000), hold(last, 20_000)]);
    await hold(endless, -1);
    expect(await renew(LEASE_MS, sooner, later, endless, last)).toBe('kept');
    expect(await redis.pttl(sooner)).toBeGreaterThan(20_000);
    expect(await redis.pttl(sooner)).toBeLessThanOrEqual(LEASE_MS);
    expect(await redis.pttl(later)).toBeGreaterThan(50_000);
    expect(await redis.pttl(later)).toBeLessThanOrEqual(60_000);
    expect(await redis.pttl(endless)).toBeGreaterThan(20_000);
    expect(await redis.pttl(endless)).toBeLessThanOrEqual(LEASE_MS);
    expect(await redis.pttl(last)).toBeGreaterThan(20_000);
  });

  it('writes even if a lease already ends later, since WAIT waits for writes', async () => {
    const [later, equal] = locks as [string, string];
    await hold(later, 60_000);
    expect(await changesDuring(() => renew(LEASE_MS, later))).toBe(1);
    await hold(equal, 20_000);
    // Twice in one call, during which the server's clock does not move: the second finds the very same end.
    expect(await changesDuring(() => renew(LEASE_MS, equal, equal))).toBe(2);
  });

  it.each([20_000, 60_000])(
    'turns a count of 0 into one that counts (lease: %d ms)',
    async (ttlMs) => {
      const [handedOver] = locks as [string];
      await hold(handedOver, ttlMs, 0);
      expect(await renew(LEASE_MS, handedOver)).toBe('kept');
      expect(await redis.hgetall(handedOver)).toEqual({ 'me:1': '01' });
      expect(await redis.pttl(handedOver)).toBeGreaterThan(Math.max(ttlMs, LEASE_MS) - 10_000);
    },
  );

  it('that only checks writes nothing', async () => {
    const [held, handedOver] = locks as [string, string];
    await hold(held, 20_000);
    await hold(handedOver, 20_000, 0);
    const changes = await changesDuring(async () => {
      expect(await renew(0, held, handedOver)).toBe('kept');
    });
    expect(changes).toBe(0);
    expect(await redis.hgetall(handedOver)).toEqual({ 'me:1': '0' });
    expect(await redis.pttl(held)).toBeLessThanOrEqual(20_000);
  });

  it('reports for each lost lock how it was lost, and renews the others', async () => {
    const [taken, forced, deleted] = locks as [string, string, string];
    const [foreign, held] = locks.slice(3) as [string, string];
    await redis.hset(taken, 'other:1', 1);
    await redis.set(`holdfast_forced:{${forced}}`, 'me:1');
    await redis.set(foreign, 'a string');
    await hold(held, 20_000);
    const replies = await renew(LEASE_MS, taken, forced, deleted, foreign, held);
    expect(replies).toEqual(['taken', 'forced', 'deleted', 'taken', 'kept']);
    expect(await redis.pttl(held)).toBeGreaterThan(20_000);
    expect(await redis.pttl(taken)).toBe(-1);
  });
});

describe('a renewal of places in line', () => {
  let lock: string;
  let line: string;
  let places: string;

  beforeEach(() => {
    lock = uniqueName();
    line = `holdfast_line:{${lock}}`;
    places = `holdfast_places:{${lock}}`;
  });

  /** Adds `count` waiters in line for a lock that somebody else holds. */
  async function standInLine(count: number, ttlMs = 20_000): Promise<string[]> {
    const owners = Array.from({ length: count }, (_, index) => `me:${String(index)}`);
    await redis.hset(lock, 'other:1', 1);
    for (const [index, owner] of owners.entries()) {
      await redis.zadd(line, index + 1, owner);
      await redis.hset(places, owner, `1 ${String(Date.now() + ttlMs)} 0 1 token`);
    }
    await Promise.all([lock, line, places].map((key) => redis.pexpire(key, ttlMs)));
    return owners;
  }

  async function renew(owners: readonly string[], leaseMs = LEASE_MS): Promise<unknown[]> {
    const keys = owners.flatMap(() => [lock, line, places]);
    const args = [leaseMs, 7, ...owners.flatMap((owner) => [owner, 1])];
    const { sha1 } = scripts.renewPlaces;
    return (await redis.evalsha(sha1, keys.length, ...keys, ...args)) as unknown[];
  }

  it('runs four commands for each place, and the cost of the line once', async () => {
    const owners = await standInLine(COUNT);
    const counts = await countCommands(server.url, () => renew(owners));
    const each = { hexists: COUNT, hget: COUNT, zscore: COUNT, hset: COUNT };
    const once = { evalsha: 1, time: 1, pexpire: 2, pttl: knowsGt ? 1 : 3, hlen: 1, hgetall: 1 };
    expect(counts).toEqual({ ...each, ...once });
    for (const key of [line, places]) expect(await redis.pttl(key)).toBeGreaterThan(20_000);
    for (const place of await redis.hvals(places)) expect(place).toMatch(/^7 \d+ 0 1 token$/);
  });

  it('never shortens the lifetime of a line', async () => {
    const owners = await standInLine(2, 60_000);
    expect(await renew(owners)).toHaveLength(2);
    for (const key of [line, places]) expect(await redis.pttl(key)).toBeGreaterThan(50_000);
  });

  it('tells the waiters behind a holder that was handed the lock how long it is held now', async () => {
    const owners = await standInLine(3);
    await redis.del(lock);
    await redis.hset(lock, owners[1]!, 1);
    await redis.pexpire(lock, 5_000);
    const [before, at, after] = await renew(owners);
    expect(before).toBeLessThanOrEqual(5_000);
    expect(at).toBe('yours');
    expect(after).toBeGreaterThan(20_000);
  });

  it('reports that the lock is free, and that a place is gone', async () => {
    const owners = await standInLine(3);
    await redis.del(lock);
    await redis.zrem(line, owners[1]!);
    expect(await renew(owners)).toEqual([-2, 'gone', -2]);
  });
});
