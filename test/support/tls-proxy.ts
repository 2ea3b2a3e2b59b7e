// Speaks TLS in front of a server that does not.
import { once } from 'node:events';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { createServer, type TLSSocket } from 'node:tls';
import type { Certificate } from './tls-server.js';

export interface TlsProxy extends AsyncDisposable {
  readonly host: string;
  readonly port: number;
  /** The name that each client asked for, in the order of their connections. */
  readonly serverNames: readonly string[];
}

export async function startTlsProxy(
  targetPort: number,
  { certificate, key }: Certificate,
): Promise<TlsProxy> {
  const host = '127.0.0.1';
  const sockets = new Set<Socket>();
  const serverNames: string[] = [];
  const tied = (one: Socket, other: Socket): void => {
    sockets.add(one);
    one.on('error', () => undefined).pipe(other);
    one.once('close', () => {
      sockets.delete(one);
      other.destroy();
    });
  };
  const server = createServer({ cert: certificate, key }, (client) => {
    // (It is false where the client asked for none.)
    serverNames.push(String((client as TLSSocket & { servername: unknown }).servername));
    const redis = connect(targetPort, host).setNoDelay();
    tied(client.setNoDelay(), redis);
    tied(redis, client);
  });
  await once(server.listen(0, host), 'listening');
  return {
    host,
    port: (server.address() as AddressInfo).port,
    serverNames,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
