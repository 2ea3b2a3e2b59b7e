// A server that accepts connections and says nothing: an attempt to connect ends, also where the user has set no limit.
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { expect, it } from 'vitest';
import { ioredisDriver } from '../../../src/redis/ioredis/driver.js';
import { OpenedClient } from '../../support/driver-heard.js';
import { eventually } from '../../support/eventually.js';

it('a handshake of TLS that does not end is given up', async () => {
  const sockets = new Set<Socket>();
  const listener = createServer((socket) => sockets.add(socket.on('error', () => undefined)));
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address() as { port: number };
  const driver = ioredisDriver({ host: '127.0.0.1', port, tls: {}, connectTimeout: 0 });
  const one = new OpenedClient(driver.connect(200));
  await eventually(() => {
    expect(sockets.size).toBeGreaterThan(1);
  });
  expect(one.failed[0]).toMatchObject({ code: 'ETIMEDOUT' });
  await one.client.close();
  for (const socket of sockets) socket.destroy();
  listener.close();
  await once(listener, 'close');
});
