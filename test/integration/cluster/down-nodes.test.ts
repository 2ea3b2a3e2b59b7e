// A node of a cluster that refuses what it is asked with CLUSTERDOWN, on a connection that is well: it names nobody who has its slots
// now, and whoever goes on asking it would never learn.
import { Cluster, Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { eventsOf, newClient } from '../../support/clients.js';
import { clusterBehind } from '../../support/proxied-cluster.js';
import { FORWARD } from '../../support/proxy-interceptors.js';
import { topologiesUnavailable, type RedisServer } from '../../support/redis-server.js';
import { startCluster, type Cluster as Servers } from '../../support/redis-topologies.js';
import { SlotMover } from '../../support/slot-mover.js';
import { startProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

/** What a node does also for those whom it tells that the cluster is down. */
const ANSWERED = /^(auth|client|cluster|hello|info|ping|pubsub|readonly|readwrite|script|select)$/i;

const DOWN = "return redis.error_reply('CLUSTERDOWN The cluster is down')";

describe.skipIf(topologiesUnavailable)(
  'when a master of a cluster lost touch with the others',
  () => {
    it('its locks are acquired from whoever has its slots now', async () => {
      await using setup = await start();
      await using client = newClient({ redis: setup.instance(), lockWatchdogTimeout: 30_000 });
      const lock = client.getLock(await setup.nameOnFirst());
      await lock.withLock(() => undefined);
      await setup.loseTouch(lock.name);
      expect(await lock.tryLock(10_000)).toBe(true);
      await lock.unlock();
    }, 60_000);

    it('many calls at once are answered by whoever has its slots now', async () => {
      await using setup = await start();
      await using client = newClient({ redis: setup.instance(), lockWatchdogTimeout: 30_000 });
      const tag = await setup.nameOnFirst();
      await client.getLock(tag).withLock(() => undefined);
      await setup.loseTouch(tag);
      const locks = Array.from({ length: 300 }, (_, index) => client.getLock(`{${tag}}${index}`));
      const acquired = await Promise.all(locks.map((lock) => lock.tryLock(10_000)));
      expect(acquired.every(Boolean)).toBe(true);
      await Promise.all(locks.map((lock) => lock.unlock()));
    }, 60_000);

    it.each([0, 1])(
      'a hold with %i replicas is renewed by whoever has it now',
      async (replicas) => {
        await using setup = await start({ replicaCount: 2 * replicas });
        await using client = newClient({
          redis: setup.instance(),
          lockWatchdogTimeout: 3_000,
          commandTimeout: 10_000,
          replicas,
        });
        const lost = eventsOf(client, 'lost');
        const lock = client.getLock(await setup.nameOnFirst());
        const hold = await lock.acquire();
        await setup.loseTouch(lock.name);
        const renewed = eventsOf(client, 'renewed');
        const isDecided = (): boolean => lost.length > 0 || renewed.length > 4;
        await expect.poll(isDecided, { timeout: 15_000 }).toBe(true);
        expect(lost).toEqual([]);
        await hold.release();
      },
      60_000,
    );
  },
);

describe.skipIf(topologiesUnavailable)(
  'when a master of a cluster was restarted with nothing',
  () => {
    it('its locks are acquired from its replica when that has taken over', async () => {
      await using servers = await startCluster({ replicaCount: 1 });
      const redis = new Cluster(servers.nodes, { lazyConnect: true });
      await using client = newClient({ redis, lockWatchdogTimeout: 30_000 });
      const lock = client.getLock(await nameOnFirst(servers));
      await lock.withLock(() => undefined);
      const [first] = servers.masters;
      await first!.kill();
      await first!.start();
      const acquired = lock.tryLock(20_000);
      await sleep(1_000); // in which it is refused, and asks anew
      await takeOver(servers.replicas[0]!);
      expect(await acquired).toBe(true);
      await lock.unlock();
    }, 60_000);
  },
);

interface Setup extends AsyncDisposable {
  /** The user's instance, whose way to the masters leads through proxies. */
  instance(): Cluster;
  /** The name of a lock that the first master has. */
  nameOnFirst(): Promise<string>;
  /** The slot moves to the second master; the first one goes on telling what it knew, and serves nothing any more. */
  loseTouch(name: string): Promise<void>;
}

async function start({ replicaCount = 0 } = {}): Promise<Setup> {
  const servers = await startCluster({ replicaCount });
  const proxies = await Promise.all(servers.masters.map(({ port }) => startProxy(port)));
  const ports = proxies.map(({ port }) => port);
  return {
    instance: () => clusterBehind(servers, ports),
    nameOnFirst: () => nameOnFirst(servers),
    async loseTouch(name) {
      const [first] = servers.masters;
      const replies = { slots: await slotsAsScript(first!), other: DOWN };
      proxies[0]!.treatCommands((args) => {
        const [command, subcommand] = args.map(String);
        const isAboutSlots = /^cluster slots$/i.test(`${command} ${subcommand}`);
        if (!isAboutSlots && ANSWERED.test(command!)) return FORWARD;
        return { ...FORWARD, kind: 'refuse', instead: replies[isAboutSlots ? 'slots' : 'other'] };
      });
      await using mover = await SlotMover.of(servers.masters);
      await mover.moveBy(1, await mover.slotOf(name));
    },
    async [Symbol.asyncDispose]() {
      for (const proxy of proxies) await proxy[Symbol.asyncDispose]();
      await servers[Symbol.asyncDispose]();
    },
  };
}

/** Has a replica take its master's slots without asking the others: they do not see that a master at its address is not the former. */
async function takeOver({ url }: RedisServer): Promise<void> {
  const redis = new Redis(url);
  try {
    await redis.call('CLUSTER', 'FAILOVER', 'TAKEOVER');
  } finally {
    redis.disconnect();
  }
}

/** A script that replies what the node says now of who has which slots. */
async function slotsAsScript({ url }: RedisServer): Promise<string> {
  const redis = new Redis(url);
  try {
    return `return ${inLua(await redis.cluster('SLOTS'))}`;
  } finally {
    redis.disconnect();
  }
}

function inLua(reply: unknown): string {
  return Array.isArray(reply) ? `{${reply.map(inLua).join()}}` : JSON.stringify(reply);
}

async function nameOnFirst({ nodes }: Servers): Promise<string> {
  const redis = new Redis(nodes[0]!);
  try {
    for (;;) {
      const name = uniqueName();
      if ((await redis.cluster('KEYSLOT', name)) <= 5_460) return name;
    }
  } finally {
    redis.disconnect();
  }
}
