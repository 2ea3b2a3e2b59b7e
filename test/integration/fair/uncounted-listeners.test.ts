// A waiter for a fair lock whose subscription the previous holder cannot count: it is passed over as if it were gone, and then stops saying
// that it listens.
import { Cluster, Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { Holdfast, type FairLock, type Semaphore } from '../../../src/index.js';
import { hasShardedChannels } from '../../support/cluster.js';
import { NO_SHARDED } from '../../support/port-promises.js';
import { eventually } from '../../support/time.js';
import { documentedPermissions } from '../../support/users.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, type Cluster as Servers } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

const LEASE_MS = 3_000;
const PREFIX = 'app-under-test:';
/** Without these, a client cannot find out that the cluster has sharded channels: it listens on classic ones. */
const TELLING = ['+info', '+pubsub|numsub', '+pubsub|shardnumsub'];

describe.skipIf(topologiesUnavailable)(
  'in a cluster, a user that listens on classic channels',
  () => {
    let servers: Servers;
    let masters: Redis[];
    let hasSharded: boolean;
    let admin: Cluster;
    const templates: Cluster[] = [];

    beforeAll(async () => {
      servers = await startCluster();
      masters = servers.masters.map(({ url }) => new Redis(url));
      admin = new Cluster(servers.nodes);
      await admin.ping();
      await Promise.all(admin.nodes('master').map((node) => node.ping()));
      hasSharded = await hasShardedChannels(masters[0]!);
      if (!hasSharded) return;
      const rules = documentedPermissions('cluster', PREFIX).filter(
        (rule) => !rule.startsWith('>'),
      );
      const untold = rules.filter((rule) => !TELLING.includes(rule));
      for (const master of masters)
        await master.call('ACL', 'SETUSER', 'untold', 'reset', '>secret', ...untold);
    }, 60_000);

    afterEach(() => {
      for (const template of templates.splice(0)) template.disconnect();
    });

    afterAll(async () => {
      for (const redis of [admin, ...masters]) redis.disconnect();
      await servers[Symbol.asyncDispose]();
    });

    function newClient(redisOptions = {}): Holdfast {
      const redis = new Cluster(servers.nodes, { redisOptions, lazyConnect: true });
      templates.push(redis);
      return new Holdfast({
        redis,
        keyPrefix: PREFIX,
        lockWatchdogTimeout: LEASE_MS,
        wait: Infinity,
      });
    }

    /** Whether the only waiter in line said that it listens for its grants. */
    async function saidToListen(name: string): Promise<boolean> {
      const [place] = await admin.hvals(`holdfast_places:{${PREFIX}${name}}`);
      return place !== undefined && / 1 \S+$/.test(place);
    }

    it.for([
      { what: 'a fair lock', of: (client: Holdfast, name: string) => client.getFairLock(name) },
      {
        what: 'a semaphore',
        of: (client: Holdfast, name: string) => client.getSemaphore(name, { permits: 1 }),
      },
    ])(
      'has its turn of $what among users that listen on sharded ones',
      { timeout: 40_000 },
      async ({ of }, { skip }) => {
        skip(!hasSharded, NO_SHARDED);
        const name = uniqueName('fair');
        await using one = newClient();
        await using two = newClient();
        await using untold = newClient({ username: 'untold', password: 'secret' });
        const hold = await of(one, name).acquire();
        const over = new AbortController();
        const turns = async (client: Holdfast): Promise<void> => {
          while (!over.signal.aborted) await turnOf(of(client, name));
        };
        const turn = turnOf(of(untold, name), 5 * LEASE_MS);
        turn.catch(() => undefined);
        await eventually(async () => {
          expect(await saidToListen(name)).toBe(true);
        });
        const others = [hold.release().then(() => turns(one)), turns(two)];
        try {
          await turn;
        } finally {
          over.abort();
          await Promise.all(others);
        }
      },
    );
  },
);

async function turnOf(lock: FairLock | Semaphore, wait = Infinity): Promise<void> {
  const hold = await lock.acquire({ wait });
  await hold.release();
}
