// A server that accepts connections and says nothing, or nothing for long: an attempt to connect takes as long as the user lets it, and
// ends also where the user has set no limit.
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { ioredisDriver } from '../../../src/redis/ioredis/driver.js';
import { OpenedClient } from '../../support/driver-heard.js';
import { eventually } from '../../support/eventually.js';
import { startTlsServer, tlsUnavailable } from '../../support/tls-server.js';

/** For how long an answer is waited for. */
const SILENCE_LIMIT_MS = 200;

let listener: Server;
let port: number;
let accepted: (socket: Socket) => void;
const sockets = new Set<Socket>();

beforeEach(async () => {
  accepted = () => undefined;
  listener = createServer((socket) => {
    sockets.add(socket.on('error', () => undefined));
    accepted(socket);
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  ({ port } = listener.address() as AddressInfo);
});

afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  sockets.clear();
  listener.close();
  await once(listener, 'close');
});

it('a handshake of TLS that does not end is given up', async () => {
  const driver = ioredisDriver({ host: '127.0.0.1', port, tls: {}, connectTimeout: 0 });
  await using one = new OpenedClient(driver.connect(SILENCE_LIMIT_MS));
  await eventually(() => {
    expect(sockets.size).toBeGreaterThan(1);
  }, 30_000);
  expect(one.failed[0]).toMatchObject({ code: 'ETIMEDOUT' });
}, 40_000);

it.skipIf(tlsUnavailable)(
  'a handshake of TLS that takes longer than an answer may is waited for',
  async () => {
    await using tls = await startTlsServer();
    accepted = (socket) => {
      setTimeout(() => {
        const there = connect(tls.port, '127.0.0.1').on('error', () => undefined);
        socket.pipe(there).pipe(socket);
      }, 2 * SILENCE_LIMIT_MS);
    };
    const options = { host: '127.0.0.1', port, tls: { ca: tls.ca }, connectTimeout: 30_000 };
    await using one = new OpenedClient(ioredisDriver(options).connect(SILENCE_LIMIT_MS));
    await one.readyTimes(1);
    expect(one.failed).toEqual([]);
  },
);
