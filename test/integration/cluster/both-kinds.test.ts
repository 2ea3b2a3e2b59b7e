// One client listens on classic and on sharded channels at the same master: when it leaves the last of one kind, it still receives the
// other.
import { Cluster, Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Hold, Holdfast } from '../../../src/index.js';
import { newClient, nextEvent } from '../../support/clients.js';
import { hasShardedChannels, listenedOn, nameAt, type ChannelKind } from '../../support/cluster.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, type Cluster as Servers } from '../../support/redis-topologies.js';
import { NEVER, settledWithin } from '../../support/time.js';
import { uniqueName } from '../../support/unique-name.js';

// A waiter polls only every 40 s, and a connection may be silent for as long as a command may take.
const long = { lockWatchdogTimeout: 120_000, commandTimeout: 30_000 };

/** Far less than the time to the next poll, and far more than a message takes. */
const HEARD_MS = 10_000;

/** A lock that is held, and awaited at this master. */
interface Waiting {
  readonly name: string;
  readonly hold: Hold;
  readonly next: Promise<Hold>;
  readonly master: number;
  giveUp(): Promise<void>;
}

const NO_SHARDED = 'before Redis 7 there are no sharded channels';

describe.skipIf(topologiesUnavailable)('at one master of a cluster', () => {
  let servers: Servers;
  let masters: Redis[];
  let hasSharded: boolean;

  beforeAll(async () => {
    servers = await startCluster();
    masters = servers.masters.map(({ url }) => new Redis(url));
    hasSharded = await hasShardedChannels(masters[0]!);
  }, 60_000);

  afterAll(async () => {
    for (const redis of masters) redis.disconnect();
    await servers[Symbol.asyncDispose]();
  });

  it.for([
    { left: 'classic', kept: 'sharded' },
    { left: 'sharded', kept: 'classic' },
  ] as const)(
    'a client that leaves the last $left channel receives releases on the $kept ones',
    async ({ left }, { skip }) => {
      skip(!hasSharded, NO_SHARDED);
      await using holder = newMember();
      await using waiter = newMember();
      // Such a name puts the channel into another slot than the lock: it cannot be a sharded one.
      const classic = await waitFor(holder, waiter, `${uniqueName()}}odd`, 'classic');
      const sharded = await waitFor(holder, waiter, nameAt(classic.master), 'sharded');
      expect(sharded.master).toBe(classic.master);
      const [leaving, staying] = left === 'classic' ? [classic, sharded] : [sharded, classic];

      await leaving.giveUp();
      await expect
        .poll(() => listenedOn(masters, left, leaving.name), { timeout: 10_000 })
        .toEqual([]);
      await staying.hold.release();
      expect(await settledWithin(staying.next, HEARD_MS)).not.toBe(NEVER);
      await (await staying.next).release();
    },
  );

  it('classicUnlockChannels: releases are received after the last waiter for a fair lock has left', async ({
    skip,
  }) => {
    skip(!hasSharded, NO_SHARDED);
    await using holder = newMember(true);
    await using waiter = newMember(true);
    const classic = await waitFor(holder, waiter, uniqueName(), 'classic');
    const name = nameAt(classic.master);
    const fair = await holder.getFairLock(name).acquire();
    const giveUp = new AbortController();
    const inLine = waiter.getFairLock(name).acquire({ signal: giveUp.signal });
    const settled = Promise.allSettled([inLine]);
    await expect
      .poll(() => listenedOn(masters, 'sharded', name), { timeout: 10_000 })
      .toEqual([classic.master]);

    giveUp.abort();
    await settled;
    await expect.poll(() => listenedOn(masters, 'sharded', name), { timeout: 10_000 }).toEqual([]);
    await classic.hold.release();
    expect(await settledWithin(classic.next, HEARD_MS)).not.toBe(NEVER);
    await (await classic.next).release();
    await fair.release();
  });

  /** One client holds the lock, another waits for it, and listens at one of the masters. */
  async function waitFor(
    holder: Holdfast,
    waiter: Holdfast,
    name: string,
    kind: ChannelKind,
  ): Promise<Waiting> {
    const hold = await holder.getLock(name).acquire();
    const aborter = new AbortController();
    const waiting = nextEvent(waiter, 'waiting');
    const next = waiter.getLock(name).acquire({ signal: aborter.signal });
    await waiting;
    const listened = (): Promise<number[]> => listenedOn(masters, kind, name);
    await expect.poll(listened, { timeout: 10_000 }).toHaveLength(1);
    return {
      name,
      hold,
      next,
      master: (await listened())[0]!,
      giveUp: async () => {
        aborter.abort();
        await Promise.allSettled([next]);
        await hold.release();
      },
    };
  }

  function newMember(classicUnlockChannels = false): Holdfast {
    const redis = new Cluster(servers.nodes, { lazyConnect: true });
    return newClient({ redis, ...long, classicUnlockChannels });
  }
});
