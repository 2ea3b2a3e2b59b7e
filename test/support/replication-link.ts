// The way to a master for everybody, which is slow for its replicas only; what is under way to them is lost with the master.
import { connect, createServer, type Server, type Socket } from 'node:net';
import { freePort } from './free-port.js';
import { ProxyFlow } from './proxy-flow.js';

/** Where a server is. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

/** Opens a link to a master. Its replicas, which must use it, learn everything `delayMs` later. */
export async function openReplicationLink(
  target: Address,
  delayMs: number,
): Promise<ReplicationLink> {
  const link = new ReplicationLink(await freePort(), target, delayMs);
  await link.listen();
  return link;
}

export class ReplicationLink implements AsyncDisposable {
  readonly host = '127.0.0.1';
  readonly port: number;
  readonly #target: Address;
  readonly #delayMs: number;
  readonly #listener: Server = createServer((client) => {
    this.#pass(client);
  });
  readonly #sockets = new Set<Socket>();

  constructor(port: number, target: Address, delayMs: number) {
    this.port = port;
    this.#target = target;
    this.#delayMs = delayMs;
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#listener.once('error', reject).listen(this.port, this.host, resolve);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    for (const socket of this.#sockets) socket.destroy();
    await new Promise(setImmediate);
  }

  #pass(client: Socket): void {
    const server = connect(this.#target);
    const toServer = new ProxyFlow(server);
    const toClient = new ProxyFlow(client);
    client.on('data', (bytes: Buffer) => {
      if (bytes.includes('PSYNC')) toClient.delayMs = this.#delayMs; // it is a replica
      toServer.send(bytes);
    });
    server.on('data', (bytes: Buffer) => {
      toClient.send(bytes);
    });
    for (const socket of [client, server]) {
      this.#sockets.add(socket);
      socket.setNoDelay();
      socket.on('error', () => undefined);
      socket.on('close', () => {
        this.#sockets.delete(socket);
        toServer.end();
        toClient.end();
        client.destroy();
        server.destroy();
      });
    }
  }
}
