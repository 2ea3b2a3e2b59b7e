// Finds free loopback ports for servers that have to come back on the same port.
import { createServer } from 'node:net';

// Below the range from which systems take the local ports of outgoing connections, so that a server
// can be stopped and started again on its port; and with room for the cluster bus at port + 10000.
const LOWEST_PORT = 10_000;
const HIGHEST_PORT = 21_999;

/** A port that is free now; somebody may still be faster, so callers retry. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = LOWEST_PORT + Math.floor(Math.random() * (HIGHEST_PORT - LOWEST_PORT + 1));
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
