// Fenced locks in a cluster, and with replicas that have to acknowledge a token.
import { Cluster } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import { LockKeys } from '../../../src/redis/keys.js';
import { newClient, nextEvent, rejectionOf } from '../../support/clients.js';
import { counterOf, expectGrowing, FENCED_KINDS, passThrough } from '../../support/fenced-locks.js';
import { recordCommands } from '../../support/recorded-commands.js';
import { startRedis, topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, type Cluster as Servers } from '../../support/redis-topologies.js';
import { replicatedPerTest } from '../../support/failovers.js';
import { uniqueName } from '../../support/unique-name.js';

const long = { lockWatchdogTimeout: 30_000, commandTimeout: 10_000 };

describe.skipIf(topologiesUnavailable)('in a cluster', () => {
  let servers: Servers;
  let cluster: Cluster;

  beforeAll(async () => {
    servers = await startCluster();
    cluster = new Cluster(servers.nodes);
    await cluster.ping();
    // Otherwise the client would connect to each node when it first needs it, in the middle of a test.
    await Promise.all(cluster.nodes('master').map((node) => node.ping()));
  }, 60_000);

  afterAll(async () => {
    cluster.disconnect();
    await servers[Symbol.asyncDispose]();
  });

  describe.each(FENCED_KINDS)('$title', ({ options }) => {
    it.each(['plain', '{tag}', 'x{tag}y', 'a}b', 'a{}b', 'a{b'])(
      'of a name like %s has all its keys in one slot, and issues larger and larger tokens',
      async (shape) => {
        await using one = newClient({ redis: cluster, ...long });
        await using two = newClient({ redis: cluster, ...long });
        const name = uniqueName(shape);
        const lockOf = (client: Holdfast) => client.getFencedLock(name, options);
        const tokens = [await passThrough(lockOf(one))];
        const hold = await lockOf(two).acquire();
        const waiting = nextEvent(one, 'waiting');
        const next = lockOf(one).acquire();
        await waiting;
        await hold.release();
        const theirs = await next;
        tokens.push(hold.token, theirs.token);
        expect(await lockOf(two).getToken()).toBe(theirs.token);
        expect(await cluster.get(new LockKeys(name).counter(true))).toBe(String(theirs.token));
        await theirs.release();
        expectGrowing(tokens);
      },
    );
  });
});

describe.skipIf(topologiesUnavailable)('with a replica that must acknowledge', () => {
  const present = replicatedPerTest({ delayMs: 30 });

  describe.each(FENCED_KINDS)('$title', ({ options }) => {
    it('issues a token that the replica knows when its holder enters', async () => {
      const { servers, replica } = present();
      const redis = servers.master.url;
      await using one = newClient({ redis, replicas: 1, ...long });
      await using two = newClient({ redis, replicas: 1, ...long });
      const name = uniqueName('fenced');
      const known = async (): Promise<bigint> => BigInt((await replica.get(counterOf(name))) ?? 0);
      const hold = await one.getFencedLock(name, options).acquire();
      expect(await known()).toBe(hold.token);
      const waiting = nextEvent(two, 'waiting');
      const next = two.getFencedLock(name, options).acquire();
      await waiting;
      await hold.release();
      await using theirs = await next;
      expect(await known()).toBe(theirs.token);
      expectGrowing([hold.token, theirs.token]);
    });

    it('is not granted when too few replicas acknowledge it, and the next holder has a larger token', async () => {
      const { servers } = present();
      const redis = servers.master.url;
      await using one = newClient({ redis, replicas: 1, ...long, commandTimeout: 500 });
      await using two = newClient({ redis, ...long });
      const name = uniqueName('fenced');
      const before = await passThrough(two.getFencedLock(name, options));
      await servers.replicas[0]!.pause();
      const error = await rejectionOf(one.getFencedLock(name, options).acquire({ wait: 1_000 }));
      expect(String(error)).toContain('0 of 1 replicas acknowledged it');
      await servers.replicas[0]!.resume();
      expectGrowing([before, await passThrough(two.getFencedLock(name, options))]);
    });
  });
});

describe('an uncontended fenced lock', () => {
  it('takes one round trip to acquire, and one to release', async () => {
    await using server = await startRedis();
    await using client = newClient({ redis: server.url, ...long });
    const lock = client.getFencedLock('job');
    await passThrough(lock);
    const commands = await recordCommands(server.url, () => passThrough(lock));
    const sent = commands.filter(({ byScript }) => !byScript).map((command) => command.name);
    expect(sent).toEqual(['EVALSHA', 'EVALSHA']);
  });
});
