// What most tests begin with: quick clients on the shared server and their events, a connection of their own, a proxy.
import { Redis } from 'ioredis';
import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks';
import { afterAll, afterEach, beforeAll, beforeEach, expect, inject } from 'vitest';
import { Holdfast, type HoldfastEvents, type HoldfastOptions } from '../../src/index.js';
import { loadScripts } from './lock-commands.js';
import { startProxy, type TcpProxy } from './tcp-proxy.js';
import { eventually } from './time.js';
import { uniqueName } from './unique-name.js';

/** A client whose default lease is 900 ms; other options as given. */
export function newClient(options: Partial<HoldfastOptions> = {}): Holdfast {
  // Tests have short leases, which a call on a busy machine may outlast.
  const redis = inject('redisUrl');
  return new Holdfast({ redis, lockWatchdogTimeout: 900, wait: Infinity, ...options });
}

export type EventOf<Name extends keyof HoldfastEvents> = Parameters<HoldfastEvents[Name]>[0];

/** All events of this name from now on, in order; the array grows. */
export function eventsOf<Name extends keyof HoldfastEvents>(
  client: Holdfast,
  name: Name,
): EventOf<Name>[] {
  const events: EventOf<Name>[] = [];
  const listener = (event: EventOf<Name>): void => void events.push(event);
  client.on(name, listener);
  return events;
}

/** The next event of this name. */
export function nextEvent<Name extends keyof HoldfastEvents>(
  client: Holdfast,
  name: Name,
): Promise<EventOf<Name>> {
  return new Promise((resolve) => {
    client.once(name, resolve);
  });
}

/** What a promise was rejected with; throws if it was not. */
export async function rejectionOf(promise: Promise<unknown>): Promise<unknown> {
  let value: unknown;
  try {
    value = await promise;
  } catch (error) {
    return error;
  }
  throw new Error(`it did not reject, but resolved to ${String(value)}`);
}

// A client whose connection is up: what it is asked next is sent at once.

export async function connectedClient(options: Partial<HoldfastOptions>): Promise<Holdfast> {
  const client = newClient(options);
  // A machine that is busy may take longer to connect than a short commandTimeout allows.
  await eventually(() => client.getLock(uniqueName()).isLocked());
  return client;
}

// A test file's own connection to the shared server, to see and to change there what locks keep.

/** For the whole file, open before its first test begins; by then the server knows all scripts. */
export function sharedConnection(): Redis {
  const redis = new Redis(inject('redisUrl'), { lazyConnect: true });
  beforeAll(async () => {
    await redis.connect();
    await loadScripts(inject('redisUrl'));
  });
  afterAll(() => {
    redis.disconnect();
  });
  return redis;
}

// A proxy in front of the shared server: the bad network between one client and a server that all others reach.

export function startSharedProxy(): Promise<TcpProxy> {
  const { hostname, port } = new URL(inject('redisUrl'));
  return startProxy(Number(port), hostname);
}

/** A new one for each test of the file, or of the `describe`, that this is called in; returns the present test's. */
export function proxyPerTest(): () => TcpProxy {
  let proxy: TcpProxy;
  beforeEach(async () => {
    proxy = await startSharedProxy();
  });
  afterEach(async () => {
    await proxy[Symbol.asyncDispose]();
  });
  return () => proxy;
}

// That a lock excludes, wakes who waits for it, and leaves nothing.

/** Takes a lock by one client, waits for it by the other, and hands it on. */
export async function worksBetween(first: Holdfast, second: Holdfast): Promise<void> {
  const name = uniqueName();
  const hold = await first.getLock(name).acquire();
  expect(await second.getLock(name).tryLock()).toBe(false);
  const waiting = second.getLock(name).withLock({ wait: 10_000 }, () => performance.now());
  await new Promise((resolve) => setTimeout(resolve, 100));
  const releasedAt = performance.now();
  await hold.release();
  expect((await waiting) - releasedAt).toBeLessThan(2_000);
  expect(await first.getLock(name).isLocked()).toBe(false);
}

// Code that has nothing to do with the test that calls it: as another request, or another event.

const outside = AsyncLocalStorage.snapshot();

/** Runs `fn` in an asynchronous context of its own, and not in that of the caller. */
export function elsewhere<T>(fn: () => T): T {
  return outside(() => new AsyncResource('elsewhere').runInAsyncScope(fn));
}
