// TLS to a port without it, and the reverse: the error says so.
import { Cluster } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newClient, nextEvent, rejectionOf } from '../../support/clients.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { startTlsServer, tlsUnavailable, type TlsServer } from '../../support/tls.js';
import { uniqueName } from '../../support/unique-name.js';

interface Place {
  readonly host: string;
  readonly port: number;
}

/** How long a connection may be silent. */
const COMMAND_TIMEOUT_MS = 1_000;

const HINT = 'TLS is on: does this port speak TLS?';
const NO_TLS_HERE = `no handshake within ${COMMAND_TIMEOUT_MS} ms; ${HINT}`;
const TLS_HERE =
  'the connection was closed before anything was answered: is Redis up there, or does this port want TLS?';

const forms: [string, (at: Place, isTls: boolean) => object][] = [
  ['options of ioredis', (at, isTls) => ({ ...at, ...(isTls && { tls: {} }) })],
  [
    'a Cluster of ioredis',
    (at, isTls) =>
      new Cluster([at], { lazyConnect: true, redisOptions: { ...(isTls && { tls: {} }) } }),
  ],
  [
    'Sentinels of ioredis',
    (at, isTls) => ({ name: 'main', sentinels: [at], ...(isTls && { sentinelTLS: {} }) }),
  ],
  ['options of node-redis', (at, isTls) => ({ socket: { ...at, tls: isTls } })],
  [
    'a cluster of node-redis',
    (at, isTls) => ({ rootNodes: [{ socket: at }], defaults: { socket: { tls: isTls } } }),
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

/** The errors of a client that cannot connect: its first `error` event, and the error of a call after that. */
async function told(redis: object): Promise<string[]> {
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

it.each(forms)(
  'a client with TLS at a port without it gets an error that says so: %s',
  async (_, redis) => {
    for (const message of await told(redis(server, true))) expect(message).toContain(NO_TLS_HERE);
  },
);

it.each([
  ['ioredis', (at: Place) => ({ ...at, tls: {}, connectTimeout: 200 })],
  ['node-redis', (at: Place) => ({ socket: { ...at, tls: true, connectTimeout: 200 } })],
])('and also if %s gives up first', async (_, redis) => {
  for (const message of await told(redis(server))) expect(message).toContain(HINT);
});

it.each(forms)('and a call whose time is over by then says so, too: %s', async (_, redis) => {
  await using client = newClient({ redis: redis(server, true), lockWatchdogTimeout: 30_000 });
  const calls = [
    client.ping({ timeout: 200 }),
    client.getLock(uniqueName()).acquire({ wait: 200 }),
  ];
  for (const error of await Promise.all(calls.map((call) => rejectionOf(call))))
    expect(String(error)).toContain(HINT);
});

if (tlsUnavailable !== undefined) console.log(`left out, a port with TLS: ${tlsUnavailable}`);

describe.skipIf(tlsUnavailable)(
  'a client without TLS at a port with it gets an error that says so',
  () => {
    let tls: TlsServer;

    beforeAll(async () => {
      tls = await startTlsServer();
    });

    afterAll(() => tls[Symbol.asyncDispose]());

    it.each(forms)('%s', async (_, redis) => {
      const at = { host: tls.server.host, port: tls.port };
      for (const message of await told(redis(at, false))) expect(message).toContain(TLS_HERE);
    });
  },
);
