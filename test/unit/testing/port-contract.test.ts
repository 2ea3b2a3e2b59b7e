// A server in memory keeps the promises of the port, as far as they need no socket.
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe } from 'vitest';
import { PROCESS_CLOCK } from '../../../src/runtime/clock.js';
import { memoryLibrary, WholeNetwork } from '../../../src/testing/connection.js';
import { MemoryServer } from '../../../src/testing/server.js';
import { Attempt, portPromises, type PortWorld } from '../../support/port-promises.js';

const ADDRESS = { path: 'MemoryRedis' };

function memoryWorld(delayMs: number): PortWorld {
  const server = new MemoryServer(PROCESS_CLOCK);
  const network = new WholeNetwork(PROCESS_CLOCK);
  network.delayMs = delayMs;
  const library = memoryLibrary(server, network);
  return {
    attempt: (purpose) => new Attempt(library, ADDRESS, purpose),
    unheard() {
      server.down();
      return Promise.resolve(new Attempt(library, ADDRESS));
    },
    connectionCount: () => Promise.resolve(server.connectionCount),
    async kill() {
      await sleep(50);
      server.hangUp();
    },
    async publish(channel, payload, isSharded) {
      const publisher = new Attempt(library, ADDRESS);
      await publisher.ready;
      const count = await publisher.ask(isSharded ? 'spublish' : 'publish', channel, payload);
      await publisher.connection.close();
      return count as number;
    },
  };
}

describe.each([
  ['at once', 0],
  ['after a delay', 5],
])(
  'one connection to a server in memory whose network carries everything %s',
  (_title, delayMs) => {
    let world: PortWorld;

    beforeEach(() => {
      world = memoryWorld(delayMs);
    });

    portPromises(() => world);
  },
);
