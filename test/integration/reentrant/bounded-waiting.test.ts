// A wait ends in time whatever happens to Redis, and a wait without a limit survives every outage that ends.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { UnavailableError, type Holdfast, type HoldfastOptions } from '../../../src/index.js';
import { EventLoopLag } from '../../support/time.js';
import { connectedClient, newClient, nextEvent, rejectionOf } from '../../support/clients.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

const COMMAND_TIMEOUT_MS = 300;

let server: RedisServer;
let proxy: TcpProxy;
let name: string;

beforeEach(async () => {
  server = await startRedis();
  proxy = await startProxy(server.port, server.host);
  name = uniqueName();
});

afterEach(async () => {
  await proxy[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

interface Trouble {
  readonly title: string;
  /** The URL for the client, and the fault that it finds there; the proxy is the default. */
  readonly url?: string;
  readonly isConnectedBefore: boolean;
  readonly reason: RegExp;
  readonly begin: () => void | Promise<void>;
}

const troubles: Trouble[] = [
  {
    title: 'the server was killed',
    isConnectedBefore: true,
    reason: /ECONNREFUSED/,
    begin: async () => {
      proxy.refuse();
      await server.kill();
    },
  },
  {
    title: 'the server is paused',
    isConnectedBefore: true,
    reason: /did not answer/,
    begin: () => server.pause(),
  },
  {
    title: 'the network became a black hole',
    isConnectedBefore: true,
    reason: /did not answer/,
    begin: () => {
      proxy.blackhole();
    },
  },
  {
    title: 'the connection is half open',
    isConnectedBefore: true,
    reason: /did not answer/,
    begin: () => {
      proxy.halfOpen();
      proxy.blackhole(); // new connections fail as well
    },
  },
  {
    title: 'the network is a black hole from the start',
    isConnectedBefore: false,
    // The command and the handshake before it have the same limit: either may run out first.
    reason: /did not answer|no handshake within/,
    begin: () => {
      proxy.blackhole();
    },
  },
  {
    title: 'connections are refused from the start',
    isConnectedBefore: false,
    reason: /ECONNREFUSED/,
    begin: () => {
      proxy.refuse();
    },
  },
  {
    title: 'the host name cannot be resolved',
    url: 'redis://no-such-host.invalid:6379',
    isConnectedBefore: false,
    reason: /ENOTFOUND|EAI_AGAIN/,
    begin: () => undefined,
  },
];

describe.each(troubles)('when $title', ({ url, isConnectedBefore, reason, begin }) => {
  it.each([
    ['by default', {}],
    ['with a short commandTimeout', { commandTimeout: COMMAND_TIMEOUT_MS }],
  ])('tryLock(500) settles in 500 ms, with the reason (%s)', async (_title, options) => {
    await using client = await troubledClient({ lockWatchdogTimeout: 6_000, ...options });
    const error = await settlesWithin(500, () => client.getLock(name).tryLock(500));
    expectUnavailable(error, reason);
    expect(String(error)).toContain('within 500 ms');
    await recover();
  });

  it('a single attempt and a query settle in commandTimeout', async () => {
    await using client = await troubledClient({ commandTimeout: COMMAND_TIMEOUT_MS });
    const lock = client.getLock(name);
    const attempts = [
      () => lock.tryLock(),
      () => lock.tryAcquire(),
      () => lock.withLock({ wait: 0 }, () => undefined),
      () => lock.isLocked(),
      () => lock.remainTimeToLive(),
      () => lock.forceUnlock(),
    ];
    const errors = await Promise.all(
      attempts.map((attempt) => settlesWithin(COMMAND_TIMEOUT_MS, attempt)),
    );
    for (const error of errors) expectUnavailable(error, reason);
    await recover();
  });

  it('an aborted wait ends at once', async () => {
    await using client = await troubledClient({ lockWatchdogTimeout: 6_000 });
    const aborter = new AbortController();
    const acquiring = client.getLock(name).acquire({ signal: aborter.signal });
    await sleep(50);
    aborter.abort();
    const error = await settlesWithin(0, () => acquiring);
    expect(error).toMatchObject({ code: 'LOCK_ABORTED' });
    await recover();
  });

  async function troubledClient(options: Partial<HoldfastOptions>): Promise<Holdfast> {
    const where = { redis: url ?? proxy.url };
    if (!isConnectedBefore) {
      await begin();
      return newClient({ ...where, ...options });
    }
    const client = await connectedClient({ ...where, ...options });
    await begin();
    return client;
  }
});

const laterTroubles = troubles.filter(({ isConnectedBefore }) => isConnectedBefore);

describe.each(laterTroubles)('when $title', ({ reason, begin }) => {
  it('release() and extend() settle in commandTimeout', async () => {
    await using client = newClient({
      redis: proxy.url,
      lockWatchdogTimeout: 30_000,
      commandTimeout: COMMAND_TIMEOUT_MS,
    });
    const [first, second] = [client.getLock(`${name}:1`), client.getLock(`${name}:2`)];
    const hold = await first.acquire();
    await second.lock();
    await begin();
    const calls = [() => hold.extend(40_000), () => second.unlock()];
    const errors = await Promise.all(calls.map((call) => settlesWithin(COMMAND_TIMEOUT_MS, call)));
    for (const error of errors) expectUnavailable(error, reason);
    const error = await settlesWithin(COMMAND_TIMEOUT_MS, () => hold.release());
    expectUnavailable(error, reason);
    expect(hold.remaining()).toBe(0);
    await recover();
  });
});

describe('a waiting lock()', () => {
  it('survives a restart of the server while another client holds the lock', async () => {
    await using holder = newClient({ redis: server.url });
    await using client = newClient({ redis: server.url });
    await holder.getLock(name).lock();
    const waiting = nextEvent(client, 'waiting');
    const locking = client.getLock(name).lock();
    await waiting;
    await server.kill();
    await server.start();
    await locking;
    await client.getLock(name).unlock();
  });

  it('survives until the server starts', async () => {
    const { port } = server;
    await server.kill();
    await using client = newClient({ redis: server.url });
    const failed = nextEvent(client, 'error');
    const locking = client.getLock(name).lock();
    await failed;
    await server.start();
    expect(server.port).toBe(port);
    await locking;
    await client.getLock(name).unlock();
  });

  it('survives a pause of the server', async () => {
    await using client = await connectedClient({ redis: server.url });
    await server.pause();
    const failed = nextEvent(client, 'error');
    const locking = client.getLock(name).lock();
    await failed; // the client has dropped the connection
    await server.resume();
    await locking;
    await client.getLock(name).unlock();
  });

  it('survives a half-open connection', async () => {
    await using client = await connectedClient({ redis: proxy.url });
    proxy.halfOpen();
    await client.getLock(name).lock();
    await client.getLock(name).unlock();
  });

  it('acquires the lock at the end of the lease, although its subscription went half-open before the unlock', async () => {
    await using holder = newClient({ redis: server.url });
    await using client = newClient({ redis: proxy.url });
    const hold = await holder.getLock(name).acquire();
    const subscribed = proxy.copyNext(/^subscribe /i);
    const locking = client.getLock(name).lock();
    await subscribed.happened;
    proxy.halfOpen();
    await hold.release();
    await locking;
    await client.getLock(name).unlock();
  });
});

describe('false means that somebody else has the lock', () => {
  it('even if the subscription never comes up', async () => {
    await using holder = newClient({ redis: server.url, lockWatchdogTimeout: 30_000 });
    await using client = newClient({ redis: proxy.url });
    await using hold = await holder.getLock(name).acquire();
    const subscribe = proxy.holdBack(/^subscribe /i, 'silence');
    expect(await client.getLock(name).tryLock(500)).toBe(false);
    await subscribe.happened;
    expect(hold.remaining()).toBeGreaterThan(0);
  });

  it('and not that the server disappeared during the wait', async () => {
    await using holder = newClient({ redis: server.url, lockWatchdogTimeout: 30_000 });
    await using client = newClient({ redis: server.url });
    await holder.getLock(name).lock();
    const waiting = nextEvent(client, 'waiting');
    const trying = client.getLock(name).tryLock(500);
    await waiting;
    await server.kill();
    expect(await rejectionOf(trying)).toBeInstanceOf(UnavailableError);
  });
});

async function recover(): Promise<void> {
  await server.resume();
  await server.start();
  proxy.heal('drop');
  await proxy.accept();
}

function expectUnavailable(error: unknown, reason: RegExp): void {
  expect(error).toBeInstanceOf(UnavailableError);
  expect(error).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
  expect(String(error)).toMatch(reason);
}

/** The error of the call, which must come at most 100 ms after a timer of `limitMs` that was set at the same time. */
async function settlesWithin(limitMs: number, call: () => Promise<unknown>): Promise<unknown> {
  using lag = new EventLoopLag();
  const timer = sleep(limitMs).then(() => performance.now());
  const error = await rejectionOf(call());
  const settledAtMs = performance.now();
  expect(settledAtMs - (await timer)).toBeLessThan(100 + lag.longestMs);
  return error;
}
