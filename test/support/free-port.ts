// Finds free loopback ports for servers that have to come back on the same port.
import { createServer } from 'node:net';

// Below the range from which systems take the local ports of outgoing connections, so that a server
// can be stopped and started again on its port; the ports 10,000 above are for the buses of clusters.
const LOWEST_PORT = 10_000;
const PORTS_EACH = 1_000;

/** Each worker of vitest has ports of its own: nobody takes one that is left free for a moment on purpose. 0: no worker. */
const WORKER = Number(process.env['VITEST_POOL_ID'] ?? 0) % 10;

/** In a row from anywhere: what was handed out is not handed out again soon. */
let next = Math.floor(Math.random() * PORTS_EACH);

/** A port that is free now; somebody may still be faster, so callers retry. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = LOWEST_PORT + WORKER * PORTS_EACH + (next++ % PORTS_EACH);
    if ((await isFree(port)) && (await isFree(port + 10_000))) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => {
      resolve(false);
    });
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => {
      server.close(() => {
        resolve(true);
      });
    });
  });
}
