// A password appears nowhere in the output of holdfast: not in an error, its causes or its stack, nor in an event, a warning or an
// inspection, whatever went wrong.
import { Cluster, Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { HoldfastOptions } from '../../../src/index.js';
import { allWords } from '../../support/users.js';
import { connectedClient, newClient, nextEvent, rejectionOf } from '../../support/clients.js';
import { startRedis, topologiesUnavailable, type RedisServer } from '../../support/redis-server.js';
import { startCluster, startSentinel } from '../../support/redis-topologies.js';
import { startProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

const SECRET = 'hunter2-secret';
const PASSWORDS = ['hunter2-secret', 'hunter2-wrong'];

let server: RedisServer;
let admin: Redis;
/** The console output, and the warnings of the process. */
let said: unknown[];

beforeAll(async () => {
  server = await startRedis({ args: ['--requirepass', SECRET] });
  admin = new Redis(server.url, { password: SECRET });
  const user = ['on', `>${SECRET}`, '~*', '&*', '+@all'];
  await admin.acl('SETUSER', 'no-scripts', ...user, '-@scripting');
  await admin.acl('SETUSER', 'no-channels', ...user, '-subscribe');
  await admin.acl('SETUSER', 'no-keys', 'on', `>${SECRET}`, '+@all');
});

afterAll(async () => {
  admin.disconnect();
  await server[Symbol.asyncDispose]();
});

beforeEach(() => {
  said = [];
  const note = (...words: unknown[]): void => void said.push(words);
  for (const method of ['log', 'info', 'warn', 'error'] as const)
    vi.spyOn(console, method).mockImplementation(note);
  vi.spyOn(process, 'emitWarning').mockImplementation(note);
});

afterEach(() => {
  vi.restoreAllMocks();
});

interface Failure {
  readonly title: string;
  /** A phrase of one of the errors or events, which shows that the failure happened. */
  readonly reason: RegExp;
  readonly options: () => HoldfastOptions['redis'];
}

function url(text: string): string {
  return `redis://${text}@${server.host}:${server.port}`;
}

const failures: Failure[] = [
  {
    title: 'the password is wrong',
    reason: /WRONGPASS/,
    options: () => url(':hunter2-wrong'),
  },
  {
    title: 'the password of a user is wrong',
    reason: /WRONGPASS/,
    options: () => ({ ...place(), username: 'no-scripts', password: 'hunter2-wrong' }),
  },
  {
    title: 'the password of an instance is wrong',
    reason: /WRONGPASS/,
    options: () => new Redis({ ...place(), password: 'hunter2-wrong', lazyConnect: true }),
  },
  {
    title: 'the user may not run scripts',
    reason: /NOPERM/,
    options: () => url(`no-scripts:${SECRET}`),
  },
  {
    title: 'the user may not touch the keys',
    reason: /NOPERM|can't|cannot/i,
    options: () => url(`no-keys:${SECRET}`),
  },
  {
    title: 'the connection is refused',
    reason: /ECONNREFUSED/,
    options: () => `redis://:${SECRET}@127.0.0.1:1`,
  },
  {
    title: 'the host is not found',
    reason: /ENOTFOUND|EAI_AGAIN/,
    options: () => `redis://:${SECRET}@no-such-host.invalid`,
  },
  {
    title: 'the server knows no TLS',
    reason: /within 500 ms/,
    options: () => `rediss://:${SECRET}@${server.host}:${server.port}`,
  },
];

describe('the output contains no password', () => {
  it.each(failures)('when $title', async ({ reason, options }) => {
    const told = await toldBy({ redis: options(), commandTimeout: 500 });
    expectSecretive(told, reason);
  });

  it('when the server does not know AUTH, and repeats its arguments', async () => {
    const args = ['--requirepass', SECRET];
    for (const command of ['AUTH', 'HELLO']) args.push('--rename-command', command, `${command}-2`);
    await using odd = await startRedis({ args });
    const redis = `redis://:${SECRET}@${odd.host}:${odd.port}`;
    expectSecretive(await toldBy({ redis, commandTimeout: 500 }), /unknown command/);
  });

  it('when the user may not subscribe', async () => {
    const name = uniqueName();
    await using holder = newClient({ redis: url(`:${SECRET}`) });
    await using client = newClient({ redis: url(`no-channels:${SECRET}`) });
    const failed = nextEvent(client, 'error');
    const hold = await holder.getLock(name).acquire();
    const error = await rejectionOf(client.getLock(name).acquire({ wait: 300 }));
    await hold.release();
    expectSecretive([error, await failed, client], /NOPERM/);
  });

  it('when the server falls silent or goes away, or the client closes', async () => {
    await using proxy = await startProxy(server.port, server.host);
    const redis = `redis://:${SECRET}@${proxy.host}:${proxy.port}`;
    const client = await connectedClient({ redis, commandTimeout: 300 });
    const told: unknown[] = [];
    for (const name of ['error', 'lost', 'acquired'] as const)
      client.on(name, (event: unknown) => told.push(event));
    const lock = client.getLock(uniqueName());
    const hold = await lock.acquire({ wait: 5_000 });
    told.push(hold, lock, client, client.getFairLock('a'), client.getMultiLock(lock));
    proxy.blackhole();
    told.push(await rejectionOf(client.getLock(uniqueName()).tryLock()));
    proxy.heal('drop');
    proxy.refuse();
    proxy.cut();
    told.push(await rejectionOf(client.getLock(uniqueName()).tryLock(300)));
    told.push(await rejectionOf(hold.release()));
    await proxy.accept();
    await client.close();
    told.push(await rejectionOf(lock.lock()));
    expectSecretive([...told, client], /ECONNREFUSED[^]*CLIENT_CLOSED/);
  });
});

describe.skipIf(topologiesUnavailable)('the output contains no password', () => {
  it('of a cluster', async () => {
    await using servers = await startCluster();
    await Promise.all(servers.masters.map((node) => protect(node)));
    const redisOptions = { password: 'hunter2-wrong' };
    const cluster = new Cluster(servers.nodes, { redisOptions, lazyConnect: true });
    expectSecretive(await toldBy({ redis: cluster, commandTimeout: 500 }), /WRONGPASS/);
    const { port } = servers.nodes[0]!;
    const byUrl = new Cluster([`redis://:hunter2-wrong@127.0.0.1:${port}`], { lazyConnect: true });
    expectSecretive(await toldBy({ redis: byUrl, commandTimeout: 500 }), /WRONGPASS|NOAUTH/);
    for (const client of [cluster, byUrl]) client.disconnect();
  }, 60_000);

  it('of Sentinel', async () => {
    await using setup = await startSentinel();
    const { name, sentinels } = setup;
    await protect(setup.master);
    const ofMaster = { name, sentinels, password: 'hunter2-wrong' };
    expectSecretive(await toldBy({ redis: ofMaster, commandTimeout: 500 }), /WRONGPASS/);
    const ofSentinel = { name, sentinels, sentinelPassword: 'hunter2-wrong' };
    await Promise.all(sentinels.map((sentinel) => protectSentinel(sentinel.port)));
    expectSecretive(await toldBy({ redis: ofSentinel, commandTimeout: 500 }), /WRONGPASS/);
  }, 60_000);
});

function place(): { host: string; port: number } {
  return { host: server.host, port: server.port };
}

/** All that a client reports of a Redis that it cannot use; and the client itself. */
async function toldBy(options: HoldfastOptions): Promise<unknown[]> {
  const told: unknown[] = [];
  const heard = newClient(options);
  for (const name of ['error', 'warning', 'lost'] as const)
    heard.on(name, (event: unknown) => told.push(event));
  await using unheard = newClient(options); // its errors become warnings of the process
  for (const client of [heard, unheard]) {
    const lock = client.getLock(uniqueName());
    told.push(client, lock, client.getFairLock(lock.name));
    const calls = [
      () => lock.tryLock(),
      () => lock.tryLock(400),
      () => lock.isLocked(),
      () => lock.forceUnlock(),
      () => client.getFairLock(lock.name).tryLock(),
      () => client.getMultiLock(lock, client.getLock(`${lock.name}:2`)).tryLock(),
    ];
    // (A user without permission to run scripts may well query whether a lock is held.)
    told.push(...(await Promise.allSettled(calls.map((call) => call()))));
  }
  await heard.close();
  told.push(await rejectionOf(heard.getLock('closed').lock()));
  return told;
}

function expectSecretive(told: readonly unknown[], reason: RegExp): void {
  const words = allWords([...told, ...said]);
  expect(words).toMatch(reason);
  for (const password of PASSWORDS) {
    const at = words.indexOf(password);
    expect(at < 0 ? '' : words.slice(Math.max(0, at - 300), at + 100)).toBe('');
  }
}

async function protect(node: RedisServer): Promise<void> {
  const redis = new Redis(node.url);
  await redis.config('SET', 'requirepass', SECRET);
  redis.disconnect();
}

async function protectSentinel(port: number): Promise<void> {
  const redis = new Redis({ port, enableReadyCheck: false });
  await redis.acl('SETUSER', 'default', `>${SECRET}`, 'resetpass', `>${SECRET}`);
  redis.disconnect();
}
