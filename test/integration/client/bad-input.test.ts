// Wrong arguments and impossible calls: a clear error, and nothing is sent.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { OptionError, type Holdfast } from '../../../src/index.js';
import { connectedClient, eventsOf, newClient, rejectionOf } from '../../support/clients.js';
import { recordCommands } from '../../support/recorded-commands.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';

let server: RedisServer;
let redis: Redis;
let client: Holdfast;

beforeAll(async () => {
  server = await startRedis();
  redis = new Redis(server.url);
  client = await connectedClient({ redis: server.url, lockWatchdogTimeout: 3_000 });
});

afterAll(async () => {
  await client.close();
  redis.disconnect();
  await server[Symbol.asyncDispose]();
});

/** A wrong argument, as a caller without types may pass it. */
type Wrong = never;

describe('a lock name', () => {
  it('may be the longest possible one, or have unusual characters', async () => {
    for (const name of ['x'.repeat(1_024), ' ', '{', '}{', 'a b\nc\0d', '🔒', '%s', '*']) {
      const lock = client.getLock(name);
      await lock.lock();
      expect(await lock.isLocked()).toBe(true);
      await lock.unlock();
    }
    expect(await redis.dbsize()).toBe(0);
  });
});

describe('a wrong argument of a semaphore', () => {
  it('is refused with an error that names the semaphore and the valid values', async () => {
    const name = 'bad-permits';
    expect(() => client.getSemaphore(name, { permits: 0 })).toThrow(
      `semaphore "${name}": permits is 0: it must be a whole number from 1 to`,
    );
    const semaphore = client.getSemaphore(name, { permits: 2 });
    const about = `semaphore "${name}": `;
    await refused([() => semaphore.acquire({ permits: 0 })], `${about}permits is 0`);
    await refused([() => semaphore.setPermits(1.5)], `${about}permits is 1.5`);
    await refused([() => semaphore.tryAcquire({ wait: -1 })], `${about}wait is -1`);
    await refused([() => semaphore.acquire({ lease: 0 })], `${about}lease is 0`);
    await refused([() => semaphore.acquire({ permit: 1 } as Wrong)], `${about}the options`);
    await refused([() => semaphore.withPermits(3 as Wrong)], `${about}the function`);
    expect(await rejectionOf(semaphore.acquire({ permits: 0 }))).toMatchObject({ lockName: name });
  });
});

it('the longest watchdog timeout has timers that do not overflow', async () => {
  const lockWatchdogTimeout = 2 ** 31 - 1;
  await using patient = await connectedClient({ redis: server.url, lockWatchdogTimeout });
  const errors = eventsOf(patient, 'error');
  const sent = await recordCommands(server.url, async () => {
    await using hold = await patient.getLock('patient').acquire();
    expect(hold.remaining()).toBeGreaterThan(0.9 * lockWatchdogTimeout);
    await sleep(200);
  });
  expect(sent.filter(({ name }) => name.toLowerCase() === 'evalsha')).toHaveLength(2);
  expect(errors).toEqual([]);
});

describe('a closed client', () => {
  it('refuses every call, and sends nothing', async () => {
    const closed = newClient({ redis: server.url });
    const lock = closed.getLock('closed');
    await lock.isLocked();
    const hold = await lock.acquire();
    await closed.close();
    const calls: (() => Promise<unknown>)[] = [
      () => lock.lock(),
      () => lock.tryLock(),
      () => lock.tryLock(100),
      () => lock.acquire(),
      () => lock.tryAcquire(),
      () => lock.withLock(() => undefined),
      () => lock.unlock(),
      () => lock.isLocked(),
      () => lock.isHeldByCurrentOwner(),
      () => lock.getHoldCount(),
      () => lock.remainTimeToLive(),
      () => lock.forceUnlock(),
      () => closed.getLock('another').lock(),
    ];
    await nothingIsSent(async () => {
      for (const call of calls) {
        expect(await rejectionOf(call())).toMatchObject({ code: 'CLIENT_CLOSED' });
      }
      expect(await rejectionOf(hold.release())).toMatchObject({ lossReason: 'closed' });
    });
  });
});

async function refused(calls: (() => Promise<unknown>)[], words: string): Promise<void> {
  await nothingIsSent(async () => {
    for (const call of calls) {
      const error = await rejectionOf(call());
      expect(error).toBeInstanceOf(OptionError);
      expect(error).toMatchObject({ code: 'INVALID_OPTION' });
      expect(String(error)).toContain(words);
    }
  });
}

/** The server belongs to this file: it executes only what these calls sent. */
async function nothingIsSent(calls: () => unknown): Promise<void> {
  const sent = await recordCommands(server.url, async () => {
    await calls();
  });
  expect(sent.map(({ name, args }) => [name, ...args].join(' '))).toEqual([]);
}
