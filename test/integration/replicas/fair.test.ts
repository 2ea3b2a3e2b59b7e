// `replicas: n` and the fair lock: whoever gets it by a hand-over, which waits for no replica, asks before it enters.
import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { UnavailableError, type Holdfast, type HoldfastOptions } from '../../../src/index.js';
import { newClient, nextEvent, rejectionOf } from '../../support/clients.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startReplicated, type Replicated } from '../../support/redis-topologies.js';
import { settledWithin } from '../../support/settled-within.js';
import { uniqueName } from '../../support/unique-name.js';

describe.skipIf(topologiesUnavailable)('a hand-over that replicas must acknowledge', () => {
  let servers: Replicated;
  let master: Redis;
  let replica: Redis;

  beforeEach(async () => {
    servers = await startReplicated({ delayMs: 30 });
    master = new Redis(servers.master.url);
    replica = new Redis(servers.replicas[0]!.url);
    await Promise.all([master.ping(), replica.ping()]);
  }, 60_000);

  afterEach(async () => {
    master.disconnect();
    replica.disconnect();
    await servers[Symbol.asyncDispose]();
  });

  function connect(options: Partial<HoldfastOptions> = {}): Holdfast {
    const longOnes = { lockWatchdogTimeout: 30_000, commandTimeout: 10_000 };
    return newClient({ redis: servers.master.url, replicas: 1, ...longOnes, ...options });
  }

  it.each([{ lease: -1 }, { lease: 5_000 }])(
    'is known to a replica when the next one enters (%o)',
    async (options) => {
      await using first = connect();
      await using second = connect();
      const hold = await first.getFairLock(uniqueName()).acquire();
      const waiting = nextEvent(second, 'waiting');
      const next = second.getFairLock(hold.lockName).acquire(options);
      await waiting;
      await hold.release();
      await using theirs = await next;
      expect(await replica.hgetall(hold.lockName)).toEqual({
        [theirs.ownerId]: expect.anything() as string,
      });
      expect(await replica.pttl(hold.lockName)).toBeGreaterThanOrEqual(
        Math.floor(theirs.remaining()),
      );
    },
  );

  // With a lease shorter than that of its place: there is nothing to prolong when it asks.
  it.each([{ connection: 'same' }, { connection: 'new' }])(
    'is passed on by one whom too few acknowledge, on the $connection connection',
    async ({ connection }) => {
      await using first = connect({ replicas: 0 });
      await using second = connect({ commandTimeout: 500 });
      await using third = connect({ replicas: 0 });
      const hold = await first.getFairLock(uniqueName()).acquire();
      let waiting = nextEvent(second, 'waiting');
      const next = rejectionOf(second.getFairLock(hold.lockName).acquire({ lease: 2_000 }));
      await waiting;
      waiting = nextEvent(third, 'waiting');
      const last = third.getFairLock(hold.lockName).acquire();
      await waiting;
      if (connection === 'new') {
        await master.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
        await Promise.all([first, second, third].map((client) => client.getLock('x').isLocked()));
      }
      await servers.replicas[0]!.pause();
      await hold.release();
      const error = await settledWithin(next, 3_000);
      expect(error).toBeInstanceOf(UnavailableError);
      expect(String(error)).toContain('0 of 1 replicas acknowledged it');
      await (await last).release();
      expect(await master.keys(`*${hold.lockName}*`)).toEqual([]);
    },
  );
});
