// A node of a cluster that answers CLUSTERDOWN on a working connection: it does not name the node that has its slots now, so a client that
// only asked it would never learn.
import { Cluster, Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { eventsOf, newClient, rejectionOf } from '../../support/clients.js';
import { nameAt, SlotMover, startProxiedCluster } from '../../support/cluster.js';
import { FORWARD } from '../../support/proxy-link.js';
import { topologiesUnavailable, type RedisServer } from '../../support/redis-server.js';
import { startCluster } from '../../support/redis-topologies.js';
import { eventually, NEVER, settledWithin } from '../../support/time.js';

/** A node's answer, which it also gives to clients that it tells that the cluster is down. */
const ANSWERED = /^(auth|client|cluster|hello|info|ping|pubsub|readonly|readwrite|script|select)$/i;

const DOWN = "return redis.error_reply('CLUSTERDOWN The cluster is down')";
const NOT_SERVED = "return redis.error_reply('CLUSTERDOWN Hash slot not served')";

describe.skipIf(topologiesUnavailable)(
  'when a master of a cluster lost touch with the others',
  () => {
    it('its locks are acquired from the node that has its slots now', async () => {
      await using setup = await start();
      await using client = newClient({ redis: setup.instance(), lockWatchdogTimeout: 30_000 });
      const lock = client.getLock(nameAt(0));
      await lock.withLock(() => undefined);
      await setup.loseTouch(lock.name);
      expect(await lock.tryLock(30_000)).toBe(true);
      await lock.unlock();
    }, 60_000);

    it('many calls at once are answered by the node that has its slots now', async () => {
      await using setup = await start();
      await using client = newClient({ redis: setup.instance(), lockWatchdogTimeout: 30_000 });
      const tag = nameAt(0);
      await client.getLock(tag).withLock(() => undefined);
      await setup.loseTouch(tag);
      const locks = Array.from({ length: 300 }, (_, index) => client.getLock(`{${tag}}${index}`));
      const acquired = await Promise.all(locks.map((lock) => lock.tryLock(30_000)));
      expect(acquired.every(Boolean)).toBe(true);
      await Promise.all(locks.map((lock) => lock.unlock()));
    }, 60_000);

    it.each([0, 1])(
      'a hold with %i replicas is renewed by the node that has it now',
      async (replicas) => {
        await using setup = await start({ replicaCount: 2 * replicas });
        await using client = newClient({
          redis: setup.instance(),
          lockWatchdogTimeout: 3_000,
          commandTimeout: 10_000,
          replicas,
        });
        const lost = eventsOf(client, 'lost');
        const lock = client.getLock(nameAt(0));
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
  'when a master of a cluster was restarted without data',
  () => {
    it('its locks are acquired from its replica when that has taken over', async () => {
      await using servers = await startCluster({ replicaCount: 1 });
      const redis = new Cluster(servers.nodes, { lazyConnect: true });
      await using client = newClient({ redis, lockWatchdogTimeout: 30_000 });
      const lock = client.getLock(nameAt(0));
      await lock.withLock(() => undefined);
      const [first] = servers.masters;
      await first!.kill();
      await first!.start();
      const acquired = lock.tryLock(20_000);
      await sleep(1_000); // in which it refuses the client, which asks anew
      await takeOver(servers.replicas[0]!);
      expect(await acquired).toBe(true);
      await lock.unlock();
    }, 60_000);

    it('the locks of the other masters work while it refuses, on the same connections', async () => {
      await using setup = await start();
      await using client = newClient({ redis: setup.instance(), lockWatchdogTimeout: 30_000 });
      const [lost, ...kept] = [0, 1, 2].map((master) => client.getLock(nameAt(master)));
      for (const lock of [lost!, ...kept]) await lock.withLock(() => undefined);
      const before = await setup.connectionsToOthers();
      const errors = eventsOf(client, 'error');
      setup.forgetEverything();
      // After each refusal the client asks one of the nodes anew, perhaps the one that knows nothing.
      const refused = rejectionOf(lost!.tryLock(6_000));
      while ((await settledWithin(refused, 50)) === NEVER) {
        for (const lock of kept) {
          expect(await lock.tryLock()).toBe(true);
          await lock.unlock();
        }
      }
      expect(String(((await refused) as Error).cause)).toMatch(/CLUSTERDOWN/);
      // Its refusals are reported, and no connection has failed.
      expect(errors.map(({ error }) => error.message)).toEqual([
        expect.stringMatching(/goes on refusing .*CLUSTERDOWN/) as string,
      ]);
      // A connection is recognised by its last command: a script, as long as the client has not asked for the slots since.
      await eventually(async () => {
        for (const lock of kept) await lock.withLock(() => undefined);
        expect(await setup.connectionsToOthers()).toEqual(before);
      });
    }, 60_000);
  },
);

/** The connections by which clients run scripts there now. */
async function scriptConnections({ url }: RedisServer): Promise<string[]> {
  const redis = new Redis(url);
  try {
    const listed = (await redis.client('LIST')) as string;
    return listed
      .split('\n')
      .filter((line) => / cmd=(evalsha|eval) /.test(line))
      .map((line) => /\bid=\d+/.exec(line)![0]);
  } finally {
    redis.disconnect();
  }
}

interface Setup extends AsyncDisposable {
  /** The user's instance, which reaches the masters through proxies. */
  instance(): Cluster;
  /** The connections by which scripts are run at the other masters. */
  connectionsToOthers(): Promise<string[][]>;
  /** The slot moves to the second master; the first one still announces the old state, and no longer serves any slot. */
  loseTouch(name: string): Promise<void>;
  /** The first master forgets all slots and nodes, as after a restart without its files. */
  forgetEverything(): void;
}

async function start({ replicaCount = 0 } = {}): Promise<Setup> {
  const cluster = await startProxiedCluster({ replicaCount });
  const { servers, proxies } = cluster;
  const [first, ...others] = servers.masters;
  const refuse = (replies: { slots: string; other: string }): void => {
    proxies[0]!.treatCommands((args) => {
      const [command, subcommand] = args.map(String);
      const isAboutSlots = /^cluster slots$/i.test(`${command} ${subcommand}`);
      if (!isAboutSlots && ANSWERED.test(command!)) return FORWARD;
      return { ...FORWARD, kind: 'refuse', instead: replies[isAboutSlots ? 'slots' : 'other'] };
    });
  };
  return {
    instance: () => cluster.instance(),
    connectionsToOthers: () => Promise.all(others.map(scriptConnections)),
    forgetEverything() {
      refuse({ slots: 'return {}', other: NOT_SERVED });
    },
    async loseTouch(name) {
      refuse({ slots: await slotsAsScript(first!), other: DOWN });
      await using mover = await SlotMover.of(servers.masters);
      await mover.moveBy(1, await mover.slotOf(name));
    },
    [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose](),
  };
}

/** Has a replica take its master's slots without asking the others: they do not see that the master at its address is a new one. */
async function takeOver({ url }: RedisServer): Promise<void> {
  const redis = new Redis(url);
  try {
    await redis.call('CLUSTER', 'FAILOVER', 'TAKEOVER');
  } finally {
    redis.disconnect();
  }
}

/** A script that returns the node's present table of slots. */
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
