// Semaphores whose users are killed or cut off: no permit is lost.
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Holdfast, HoldfastOptions } from '../../../src/index.js';
import { startChild, type Child } from '../../support/child.js';
import { connectedClient } from '../../support/clients.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { TestSemaphore } from '../../support/weighted-locks.js';
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.js';

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

async function startWaiter(options: Partial<HoldfastOptions>): Promise<Child> {
  const child = startChild('permit-waiter.ts', {
    HOLDFAST_TEST_REDIS_URL: server.url,
    HOLDFAST_TEST_OPTIONS: JSON.stringify(options),
  });
  await child.next('ready', 120_000);
  return child;
}

function client(lockWatchdogTimeout: number): Promise<Holdfast> {
  return connectedClient({ redis: server.url, lockWatchdogTimeout });
}

it(
  'the next release passes over a waiter whose process was killed',
  async () => {
    const semaphore = new TestSemaphore(redis, 2);
    await using waiter = await client(30_000);
    const [one, two] = [await semaphore.of(waiter).acquire(), await semaphore.of(waiter).acquire()];
    const mortal = await startWaiter({ lockWatchdogTimeout: 30_000 });
    mortal.send({ type: 'wait', name: semaphore.name, permits: 2, want: 2 });
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

it('an acquisition with a lost reply counts once, and so does a release with a lost reply', async () => {
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
