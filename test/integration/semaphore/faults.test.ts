// Semaphores whose users are killed, stopped and cut off: never more permits in use than there are, and none lost.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Holdfast, HoldfastOptions } from '../../../src/index.js';
import { startChild, type Child } from '../../support/child.js';
import { connectedClient } from '../../support/clients.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { TestSemaphore } from '../../support/weighted-locks.js';
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

const LEASE_MS = 1_500;
const TIMEOUT_MS = 240_000;

let server: RedisServer;
let redis: Redis;
let proxy: TcpProxy;

beforeAll(async () => {
  server = await startRedis();
  redis = new Redis(server.url);
  proxy = await startProxy(server.port);
  await redis.ping();
}, 60_000);

afterAll(async () => {
  redis.disconnect();
  await proxy[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

async function startHolder(
  url = server.url,
  options: Partial<HoldfastOptions> = { lockWatchdogTimeout: LEASE_MS },
): Promise<Child> {
  const child = startChild('permit-holder.ts', {
    HOLDFAST_TEST_REDIS_URL: url,
    HOLDFAST_TEST_COUNTER_URL: server.url,
    HOLDFAST_TEST_OPTIONS: JSON.stringify(options),
  });
  await child.next('ready', 120_000);
  return child;
}

function client(lockWatchdogTimeout: number): Promise<Holdfast> {
  return connectedClient({ redis: server.url, lockWatchdogTimeout });
}

it(
  'no more permits are ever in use than there are, through kills, pauses, lost replies and lost messages',
  async () => {
    const name = uniqueName('semaphore');
    const permits = 4;
    const children = await Promise.all([
      ...[startHolder(proxy.url), startHolder(proxy.url)],
      ...[startHolder(), startHolder()],
    ]);
    for (const child of children) child.send({ type: 'start', name, permits, callers: 4 });
    proxy.treatMessages(() => (Math.random() < 0.2 ? [] : Math.random() < 0.2 ? [0, 30] : [0]));
    const [cutOff, stopped, killed] = children;
    for (let round = 0; round < 3; round++) {
      await sleep(1_000);
      const lostReply = proxy.loseReplyTo(/evalsha/i);
      stopped!.pause();
      await Promise.race([lostReply.happened, sleep(2_000)]);
      await sleep(LEASE_MS + 300);
      stopped!.resume();
      if (round === 1) await killed!.kill();
      proxy.cut();
    }
    proxy.treatMessages();
    await sleep(1_000);
    const left = [cutOff!, stopped!, children[3]!];
    for (const child of left) child.send({ type: 'stop' });
    let sections = 0;
    for (const child of left) {
      const told = await child.next('stopped', 60_000);
      expect(told['most']).toBeLessThanOrEqual(permits);
      sections += Number(told['sections']);
      expect(await child.exited()).toMatchObject({ code: 0 });
    }
    expect(sections).toBeGreaterThan(50);
    await redis.del(`${name}:inside`, `${name}:weights`);
    const semaphore = new TestSemaphore(redis, permits, name);
    await using last = await client(60_000);
    await (await semaphore.of(last).acquire({ permits, wait: 20_000 })).release();
    await semaphore.isGone();
  },
  TIMEOUT_MS,
);

it(
  'the permits of a holder that was killed come back when its lease ends',
  async () => {
    const semaphore = new TestSemaphore(redis, 3);
    await using waiter = await client(30_000);
    const beside = await semaphore.of(waiter).acquire();
    const holder = await startHolder();
    holder.send({ type: 'once', name: semaphore.name, permits: 3, want: 2 });
    const { ownerId } = await holder.next('held');
    const { hold } = await semaphore.join(waiter, { permits: 2 });
    await sleep(LEASE_MS); // it is renewed meanwhile
    await holder.kill();
    const endsAtMs = Number(await redis.zscore(semaphore.keys[1], String(ownerId)));
    const got = await hold;
    const lateMs = Date.now() - endsAtMs;
    expect(lateMs).toBeGreaterThanOrEqual(-1);
    expect(lateMs).toBeLessThan(2_000); // its own place would have been renewed after 10 s
    await Promise.all([got.release(), beside.release()]);
    await semaphore.isGone();
  },
  TIMEOUT_MS,
);

it(
  'a large request that died is passed over when its place’s lease ends, though no permit was released',
  async () => {
    const semaphore = new TestSemaphore(redis, 2);
    await using waiter = await client(30_000);
    const beside = await semaphore.of(waiter).acquire();
    const stopped = await startHolder();
    stopped.send({ type: 'once', name: semaphore.name, permits: 2, want: 2 });
    await semaphore.hasLength(1);
    const { hold } = await semaphore.join(waiter);
    stopped.pause(); // its connections stay: nobody can tell that it is gone
    const [dead] = await semaphore.owners();
    const place = (await redis.hget(semaphore.keys[3], dead!))!.split(' ');
    const got = await hold;
    const lateMs = Date.now() - Number(place[2]);
    expect(lateMs).toBeLessThan(2_000);
    await got.release();
    await stopped.kill();
    await beside.release();
    await semaphore.isGone();
  },
  TIMEOUT_MS,
);

it(
  'a waiter whose process was killed is passed over by the next release',
  async () => {
    const semaphore = new TestSemaphore(redis, 2);
    await using waiter = await client(30_000);
    const [one, two] = [await semaphore.of(waiter).acquire(), await semaphore.of(waiter).acquire()];
    const mortal = await startHolder(server.url, { lockWatchdogTimeout: 30_000 });
    mortal.send({ type: 'once', name: semaphore.name, permits: 2, want: 2 });
    await semaphore.hasLength(1);
    const { hold } = await semaphore.join(waiter);
    await mortal.kill();
    await expect
      .poll(() => redis.pubsub('CHANNELS', `holdfast_grants:{${semaphore.name}}*`))
      .toHaveLength(1);
    await one.release();
    await (await hold).release();
    await two.release();
    await semaphore.isGone();
  },
  TIMEOUT_MS,
);

it('a client that closes gives its permits and its place back at once', async () => {
  const semaphore = new TestSemaphore(redis, 2);
  const leaver = await client(30_000);
  await using stayer = await client(30_000);
  const hold = await semaphore.of(leaver).acquire({ permits: 2 });
  await semaphore.join(leaver, { permits: 2 });
  const { hold: next } = await semaphore.join(stayer);
  const closedAtMs = performance.now();
  await leaver.close();
  await (await next).release();
  expect(performance.now() - closedAtMs).toBeLessThan(5_000);
  expect(hold.signal.aborted).toBe(true);
  await semaphore.isGone();
});

it('an acquisition whose reply was lost is one acquisition, and a release whose reply was lost one release', async () => {
  const semaphore = new TestSemaphore(redis, 3);
  await using user = await connectedClient({ redis: proxy.url, lockWatchdogTimeout: 30_000 });
  await using other = await client(30_000);
  await (await semaphore.of(user).acquire()).release(); // the scripts are known
  const lostAcquire = proxy.loseReplyTo(/evalsha/i);
  const hold = await semaphore.of(user).acquire({ permits: 2 });
  await lostAcquire.happened;
  expect(await semaphore.of(other).availablePermits()).toBe(1);
  const lostRelease = proxy.loseReplyTo(/evalsha/i);
  await hold.release();
  await lostRelease.happened;
  expect(await semaphore.of(other).availablePermits()).toBe(3);
  await semaphore.isGone();
});
