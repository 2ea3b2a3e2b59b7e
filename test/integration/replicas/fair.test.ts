// `replicas: n` and the fair lock: whoever gets it by a hand-over, which waits for no replica, asks before it enters.
import { describe, expect, it } from 'vitest';
import { UnavailableError, type Holdfast, type HoldfastOptions } from '../../../src/index.js';
import { newClient, nextEvent, rejectionOf } from '../../support/clients.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { replicatedPerTest } from '../../support/failovers.js';
import { settledWithin } from '../../support/time.js';
import { uniqueName } from '../../support/unique-name.js';

describe.skipIf(topologiesUnavailable)('a hand-over that replicas must acknowledge', () => {
  const present = replicatedPerTest({ delayMs: 30 });

  function connect(options: Partial<HoldfastOptions> = {}): Holdfast {
    const longOnes = { lockWatchdogTimeout: 30_000, commandTimeout: 10_000 };
    const redis = present().servers.master.url;
    return newClient({ redis, replicas: 1, ...longOnes, ...options });
  }

  it.each([{ lease: -1 }, { lease: 5_000 }])(
    'is known to a replica when the next one enters (%o)',
    async (options) => {
      const { replica } = present();
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
      const { servers, master } = present();
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
