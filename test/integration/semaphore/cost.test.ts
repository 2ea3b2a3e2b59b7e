// What a semaphore costs the server: a hand-over takes no more commands in a long line than in a short one.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import { connectedClient } from '../../support/clients.js';
import { loadScripts } from '../../support/lock-commands.js';
import { countCommands } from '../../support/recorded-commands.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { TestSemaphore } from '../../support/weighted-locks.js';

const HAND_OVERS = 40;

let server: RedisServer;
let redis: Redis;
let client: Holdfast;

beforeAll(async () => {
  server = await startRedis();
  await loadScripts(server.url);
  redis = new Redis(server.url);
  client = await connectedClient({ redis: server.url, lockWatchdogTimeout: 120_000 });
  // One subscription beforehand, so that the test does not count that connection as new.
  const semaphore = new TestSemaphore(redis, 1);
  const hold = await semaphore.of(client).acquire();
  const { hold: next } = await semaphore.join(client);
  await hold.release();
  await (await next).release();
  // The same of the connections by which long holds are told of changes.
  await client.getLock('held throughout').acquire({ lease: 600_000 });
  await sleep(1_500);
}, 60_000);

afterAll(async () => {
  await client.close();
  redis.disconnect();
  await server[Symbol.asyncDispose]();
});

it('with 5,000 in line a hand-over costs what it costs with 50: at most 16 commands in one script', async () => {
  const short = await commandsOfHandOvers(50);
  const long = await commandsOfHandOvers(5_000);
  expect(long).toBeLessThanOrEqual(short + 0.5);
  expect(long).toBeLessThanOrEqual(16);
}, 180_000);

it('600 waiters in line that one release can let in all enter, although one script call lets in fewer', async () => {
  const semaphore = new TestSemaphore(redis, 600);
  const all = await semaphore.of(client).acquire({ permits: 600 });
  const waiting = Array.from({ length: 600 }, () => semaphore.of(client).acquire());
  await semaphore.hasLength(600);
  await all.release();
  const holds = await Promise.all(waiting);
  expect(await semaphore.of(client).availablePermits()).toBe(0);
  await Promise.all(holds.map((hold) => hold.release()));
  await semaphore.isGone();
}, 120_000);

/** Waiters that joined before the client was known to listen repeat that they listen. */
async function isQuiet(): Promise<void> {
  for (;;) {
    const { evalsha = 0 } = await countCommands(server.url, () => sleep(500));
    if (evalsha === 0) return;
  }
}

/** How many commands, in scripts, one hand-over takes with this many in line. */
async function commandsOfHandOvers(length: number): Promise<number> {
  const semaphore = new TestSemaphore(redis, 3);
  const aborter = new AbortController();
  const { signal } = aborter;
  const first = await Promise.all([1, 2, 3].map(() => semaphore.of(client).acquire()));
  let turns = 0;
  let next: () => void;
  const wait = new Promise<void>((resolve) => (next = resolve));
  const all = Array.from({ length }, () =>
    semaphore.of(client).withPermits({ signal }, async () => {
      if (++turns < HAND_OVERS) return;
      if (turns === HAND_OVERS) next();
      await new Promise((resolve) => {
        signal.addEventListener('abort', resolve);
      });
    }),
  );
  const settled = Promise.allSettled(all);
  await semaphore.hasLength(length);
  await isQuiet();
  const counts = await countCommands(server.url, async () => {
    await first[0]!.release();
    await wait;
  });
  aborter.abort();
  await settled;
  await Promise.all(first.slice(1).map((hold) => hold.release()));
  await semaphore.isGone();
  const { evalsha = 0, ...rest } = counts;
  const ofScripts = Object.entries(rest).filter(
    ([name]) => !['info', 'config|resetstat', 'hello', 'ping', 'zcard'].includes(name),
  );
  const sum = ofScripts.reduce((total, [, count]) => total + count, 0);
  expect(evalsha).toBeLessThanOrEqual(HAND_OVERS + 2);
  return sum / evalsha;
}
