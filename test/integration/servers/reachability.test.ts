// Whether Redis is reachable: single attempts fail as soon as it is known not to be, and status and ping report it.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  ClosedError,
  OptionError,
  UnavailableError,
  type Holdfast,
  type HoldfastOptions,
} from '../../../src/index.js';
import { connectedClient, newClient, nextEvent, rejectionOf } from '../../support/clients.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

/** The limit of a single attempt; an error that comes earlier did not wait for it. */
const COMMAND_TIMEOUT_MS = 8_000;

let server: RedisServer;
let proxy: TcpProxy;

beforeEach(async () => {
  server = await startRedis();
  proxy = await startProxy(server.port, server.host);
});

afterEach(async () => {
  await proxy[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

function patientClient(options: Partial<HoldfastOptions> = {}): Holdfast {
  return newClient({ redis: proxy.url, commandTimeout: COMMAND_TIMEOUT_MS, ...options });
}

/** The error of the call, which came long before `commandTimeout`. */
async function promptly(call: Promise<unknown>): Promise<unknown> {
  const startedAtMs = performance.now();
  const error = await rejectionOf(call);
  expect(performance.now() - startedAtMs).toBeLessThan(COMMAND_TIMEOUT_MS / 2);
  return error;
}

describe('when connections are refused', () => {
  const calls: Record<string, (client: Holdfast, name: string) => Promise<unknown>> = {
    'tryLock()': (client, name) => client.getLock(name).tryLock(),
    'tryAcquire()': (client, name) => client.getLock(name).tryAcquire(),
    'withLock({ wait: 0 })': (client, name) =>
      client.getLock(name).withLock({ wait: 0 }, () => undefined),
    'tryLock() of a fair lock': (client, name) => client.getFairLock(name).tryLock(),
    'tryLock() of a MultiLock': (client, name) =>
      client.getMultiLock(client.getLock(name), client.getLock(`${name}:2`)).tryLock(),
    'isLocked()': (client, name) => client.getLock(name).isLocked(),
    'remainTimeToLive()': (client, name) => client.getLock(name).remainTimeToLive(),
    'getWaiters()': (client, name) => client.getFairLock(name).getWaiters(),
    'getWaiters() of a read-write lock': (client, name) =>
      client.getReadWriteLock(name).getWaiters(),
    'ping()': (client) => client.ping(),
  };

  it.each(Object.entries(calls))(
    '%s fails when the next attempt to connect has failed',
    async (_title, call) => {
      proxy.refuse();
      await using client = patientClient();
      for (let times = 0; times < 2; times++) {
        const error = await promptly(call(client, uniqueName()));
        expect(error).toBeInstanceOf(UnavailableError);
        expect(String(error)).toMatch(/Redis cannot be reached: connect ECONNREFUSED/);
      }
      await proxy.accept();
    },
  );

  it('calls fail so even long after the first attempt', async () => {
    proxy.refuse();
    await using client = patientClient();
    await sleep(2_500);
    expect(String(await promptly(client.getLock(uniqueName()).tryLock()))).toContain(
      'ECONNREFUSED',
    );
    await proxy.accept();
  });

  it('an attempt to connect that failed before the call does not count', async () => {
    proxy.refuse();
    await using client = patientClient();
    await nextEvent(client, 'error');
    await proxy.accept();
    expect(await client.getLock(uniqueName()).tryLock(0, 500)).toBe(true);
  });

  it('a call that may wait does', async () => {
    proxy.refuse();
    await using client = patientClient();
    const locking = client.getLock(uniqueName()).tryLock(COMMAND_TIMEOUT_MS, 500);
    await rejectionOf(client.ping());
    await proxy.accept();
    expect(await locking).toBe(true);
  });
});

describe('a single attempt', () => {
  it('survives the loss of its connection if the next one can be made', async () => {
    await using client = await connectedClient({
      redis: proxy.url,
      commandTimeout: COMMAND_TIMEOUT_MS,
    });
    proxy.cut();
    expect(await client.getLock(uniqueName()).tryLock(0, 500)).toBe(true);
    const evalsha = proxy.holdBack(/^evalsha /i, 'silence');
    const trying = client.getLock(uniqueName()).tryLock(0, 500);
    await evalsha.happened;
    proxy.cut();
    expect(await trying).toBe(true);
  });

  it('fails at once when the server hangs up before the connection is ready', async () => {
    const info = proxy.holdBack(/^(info|hello|client) /i, 'silence');
    await using client = patientClient();
    const trying = promptly(client.getLock(uniqueName()).tryLock());
    await info.happened;
    proxy.refuse();
    proxy.cut();
    expect(String(await trying)).toMatch(/Redis cannot be reached: /);
    await proxy.accept();
  });
});

describe('status', () => {
  it('emits every change', async () => {
    await using client = patientClient();
    expect(client.status).toBe('connecting');
    await client.ping();
    expect(client.status).toBe('ready');
    proxy.refuse();
    proxy.cut();
    await rejectionOf(client.ping());
    expect(client.status).toBe('connecting');
    await proxy.accept();
    await expect.poll(() => client.status, { timeout: 10_000 }).toBe('ready');
    const closing = client.close();
    expect(client.status).toBe('closed');
    await closing;
    expect(client.status).toBe('closed');
  });

  it('is "refused" as long as the password is wrong, and no longer', async () => {
    await using guarded = await startRedis({ args: ['--requirepass', 'right'] });
    const url = guarded.url.replace('//', '//:wrong@');
    await using client = patientClient({ redis: url });
    const error = await promptly(client.ping());
    expect(error).toBeInstanceOf(UnavailableError);
    expect(String(error)).toMatch(/Redis refuses the connection: WRONGPASS/);
    expect(client.status).toBe('refused');
    // Neither "down" nor "refused" is final.
    await guarded.kill();
    await expect.poll(() => client.status, { timeout: 10_000 }).toBe('connecting');
    const locking = client.getLock(uniqueName()).tryLock(COMMAND_TIMEOUT_MS, 500);
    await guarded.start();
    expect(String(await promptly(locking))).toContain('WRONGPASS');
    expect(client.status).toBe('refused');
    const admin = new Redis(guarded.url, { password: 'right' });
    await admin.config('SET', 'requirepass', 'wrong');
    admin.disconnect();
    await expect.poll(() => client.status, { timeout: 10_000 }).toBe('ready');
    expect(await client.getLock(uniqueName()).tryLock(0, 500)).toBe(true);
  });
});

describe('ping', () => {
  it('resolves to the milliseconds until the answer', async () => {
    await using client = patientClient();
    expect(await client.ping()).toBeGreaterThan(0);
    proxy.delay({ upstreamMs: 50, downstreamMs: 0 });
    expect(await client.ping({ timeout: 5_000 })).toBeGreaterThanOrEqual(49);
  });

  it('fails within its timeout when nothing answers', async () => {
    await using client = patientClient({ lockWatchdogTimeout: 30_000 }); // so the silence is not noticed before
    await client.ping();
    proxy.blackhole();
    for (const timeout of [1, 200]) {
      const error = await promptly(client.ping({ timeout }));
      expect(error).toBeInstanceOf(UnavailableError);
      expect(String(error)).toMatch(
        new RegExp(`Redis \\(127.0.0.1:\\d+\\) did not answer within ${timeout} ms`),
      );
    }
    proxy.heal('drop');
  });

  it('fails when the connection is lost before the answer', async () => {
    await using client = patientClient();
    await client.ping();
    const ping = proxy.holdBack(/^ping/i, 'silence');
    const pinging = client.ping();
    await ping.happened;
    proxy.cut();
    const error = await promptly(pinging);
    expect(error).toBeInstanceOf(UnavailableError);
    expect(String(error)).toMatch(/Redis \(127.0.0.1:\d+\) did not answer/);
  });

  it('fails when the client is closed, before or during the call', async () => {
    const client = patientClient();
    await client.ping();
    proxy.blackhole();
    const pinging = rejectionOf(client.ping());
    void client.close();
    expect(await pinging).toBeInstanceOf(ClosedError);
    expect(await rejectionOf(client.ping())).toBeInstanceOf(ClosedError);
    proxy.heal('drop');
    await client.close();
  });

  it.each([
    [{ timeout: 0 }, 'timeout is 0'],
    [{ timeout: '500' }, "timeout is '500'"],
    [{ timeout: Infinity }, 'timeout is Infinity'],
    [{ wait: 500 }, 'the options of ping() have no "wait"'],
    [500, 'the options of ping() are 500'],
    [null, 'the options of ping() are null'],
  ])('refuses %j', async (options, words) => {
    await using client = patientClient();
    const error = await rejectionOf(client.ping(options as never));
    expect(error).toBeInstanceOf(OptionError);
    expect(String(error)).toContain(words);
  });
});
