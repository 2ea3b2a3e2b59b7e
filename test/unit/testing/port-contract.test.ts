// A server in memory keeps the promises of the port, as far as they need no socket.
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { failureKind } from '../../../src/redis/failure.js';
import { INVALIDATIONS } from '../../../src/redis/port.js';
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
  const alone = async (command: Lowercase<string>, ...args: string[]): Promise<unknown> => {
    const other = new Attempt(library, ADDRESS);
    await other.ready;
    const answer = await other.ask(command, ...args);
    await other.connection.close();
    return answer;
  };
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
    publish: (channel, payload, isSharded) =>
      alone(isSharded ? 'spublish' : 'publish', channel, payload) as Promise<number>,
    flush: () => alone('flushall'),
    evict: () => alone('del', ...server.keys.names),
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

  it('that restarts has forgotten who has read what, and counts its connections anew', async () => {
    const server = new MemoryServer(PROCESS_CLOCK);
    const library = memoryLibrary(server, new WholeNetwork(PROCESS_CLOCK));
    const trio = async (): Promise<[reader: Attempt, hearer: Attempt, other: Attempt]> => {
      const [reader, hearer, other] = [1, 2, 3].map(() => new Attempt(library, ADDRESS)) as [
        Attempt,
        Attempt,
        Attempt,
      ];
      await Promise.all([reader.ready, hearer.ready, other.ready]);
      const id = Number(await hearer.ask('client', 'ID'));
      expect(id).toBe(2);
      await reader.ask('client', 'TRACKING', 'ON', 'REDIRECT', id);
      await hearer.subscribe([INVALIDATIONS]);
      return [reader, hearer, other];
    };
    const [reader] = await trio();
    await reader.ask('hget', 'h', 'field');
    server.restart(false);
    const [, hearer, other] = await trio();
    await other.ask('hset', 'h', 'field', 1);
    await other.ask('ping');
    await hearer.ask('ping');
    expect(hearer.invalidated).toEqual([]);
  });
});
