// Times that were probably meant in seconds: a lease that others would soon get, and a wait that no answer can keep.
import Fastify from 'fastify';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { onePerTick } from '../../../src/adapters/cron.js';
import holdfastPlugin from '../../../src/adapters/fastify.js';
import { Holdfast, type Lock } from '../../../src/index.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { eventsOf, rejectionOf } from '../../support/clients.js';

let redis: MemoryRedis;
let client: Holdfast;
let other: Holdfast;
let warned: string[];

beforeEach(async () => {
  redis = new MemoryRedis();
  client = new Holdfast({ redis });
  other = new Holdfast({ redis });
  for (const each of [client, other]) await each.ping();
  warned = [];
  vi.spyOn(process, 'emitWarning').mockImplementation((warning) => {
    warned.push(String(warning));
  });
});

afterEach(async () => {
  await redis.advance(1_000);
  await Promise.all([client.close(), other.close()]);
  vi.restoreAllMocks();
});

const kinds: [string, () => Lock][] = [
  ['reentrant lock', () => client.getLock('a')],
  ['kept lock', () => client.getLock('a', { keep: 1_000 })],
  ['fair lock', () => client.getFairLock('a')],
  ['fenced lock', () => client.getFencedLock('a')],
  ['read lock', () => client.getReadWriteLock('a').readLock()],
  ['write lock', () => client.getReadWriteLock('a').writeLock()],
  ['MultiLock', () => client.getMultiLock(client.getLock('a'), client.getLock('b'))],
  ['Redlock', () => client.getRedLock(client.getLock('a'), { restartGuard: false })],
];

const calls: [string, (lock: Lock) => Promise<unknown>][] = [
  ['lock(30)', (lock) => lock.lock(30)],
  ['lock({ lease: 30 })', (lock) => lock.lock({ lease: 30 })],
  ['tryLock(0, 30)', (lock) => lock.tryLock(0, 30)],
  ['acquire({ lease: 30 })', (lock) => lock.acquire({ lease: 30 })],
  ['tryAcquire({ lease: 30 })', (lock) => lock.tryAcquire({ lease: 30 })],
  ['withLock({ lease: 30 })', (lock) => lock.withLock({ lease: 30 }, () => undefined)],
];

describe.each(kinds)('a lease of a few milliseconds of a %s', (_, lockOf) => {
  it.each(calls)('by %s is warned of, once a lock', async (_call, call) => {
    const told = eventsOf(client, 'warning');
    for (let round = 0; round < 2; round++) {
      await call(lockOf());
      await redis.advance(200);
    }
    const message = `lock "${lockOf().name}": the lease is 30 milliseconds, which is very short: if seconds were meant, give 30000`;
    expect(told).toEqual([{ lockName: lockOf().name, message }]);
    expect(warned).toEqual([message]);
  });

  it('is warned of in extend(), and as lockAtLeastFor', async () => {
    const hold = await lockOf().acquire();
    await hold.extend(99);
    await hold.release();
    expect(warned).toEqual([expect.stringContaining('": the lease of extend() is 99 millisec')]);
    warned = [];
    const second = new Holdfast({ redis }).getLock('second');
    await second.withLock({ lockAtLeastFor: 5 }, () => undefined);
    expect(warned).toEqual([expect.stringContaining('lock "second": lockAtLeastFor is 5 millis')]);
  });
});

it('short times of permits, exports, adoptions, ticks and routes are warned of', async () => {
  const semaphore = client.getSemaphore('permits', { permits: 2 });
  await semaphore.withPermits({ lease: 30 }, () => undefined);
  expect(warned).toEqual([expect.stringMatching(/^semaphore "permits": the lease is 30 /)]);

  const hold = await client.getLock('exported').acquire();
  const text = await hold.export({ lease: 30 });
  const adopted = await other.adopt(text, { lease: 50 });
  expect(warned.slice(1)).toEqual([
    expect.stringMatching(/^lock "exported": the lease of export\(\) is 30 /),
    expect.stringMatching(/^lock "exported": the lease is 50 /),
  ]);
  await adopted.release();

  await onePerTick(client, 'tick', { lockAtLeastFor: 60 }, () => undefined)();
  expect(warned.slice(3)).toEqual([expect.stringMatching(/^lock "tick": lockAtLeastFor is 60 /)]);

  const app = Fastify();
  await app.register(holdfastPlugin, { client });
  app.post('/', { config: { lock: { name: 'route', lease: 60 } } }, () => 'done');
  await app.inject({ method: 'POST', url: '/' });
  await app.close();
  expect(warned.slice(4)).toEqual([expect.stringMatching(/^lock "route": the lease is 60 /)]);
});

it('a rest of lockAtLeastFor with which an adoption goes on is no short time', async () => {
  const hold = await client.getLock('a').acquire({ lockAtLeastFor: 1_000 });
  await redis.advance(950);
  const adopted = await other.adopt(await hold.export());
  await adopted.release();
  expect(warned).toEqual([]);
});

it('none is warned of from 100 ms on, for a lease that is left out, or if the call is refused', async () => {
  const lock = client.getLock('a');
  for (const lease of [100, -1, undefined]) await lock.withLock({ lease }, () => undefined);
  await lock.withLock({ lockAtLeastFor: 0 }, () => undefined);
  await expect(lock.acquire({ lease: 0 })).rejects.toMatchObject({ code: 'INVALID_OPTION' });
  expect(warned).toEqual([]);
});

describe('a wait of a few milliseconds', () => {
  const doubt = '(that is milliseconds: were seconds meant?)';

  it.each(kinds)('is named in the error of a %s that another owner has', async (kind, lockOf) => {
    const isHalf = kind === 'read lock' || kind === 'write lock';
    const held = isHalf ? other.getReadWriteLock('a').writeLock() : other.getLock('a');
    const theirs = await held.acquire();
    for (const call of [
      () => lockOf().acquire({ wait: 5 }),
      () => lockOf().withLock({ wait: 5 }, () => undefined),
    ]) {
      const refused = rejectionOf(call());
      await redis.advance(300);
      expect(await refused).toMatchObject({ code: 'LOCK_TIMEOUT' });
      expect(String(await refused)).toContain(`not acquired within 5 ms ${doubt}: `);
    }
    await theirs.release();
  });

  it('is to blame if no answer came in that time, and not Redis', async () => {
    redis.delay(1_000);
    const refused = rejectionOf(client.getLock('a').acquire({ wait: 5 }));
    await redis.advance(3_000);
    redis.delay(0);
    expect(await refused).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
    expect(String(await refused)).toBe(
      `UnavailableError: lock "a" not acquired: the wait of 5 ms was over before Redis answered ${doubt}`,
    );
  });

  it('is named in the error of a Redlock whose masters could not decide', async () => {
    const down = [0, 1].map(() => new MemoryRedis({ timeOf: redis }));
    const others = down.map((each) => new Holdfast({ redis: each }).on('error', () => undefined));
    for (const each of others) await each.ping();
    for (const each of down) each.down();
    const locks = [client, ...others].map((each) => each.getLock('a'));
    const refused = rejectionOf(client.getRedLock(...locks).acquire({ wait: 5 }));
    await redis.advance(1_000);
    expect(await refused).toMatchObject({ code: 'NO_QUORUM' });
    expect(String(await refused)).toContain(`not acquired within 5 ms ${doubt}: `);
    await Promise.all([redis.advance(30_000), ...others.map((each) => each.close())]);
  });

  it('of a client is named as that of a call', async () => {
    const hasty = new Holdfast({ redis, wait: 5 });
    await hasty.ping();
    const theirs = await other.getLock('a').acquire();
    const refused = rejectionOf(hasty.getLock('a').lock());
    await redis.advance(300);
    expect(String(await refused)).toContain(`not acquired within 5 ms ${doubt}: held by `);
    await theirs.release();
    await hasty.close();
  });

  it('is not called short from 100 ms on, nor if it is 0', async () => {
    const theirs = await other.getLock('a').acquire();
    for (const wait of [0, 100]) {
      const refused = rejectionOf(client.getLock('a').acquire({ wait }));
      await redis.advance(300);
      expect(String(await refused)).toContain(`not acquired within ${wait} ms: held by `);
    }
    await theirs.release();
  });
});
