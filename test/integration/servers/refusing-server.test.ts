// A server that is up and refuses: one whose memory is full still serves those who hold locks and stand in line, and whoever it
// sends away learns why.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Hold, Holdfast } from '../../../src/index.js';
import {
  connectedClient,
  eventsOf,
  newClient,
  nextEvent,
  rejectionOf,
} from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { expectWarnings } from '../../support/expected-warnings.js';
import { FairLine } from '../../support/fair-line.js';
import { fill } from '../../support/full-memory.js';
import { loadScripts } from '../../support/lock-commands.js';
import { gate } from '../../support/occupancy.js';
import type { Treatment } from '../../support/proxy-link.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { startProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

// Callers wait for their own client, which holds the lock outside any run.
expectWarnings(/^lock ".*" has been waited for /);

const LEASE_MS = 3_000;

let server: RedisServer;
let redis: Redis;
let client: Holdfast;
let other: Holdfast;

beforeEach(async () => {
  server = await startRedis();
  await loadScripts(server.url);
  redis = new Redis(server.url);
  const options = { redis: server.url, lockWatchdogTimeout: LEASE_MS, commandTimeout: 800 };
  [client, other] = [await connectedClient(options), await connectedClient(options)];
});

afterEach(async () => {
  await Promise.all([client.close(), other.close()]);
  redis.disconnect();
  await server[Symbol.asyncDispose]();
});

describe('a memory that is full', () => {
  let hold: Hold;

  beforeEach(async () => {
    hold = await client.getLock(uniqueName()).acquire();
  });

  it('refuses a new lock, and the error says so', async () => {
    await fill(redis);
    const error = await rejectionOf(client.getLock(uniqueName()).acquire({ wait: 300 }));
    expect(error).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
    expect(String(error)).toMatch(
      /refused for 300 ms \(last error: OOM command not allowed [^)]*\)/,
    );
    expect(String(error)).not.toMatch(/did not answer|script/);
    await hold.release();
  });

  it('lets a hold be extended, also to less than it has', async () => {
    await fill(redis);
    await hold.extend(60_000);
    expect(await redis.pttl(hold.lockName)).toBeGreaterThan(50_000);
    await hold.extend(10_000);
    expect(hold.remaining()).toBeGreaterThan(50_000);
    await hold.release();
  });

  it('lets a hold be entered again, and left', async () => {
    const lock = client.getLock(hold.lockName);
    await fill(redis);
    await hold.run(() =>
      lock.withLock({ lease: 10 }, async () => {
        expect(await redis.hvals(lock.name)).toEqual(['2']);
      }),
    );
    expect(await redis.hvals(lock.name)).toEqual(['1']);
    await hold.release();
    expect(await redis.exists(lock.name)).toBe(0);
  });

  it('lets watched holds be renewed', async () => {
    await fill(redis);
    await nextEvent(client, 'renewed');
    expect(await redis.pttl(hold.lockName)).toBeGreaterThan(LEASE_MS / 2);
    await hold.release();
  });

  it('lets a lock be freed by force', async () => {
    await fill(redis);
    const lost = nextEvent(client, 'lost');
    expect(await other.getLock(hold.lockName).forceUnlock()).toBe(true);
    expect(await lost).toMatchObject({ lossReason: 'forced' });
  });

  it('lets places in line be renewed, and the lock be handed to them, also with fixed leases', async () => {
    const line = new FairLine(redis, hold.lockName);
    const one = await line.join(other, 'one');
    const two = await line.join(other, 'two', { lease: 30_000 });
    const three = await line.join(client, 'three');
    await fill(redis);
    const placesAtMs = await expiries(line);
    await sleep(LEASE_MS); // without a renewal they would be over
    for (const [owner, atMs] of await expiries(line))
      expect(atMs).toBeGreaterThan(placesAtMs.get(owner)!);
    await hold.release();
    await Promise.all([one.done, two.done, three.done]);
    expect(line.turns).toEqual(['one', 'two', 'three']);
  });

  it('lets a free lock be handed to who stands in line for it', async () => {
    const line = new FairLine(redis, hold.lockName);
    const next = await line.join(other, 'next');
    await fill(redis);
    await redis.del(hold.lockName);
    await next.done;
    expect(await rejectionOf(hold.release())).toMatchObject({ code: 'LOCK_LOST' });
  });

  async function expiries({ keys }: FairLine): Promise<Map<string, number>> {
    const places = Object.entries(await redis.hgetall(keys[2]));
    return new Map(places.map(([owner, place]) => [owner, Number(place.split(' ')[1])]));
  }
});

it('a server that is busy with a script is told as that', async () => {
  await redis.config('SET', 'lua-time-limit', '50');
  const running = redis.eval('while true do end', 0).catch(() => 'killed');
  await sleep(200);
  const error = await rejectionOf(client.getLock(uniqueName()).acquire({ wait: 300 }));
  expect(error).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
  expect(String(error)).toMatch(/refused for 300 ms \(last error: BUSY /);
  const killer = new Redis(server.url, { enableReadyCheck: false });
  await killer.call('SCRIPT', 'KILL');
  killer.disconnect();
  expect(await running).toBe('killed');
});

it('a server that is busy by the time it is greeted is told as that', async () => {
  await using proxy = await startProxy(server.port);
  const greeted = gate();
  const instead = "return redis.error_reply('BUSY Redis is busy running a script.')";
  const refusal: Treatment = { kind: 'refuse', then: 'cut', instead, done: greeted.open };
  proxy.treatCommands((args) => (args.join(' ') === 'info server' ? refusal : undefined));
  await using late = newClient({ redis: proxy.url, lockWatchdogTimeout: 30_000 });
  await greeted.opened;
  const error = await rejectionOf(late.getLock(uniqueName()).acquire({ wait: 500 }));
  expect(error).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
  expect(String(error)).toMatch(/refused for 500 ms \(last error: BUSY /);
  proxy.treatCommands();
  await late.getLock(uniqueName()).withLock({ wait: 10_000 }, () => undefined);
});

it('a server with too many clients is told as that, once', async () => {
  await redis.config('SET', 'maxclients', '1'); // as many as there are stay
  const late = newClient({ redis: server.url });
  const errors = eventsOf(late, 'error');
  await eventually(() => {
    expect(String(errors.at(-1)?.error)).toContain('max number of clients reached');
  });
  const error = await rejectionOf(late.getLock(uniqueName()).acquire({ wait: 500 }));
  expect(error).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
  expect(String(error)).toMatch(/refused for 500 ms \(last error: ERR max number of clients/);
  await sleep(1_500); // some attempts
  expect(errors.length).toBeLessThanOrEqual(3);
  await redis.config('SET', 'maxclients', '100');
  await late.getLock(uniqueName()).withLock({ wait: 10_000 }, () => undefined);
  await late.close();
});
