// Ports with TLS that are taken for ones without it, and the other way round: what is told says so.
import { Cluster, Redis } from 'ioredis';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newClient, nextEvent, rejectionOf } from '../../support/clients.js';
import {
  startRedis,
  startRedisProcess,
  topologiesUnavailable,
  type RedisServer,
} from '../../support/redis-server.js';
import { startTlsServer, tlsUnavailable, type TlsServer } from '../../support/tls.js';
import { uniqueName } from '../../support/unique-name.js';

interface Place {
  readonly host: string;
  readonly port: number;
}

const NO_TLS_HERE = 'TLS is on: does this port speak TLS?';
const TLS_HERE =
  'the connection was closed before anything was answered: is Redis up there, or does this port want TLS?';

/** How long a connection may be silent. */
const COMMAND_TIMEOUT_MS = 1_000;

/** In each form that users have for it; `timeoutMs`: for how long the library itself waits for the connection. */
const forms: [string, (at: Place, isTls: boolean, timeoutMs?: number) => object | string][] = [
  ['a URL', ({ host, port }, isTls) => `${isTls ? 'rediss' : 'redis'}://${host}:${port}`],
  [
    'options of ioredis',
    (at, isTls, connectTimeout) => ({
      ...at,
      ...(isTls && { tls: {} }),
      ...(connectTimeout && { connectTimeout }),
    }),
  ],
  [
    'options of ioredis, with RESP2',
    (at, isTls, connectTimeout) => ({
      ...at,
      protocol: 2,
      ...(isTls && { tls: {} }),
      ...(connectTimeout && { connectTimeout }),
    }),
  ],
  [
    'a Cluster of ioredis',
    (at, isTls, connectTimeout) =>
      new Cluster([at], {
        lazyConnect: true,
        redisOptions: { ...(isTls && { tls: {} }), ...(connectTimeout && { connectTimeout }) },
      }),
  ],
  [
    'Sentinels of ioredis',
    (at, isTls) => ({ name: 'main', sentinels: [at], ...(isTls && { sentinelTLS: {} }) }),
  ],
  [
    'options of node-redis',
    (at, isTls, connectTimeout) => ({
      socket: { ...at, tls: isTls, ...(connectTimeout && { connectTimeout }) },
    }),
  ],
  [
    'a cluster of node-redis',
    (at, isTls, connectTimeout) => ({
      rootNodes: [{ socket: at }],
      defaults: { socket: { tls: isTls, ...(connectTimeout && { connectTimeout }) } },
    }),
  ],
  [
    'Sentinels of node-redis',
    (at, isTls) => ({
      name: 'main',
      sentinelRootNodes: [at],
      sentinelClientOptions: { socket: { tls: isTls } },
    }),
  ],
];

let server: RedisServer;

beforeAll(async () => {
  server = await startRedis();
});

afterAll(() => server[Symbol.asyncDispose]());

/** What a client tells that cannot connect: its first `error` event, and the error of a call after that. */
async function told(redis: object | string): Promise<string[]> {
  await using client = newClient({
    redis,
    commandTimeout: COMMAND_TIMEOUT_MS,
    lockWatchdogTimeout: 30_000,
  });
  const { error: first } = await nextEvent(client, 'error');
  const error = await rejectionOf(client.getLock(uniqueName()).tryLock());
  expect(error).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
  return [first.message, (error as Error).message];
}

describe('a client with TLS, at a port without, is told so', () => {
  it.each(forms)('when the port is silent: %s', async (_, redis) => {
    for (const message of await told(redis(server, true)))
      expect(message).toContain(`within ${COMMAND_TIMEOUT_MS} ms; ${NO_TLS_HERE}`);
  });

  it.each(forms.filter(([form]) => /options|luster/.test(form)))(
    'when the library waits no longer: %s',
    async (_, redis) => {
      for (const message of await told(redis(server, true, COMMAND_TIMEOUT_MS / 4)))
        expect(message).toMatch(/(connect ETIMEDOUT|Connection timeout); TLS is on/);
    },
  );

  it.each(forms)('when what listens there answers without TLS: %s', async (_, redis) => {
    const plain = createServer((socket) => {
      socket.on('error', () => undefined).on('data', () => socket.end('-ERR Protocol error\r\n'));
    });
    await once(plain.listen(0, '127.0.0.1'), 'listening');
    const { port } = plain.address() as AddressInfo;
    for (const message of await told(redis({ host: '127.0.0.1', port }, true)))
      expect(message).toContain(NO_TLS_HERE);
    await new Promise((resolve) => plain.close(resolve));
  });
});

if (tlsUnavailable !== undefined) console.log(`left out, a port with TLS: ${tlsUnavailable}`);

describe.skipIf(tlsUnavailable)('a client without TLS, at a port with it, is told so', () => {
  let tls: TlsServer;

  beforeAll(async () => {
    tls = await startTlsServer();
  });

  afterAll(() => tls[Symbol.asyncDispose]());

  it.each(forms)('%s', async (_, redis) => {
    const at = { host: tls.server.host, port: tls.port };
    for (const message of await told(redis(at, false))) expect(message).toContain(TLS_HERE);
  });

  it.skipIf(topologiesUnavailable)('when a Sentinel names it', async () => {
    await using watcher = await startRedisProcess({ mode: 'sentinel' });
    const at = { host: watcher.host, port: watcher.port };
    const sentinel = new Redis(at);
    await sentinel.call('SENTINEL', 'MONITOR', 'main', tls.server.host, String(tls.port), '1');
    sentinel.disconnect();
    const ofIoredis = { name: 'main', sentinels: [at] };
    const ofNodeRedis = { name: 'main', sentinelRootNodes: [at] };
    for (const redis of [ofIoredis, ofNodeRedis])
      for (const message of await told(redis))
        expect(message).toContain(`at the server that Sentinel names ${TLS_HERE}`);
  });
});
