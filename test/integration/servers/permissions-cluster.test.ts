// A user with just the permissions that the README names for a cluster: all kinds of locks work there. With one of them
// missing, an error or an event says which.
import { Cluster, Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { Holdfast, type HoldfastOptions } from '../../../src/index.js';
import { hasShardedChannels, SlotMover } from '../../support/cluster.js';
import { permittedCommands, readmePermissions, whatIsTold } from '../../support/users.js';
import { lockContract, lockContracts } from '../../support/lock-contract.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, type Cluster as Servers } from '../../support/redis-topologies.js';

const PREFIX = 'app-under-test:';
const RULES = readmePermissions('cluster', PREFIX).filter((rule) => !rule.startsWith('>'));

/** What Redis before 7 knows nothing of, and refuses to permit. */
const SHARDED = ['+ssubscribe', '+sunsubscribe', '+spublish', '+pubsub|shardnumsub'];

if (topologiesUnavailable !== undefined)
  console.log(`left out, permissions in a cluster: ${topologiesUnavailable}`);

describe.skipIf(topologiesUnavailable)('in a cluster', () => {
  let servers: Servers;
  let masters: Redis[];
  let admin: Cluster;
  let mover: SlotMover;
  let isSharded: boolean;
  const templates: Cluster[] = [];

  beforeAll(async () => {
    servers = await startCluster();
    masters = servers.masters.map(({ url }) => new Redis(url));
    isSharded = await hasShardedChannels(masters[0]!);
    admin = new Cluster(servers.nodes);
    mover = await SlotMover.of(servers.masters);
    await admin.ping();
    await Promise.all(admin.nodes('master').map((node) => node.ping()));
    await permit('app', RULES);
  }, 60_000);

  afterEach(() => {
    for (const template of templates.splice(0)) template.disconnect();
  });

  afterAll(async () => {
    for (const redis of [admin, ...masters]) redis.disconnect();
    await mover[Symbol.asyncDispose]();
    await servers[Symbol.asyncDispose]();
  });

  async function permit(username: string, rules: readonly string[]): Promise<void> {
    const known = rules.filter((rule) => isSharded || !SHARDED.includes(rule));
    for (const master of masters)
      await master.call('ACL', 'SETUSER', username, 'reset', '>secret', ...known);
  }

  function clientOf(username: string, options: Partial<HoldfastOptions> = {}): Holdfast {
    const redisOptions = { username, password: 'secret' };
    const redis = new Cluster(servers.nodes, { redisOptions, lazyConnect: true });
    templates.push(redis);
    return new Holdfast({ redis, keyPrefix: PREFIX, ...options });
  }

  const ofApp = (options: Partial<HoldfastOptions>): Holdfast => clientOf('app', options);

  lockContracts(
    ofApp,
    ['reentrant lock', 'fair lock', 'fenced fair lock'],
    ' of a user with just its permissions',
  );

  lockContract('reentrant lock of a user with just its permissions, named …}odd', {
    className: 'Lock',
    newClient: ofApp,
    getLock: (client, name) => client.getLock(`${name}}odd`),
  });

  lockContract('fenced lock of a user with just its permissions, named …}odd', {
    className: 'FencedLock',
    newClient: ofApp,
    getLock: (client, name) => client.getFencedLock(`${name}}odd`),
  });

  describe('a user who lacks', () => {
    /**
     * What can be done without, also in a cluster: SHARDNUMSUB tells less than the version that INFO tells, and the other way
     * round.
     */
    const DISPENSABLE = ['info', 'pubsub|numsub', 'pubsub|shardnumsub', 'type', 'ping'];
    /** Only names with odd braces have channels that are not sharded. */
    const CLASSIC = ['publish', 'subscribe', 'unsubscribe'];

    const commands = permittedCommands(RULES).filter((command) => !DISPENSABLE.includes(command));

    it.each(commands)(
      '%s is told so by name',
      async (command) => {
        const username = `without-${command}`;
        if (!isSharded && SHARDED.includes(`+${command}`)) {
          console.log(`left out: this server knows no ${command}`);
          return;
        }
        await permit(
          username,
          RULES.filter((rule) => rule !== `+${command}`),
        );
        for (const master of masters) await master.script('FLUSH'); // so that EVAL is needed, too
        const told = await whatIsTold(command, {
          newClient: (options) => clientOf(username, options),
          admin,
          keyPrefix: PREFIX,
          nameShape: CLASSIC.includes(command) ? 'a}b' : '',
          // Only where a slot migrates is a node to be asked for one that is not its own.
          ...(command === 'asking' && { prepare: (name: string) => migrating(name) }),
        });
        expect(told).not.toBe('');
      },
      20_000,
    );
  });

  /** The slot of a lock goes on migrating; what is there moves when it is done. */
  async function migrating(name: string): Promise<void> {
    await mover.begin(await mover.slotOf(name));
  }
});
