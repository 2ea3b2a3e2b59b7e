// A server in memory keeps the promises of the port, as far as they need no socket.
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { failureKind } from '../../../src/redis/failure.js';
import { PROCESS_CLOCK } from '../../../src/runtime/clock.js';
import { memoryLibrary, WholeNetwork, type Network } from '../../../src/testing/connection.js';
import { MemoryServer } from '../../../src/testing/server.js';
import { Attempt, portPromises, type PortWorld } from '../../support/port-promises.js';

const ADDRESS = { path: 'MemoryRedis' };

function memoryWorld(delayMs: number): PortWorld {
  const server = new MemoryServer(PROCESS_CLOCK);
  const network = new WholeNetwork(PROCESS_CLOCK);
  network.delayMs = delayMs;
  const library = memoryLibrary(server, network);
  return {
    hasSharded: () => Promise.resolve(true),
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

describe('a server in memory', () => {
  async function connected(network: Network): Promise<{ attempt: Attempt; server: MemoryServer }> {
    const server = new MemoryServer(PROCESS_CLOCK);
    const attempt = new Attempt(memoryLibrary(server, network), ADDRESS);
    await attempt.ready;
    return { attempt, server };
  }

  it('reports that it runs no scripts except ours', async () => {
    const { attempt } = await connected(new WholeNetwork(PROCESS_CLOCK));
    const failure = await attempt.failureOf('eval', 'return 1', 0);
    expect(failure.message).toContain('runs no script but those of holdfast');
    await attempt.connection.close();
  });

  it.each(['server', 'client'] as const)(
    'loses what its network cuts on the way to the %s',
    async (to) => {
      const whole = new WholeNetwork(PROCESS_CLOCK);
      let isCutting = false;
      const network: Network = {
        carry(way, deliver) {
          if (isCutting && way.to === to) way.cut();
          else whole.carry(way, deliver);
        },
      };
      const { attempt, server } = await connected(network);
      isCutting = true;
      const failure = await attempt.failureOf('set', 'k', 'v');
      expect(failureKind(failure)).toBe('unanswered');
      expect(await attempt.ended).toBeUndefined();
      expect(attempt.told).toEqual(['ready', 'ended']);
      expect(server.connectionCount).toBe(0);
      expect(server.keys.names).toEqual(to === 'server' ? [] : ['k']);
    },
  );

  it('ends a connection silently for a client whose network carries no goodbye', async () => {
    const whole = new WholeNetwork(PROCESS_CLOCK);
    let isSilent = false;
    const network: Network = {
      carry(way, deliver) {
        if (!isSilent) whole.carry(way, deliver);
      },
    };
    const { attempt, server } = await connected(network);
    isSilent = true;
    await attempt.connection.close();
    expect(await attempt.ended).toBeUndefined();
    expect(server.connectionCount).toBe(1);
  });
});
