// The channels of releases in a cluster: sharded ones where the cluster has them, classic ones on request.
import { Cluster, Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Hold, Holdfast, HoldfastOptions } from '../../../src/index.js';
import { newClient, nextEvent } from '../../support/clients.js';
import { hasShardedChannels, listenedOn } from '../../support/cluster.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, type Cluster as Servers } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

// So long that only a message wakes a waiter.
const long = { lockWatchdogTimeout: 60_000, commandTimeout: 5_000 };

/** Commands that users may not use. */
const users = {
  uninformed: ['-info'],
  unsharded: ['-info', '-pubsub'],
  informed: ['-pubsub'],
};

describe.skipIf(topologiesUnavailable)('in a cluster', () => {
  let servers: Servers;
  let masters: Redis[];
  let hasSharded: boolean;
  const instances: Cluster[] = [];
  const clients: Holdfast[] = [];

  beforeAll(async () => {
    servers = await startCluster();
    masters = servers.masters.map(({ url }) => new Redis(url));
    for (const master of masters) {
      for (const [name, rules] of Object.entries(users))
        await master.acl('SETUSER', name, 'on', 'nopass', '~*', '&*', '+@all', ...rules);
    }
    hasSharded = await hasShardedChannels(masters[0]!);
  }, 60_000);

  afterEach(async () => {
    await Promise.all(clients.splice(0).map((client) => client.close()));
    for (const instance of instances.splice(0)) instance.disconnect();
  });

  afterAll(async () => {
    for (const redis of masters) redis.disconnect();
    await servers[Symbol.asyncDispose]();
  });

  it.each([
    ['who may not ask for INFO', 'uninformed'],
    ['who may not ask which channels there are', 'informed'],
  ] as const)('a user %s listens where all others publish', async (_, username) => {
    await wakeEachOther(newMember({}, username), newMember(), hasSharded);
  });

  it('a user who may use neither command uses classic channels', async () => {
    await wakeEachOther(newMember({}, 'unsharded'), newMember({}, 'unsharded'), false);
  });

  it('classicUnlockChannels: releases are sent and received on classic channels', async () => {
    const classic = { classicUnlockChannels: true };
    await wakeEachOther(newMember(classic), newMember(classic), false);
  });

  it('classicUnlockChannels: fair locks are handed over as before', async () => {
    const [one, other] = [newMember({ classicUnlockChannels: true }), newMember()];
    const name = uniqueName();
    const hold = await one.getFairLock(name).acquire();
    const waiting = nextEvent(other, 'waiting');
    const next = other.getFairLock(name).acquire();
    await waiting;
    await expectListeners(name, hasSharded);
    await wakes(hold, next);
  });

  /** Each client in turn waits for the other, on the expected channels. */
  async function wakeEachOther(one: Holdfast, two: Holdfast, isSharded: boolean): Promise<void> {
    for (const [holder, waiter] of [
      [one, two],
      [two, one],
    ] as const) {
      const name = uniqueName();
      const hold = await holder.getLock(name).acquire();
      const waiting = nextEvent(waiter, 'waiting');
      const next = waiter.getLock(name).acquire();
      await waiting;
      await expectListeners(name, isSharded);
      await wakes(hold, next);
    }
  }

  /** The release wakes the waiter, which would poll only after 20 s. */
  async function wakes(hold: Hold, next: Promise<Hold>): Promise<void> {
    await sleep(300); // a new listener polls once more
    const releasedAtMs = performance.now();
    await hold.release();
    const woken = await next;
    expect(performance.now() - releasedAtMs).toBeLessThan(10_000);
    await woken.release();
  }

  function newMember(options: Partial<HoldfastOptions> = {}, username?: string): Holdfast {
    const redisOptions = username === undefined ? {} : { username, password: 'any' };
    const instance = new Cluster(servers.nodes, { redisOptions, lazyConnect: true });
    const client = newClient({ redis: instance, ...long, ...options });
    instances.push(instance);
    clients.push(client);
    return client;
  }

  /** A client listens for a lock on channels of this kind, and none on others. */
  async function expectListeners(name: string, isSharded: boolean): Promise<void> {
    const [kind, other] = isSharded
      ? (['sharded', 'classic'] as const)
      : (['classic', 'sharded'] as const);
    await expect.poll(() => listenedOn(masters, kind, name)).not.toEqual([]);
    expect(await listenedOn(masters, other, name)).toEqual([]);
  }
});
