// A client of one server, which is the only master of a cluster: all locks are there, in many slots.
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import type { Hold, Holdfast, PermitHold } from '../../../src/index.js';
import { SLOT_COUNT } from '../../../src/redis/slots.js';
import { eventsOf, newClient } from '../../support/clients.js';
import { eventually } from '../../support/eventually.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { uniqueName } from '../../support/unique-name.js';

const LEASE_MS = 1_500;

let server: RedisServer;
let client: Holdfast;
let other: Holdfast;

beforeAll(async () => {
  server = await startRedis({ args: ['--cluster-enabled', 'yes'] });
  const redis = new Redis(server.url);
  await redis.call('CLUSTER', 'ADDSLOTS', ...Array.from({ length: SLOT_COUNT }, (_, i) => i));
  await eventually(async () => {
    expect(await redis.call('CLUSTER', 'INFO')).toContain('cluster_state:ok');
  });
  redis.disconnect();
});

afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

beforeEach(() => {
  const options = { redis: server.url, lockWatchdogTimeout: LEASE_MS };
  [client, other] = [newClient(options), newClient(options)];
});

afterEach(async () => {
  await Promise.all([client.close(), other.close()]);
});

const names = (): string[] => Array.from({ length: 8 }, () => uniqueName());

/** How often each of them was renewed. */
function renewals(of: Holdfast, lockNames: readonly string[]): () => number[] {
  const told = eventsOf(of, 'renewed');
  return () => lockNames.map((name) => told.filter(({ lockName }) => lockName === name).length);
}

const KINDS: Record<string, (name: string) => Promise<Hold | PermitHold>> = {
  locks: (name) => client.getLock(name).acquire(),
  'fair locks': (name) => client.getFairLock(name).acquire(),
  'fenced locks': (name) => client.getFencedLock(name).acquire(),
  semaphores: (name) => client.getSemaphore(name, { permits: 1 }).acquire(),
  'write locks': (name) => client.getReadWriteLock(name).writeLock().acquire(),
};

it.each(Object.entries(KINDS))(
  '%s of several slots are all kept, and nothing is told',
  async (_, acquire) => {
    const told = [...(['lost', 'error'] as const)].map((name) => eventsOf(client, name));
    const mine = names();
    const counts = renewals(client, mine);
    const holds = await Promise.all(mine.map(acquire));
    await expect.poll(() => Math.min(...counts()), { timeout: 15_000 }).toBeGreaterThan(3);
    await Promise.all(holds.map((hold) => hold.release()));
    expect(told).toEqual([[], []]);
  },
);

it('places in lines of several slots are all kept', async () => {
  const mine = names();
  const holds = await Promise.all(mine.map((name) => other.getFairLock(name).acquire()));
  const [waiting, errors] = [eventsOf(client, 'waiting'), eventsOf(client, 'error')];
  const theirs = mine.map((name) => client.getFairLock(name).acquire());
  await expect.poll(() => waiting.length).toBe(mine.length);
  const counts = renewals(other, mine);
  await expect.poll(() => Math.min(...counts()), { timeout: 15_000 }).toBeGreaterThan(6);
  await Promise.all(holds.map((hold) => hold.release()));
  for (const hold of await Promise.all(theirs)) await hold.release();
  expect(errors).toEqual([]);
});

it('Redlocks of several slots are all kept', async () => {
  const mine = names();
  const lost = eventsOf(client, 'lost');
  const counts = renewals(client, mine);
  const holds = await Promise.all(
    mine.map((name) => client.getRedLock(client.getLock(name), { restartGuard: false }).acquire()),
  );
  await expect.poll(() => Math.min(...counts()), { timeout: 15_000 }).toBeGreaterThan(3);
  await Promise.all(holds.map((hold) => hold.release()));
  expect(lost).toEqual([]);
});

it('calls that go together go apart for each slot once the server has refused them', async () => {
  const acquireAll = async (): Promise<void> => {
    const holds = await Promise.all(names().map((name) => client.getLock(name).acquire()));
    await Promise.all(holds.map((hold) => hold.release()));
  };
  await client.ping();
  const none = await refusals();
  await acquireAll();
  const few = await refusals();
  expect(few).toBeGreaterThan(none);
  await acquireAll();
  expect(await refusals()).toBe(few);
});

/** How often the server has refused keys of several slots. */
async function refusals(): Promise<number> {
  const redis = new Redis(server.url);
  const [, count = '0'] =
    /^errorstat_CROSSSLOT:count=(\d+)/m.exec(await redis.info('errorstats')) ?? [];
  redis.disconnect();
  return Number(count);
}
