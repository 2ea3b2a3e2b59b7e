// A server that is still loading its data estimates how long that takes, which may be far too long: the client asks again soon, and leaves
// nothing when it is closed meanwhile.
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { newClient } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { expectOutages } from '../../support/expected-warnings.js';

expectOutages();

/** A stand-in for a loading server: it is hard to make one that loads for as long as a test needs. */
class LoadingServer implements AsyncDisposable {
  isLoading = true;
  /** How often a client asked it. */
  asked = 0;
  readonly #sockets = new Set<Socket>();
  readonly #listener: Server = createServer((socket) => {
    this.#sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('data', (data) => {
      for (const [, command] of data.toString().matchAll(/\*\d+\r\n\$\d+\r\n(\w+)\r\n/g))
        socket.write(this.#answer(command!.toLowerCase()));
    });
  });

  get url(): string {
    return `redis://127.0.0.1:${(this.#listener.address() as { port: number }).port}`;
  }

  async listen(): Promise<this> {
    this.#listener.listen(0, '127.0.0.1');
    await once(this.#listener, 'listening');
    return this;
  }

  #answer(command: string): string {
    if (command !== 'info') return '+OK\r\n';
    this.asked++;
    const loading = this.isLoading ? 'loading:1\r\nloading_eta_seconds:60\r\n' : 'loading:0\r\n';
    return `$${loading.length}\r\n${loading}\r\n`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#listener.close();
    await once(this.#listener, 'close');
  }
}

let server: LoadingServer;

beforeEach(async () => {
  server = await new LoadingServer().listen();
});

afterEach(() => server[Symbol.asyncDispose]());

it('lets a client in soon after it has loaded', async () => {
  await using client = newClient({ redis: server.url, commandTimeout: 20_000 });
  await eventually(() => {
    expect(server.asked).toBeGreaterThan(0);
  });
  server.isLoading = false;
  await expect.poll(() => client.status, { timeout: 4_000 }).toBe('ready');
});

it('keeps nothing of a client that is closed meanwhile', async () => {
  const client = newClient({ redis: server.url, commandTimeout: 20_000 });
  await eventually(() => {
    expect(server.asked).toBeGreaterThan(0);
  });
  await client.close();
});
