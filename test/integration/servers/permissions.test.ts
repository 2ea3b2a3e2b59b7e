// A user with just the permissions that the README names, on a server and in a cluster, can use all kinds of locks. Without one of them, an
// error or an event names it.
import { Cluster, Redis } from 'ioredis';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Holdfast, type HoldfastOptions, type Lock } from '../../../src/index.js';
import { rejectionOf } from '../../support/clients.js';
import { hasShardedChannels, SlotMover } from '../../support/cluster.js';
import { counterOf } from '../../support/fenced-locks.js';
import { keepLock } from '../../support/kept-locks.js';
import { startRedis, topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';
import {
  isUsable,
  permittedCommands,
  documentedPermissions,
  whatIsTold,
  type DeniedUser,
} from '../../support/users.js';

const PREFIX = 'app-under-test:';

/** Servers, and users with the permissions given there. */
interface Place extends AsyncDisposable {
  /** May do everything. */
  readonly admin: Redis | Cluster;
  readonly nodes: readonly Redis[];
  /** Commands that Redis before 7 does not know, and refuses to permit. */
  readonly isSharded: boolean;
  readonly redisFor: (username: string) => HoldfastOptions['redis'];
  readonly mover?: SlotMover;
}

const PLACES = {
  server: {
    rules: documentedPermissions('server', PREFIX).filter((rule) => !rule.startsWith('>')),
    /**
     * Permissions that are optional: the client finds out the server's version otherwise, notices a dead waiter later, omits from a
     * KeyConflictError what is there, takes the refusal of a PING as an answer, and is told of a deleted key by the next renewal.
     */
    dispensable: ['info', 'pubsub|numsub', 'type', 'ping', 'client|id', 'client|tracking'],
    async start(): Promise<Place> {
      const server = await startRedis();
      const admin = new Redis(server.url);
      const { host, port } = server;
      return {
        admin,
        nodes: [admin],
        isSharded: true,
        redisFor: (username) => ({ host, port, username, password: 'secret' }),
        async [Symbol.asyncDispose]() {
          admin.disconnect();
          await server[Symbol.asyncDispose]();
        },
      };
    },
  },
  cluster: {
    rules: documentedPermissions('cluster', PREFIX).filter((rule) => !rule.startsWith('>')),
    /** The version from INFO is enough. */
    dispensable: ['pubsub|shardnumsub'],
    async start(): Promise<Place> {
      const servers = await startCluster();
      const nodes = servers.masters.map(({ url }) => new Redis(url));
      const admin = new Cluster(servers.nodes);
      await Promise.all([admin, ...nodes].map((redis) => redis.ping()));
      // Otherwise the client would connect to each node when it first needs it, in the middle of a test.
      await Promise.all(admin.nodes('master').map((node) => node.ping()));
      const mover = await SlotMover.of(servers.masters);
      return {
        admin,
        nodes,
        mover,
        isSharded: await hasShardedChannels(nodes[0]!),
        redisFor(username) {
          const redisOptions = { username, password: 'secret' };
          return new Cluster(servers.nodes, { redisOptions, lazyConnect: true });
        },
        async [Symbol.asyncDispose]() {
          for (const redis of [admin, ...nodes]) redis.disconnect();
          await mover[Symbol.asyncDispose]();
          await servers[Symbol.asyncDispose]();
        },
      };
    },
  },
};

const SHARDED = ['+ssubscribe', '+sunsubscribe', '+spublish', '+pubsub|shardnumsub'];

const KINDS: readonly (readonly [string, (client: Holdfast, name: string) => Lock])[] = [
  ['a lock', (client, name) => client.getLock(name)],
  ['a lock that its client may keep', (client, name) => client.getLock(name, { keep: 100 })],
  ['a lock whose name has odd braces', (client, name) => client.getLock(`${name}}odd`)],
  ['a fair lock', (client, name) => client.getFairLock(name)],
  ['a fenced lock', (client, name) => client.getFencedLock(name)],
  ['a fenced lock whose name has odd braces', (client, name) => client.getFencedLock(`${name}}o`)],
  ['a fenced fair lock', (client, name) => client.getFencedLock(name, { fair: true })],
  ['a write lock', (client, name) => client.getReadWriteLock(name).writeLock()],
];

if (topologiesUnavailable !== undefined)
  console.log(`left out, permissions in a cluster: ${topologiesUnavailable}`);

describe.each(['server', 'cluster'] as const)('a user of a %s', (where) => {
  const { rules, dispensable } = PLACES[where];
  // What a server needs as well is denied there.
  const needed = permittedCommands(
    rules.filter((rule) => where === 'server' || !PLACES.server.rules.includes(rule)),
  );
  const isLeftOut = where === 'cluster' && topologiesUnavailable !== undefined;
  let place: Place;

  beforeAll(async () => {
    if (isLeftOut) return;
    place = await PLACES[where].start();
    await permit('app', rules);
  }, 60_000);

  afterAll(async () => {
    if (!isLeftOut) await place[Symbol.asyncDispose]();
  });

  async function permit(username: string, permitted: readonly string[]): Promise<void> {
    const known = permitted.filter((rule) => place.isSharded || !SHARDED.includes(rule));
    for (const node of place.nodes)
      await node.call('ACL', 'SETUSER', username, 'reset', '>secret', ...known);
  }

  function user(username: string): DeniedUser {
    const { admin, redisFor } = place;
    return {
      admin,
      keyPrefix: PREFIX,
      newClient: (options) =>
        new Holdfast({ redis: redisFor(username), keyPrefix: PREFIX, ...options }),
    };
  }

  it.skipIf(isLeftOut).each(KINDS)('with its permissions can use %s', async (_, lockOf) => {
    expect(await isUsable(user('app'), lockOf)).toEqual([]);
  });

  it.skipIf(isLeftOut)('with its permissions can keep a lock, and ask for it', async () => {
    const { newClient } = user('app');
    await using one = newClient({});
    await using two = newClient({});
    const told: string[] = [];
    for (const client of [one, two]) client.on('error', ({ error }) => told.push(error.message));
    const name = uniqueName('kept');
    await keepLock(one, name);
    await two.getLock(name).withLock({ wait: 2_000 }, () => undefined);
    await keepLock(one, name);
    const hold = await two.getFairLock(name).tryAcquire();
    expect(hold).toBeDefined();
    await hold!.release();
    expect(told).toEqual([]);
  });

  it.skipIf(isLeftOut)('with its permissions is told at once that a key is deleted', async () => {
    await using client = user('app').newClient({});
    const errors: unknown[] = [];
    client.on('error', (event) => errors.push(event));
    const name = uniqueName('told');
    const hold = await client.getLock(name).acquire();
    await expect
      .poll(() => client.stats().tracking, { timeout: 5_000 })
      .toEqual({ state: 'unproven' });
    await hold.extend(60_000); // a change that the server tells of
    await expect.poll(() => client.stats().tracking).toEqual({ state: 'proven' });
    await sleep(200); // the key has been read again by then
    const lost = once(hold.signal, 'abort');
    const deletedAtMs = performance.now();
    await place.admin.del(PREFIX + name);
    await lost;
    expect(performance.now() - deletedAtMs).toBeLessThan(1_000);
    expect(hold.signal.reason).toMatchObject({ lossReason: 'deleted' });
    expect(errors).toEqual([]);
  });

  it.skipIf(isLeftOut).each(needed.filter((command) => !dispensable.includes(command)))(
    'without %s gets an error that names it',
    async (command) => {
      if (!place.isSharded && SHARDED.includes(`+${command}`)) {
        console.log(`left out: this server knows no ${command}`);
        return;
      }
      const username = `without-${command}`;
      await permit(
        username,
        rules.filter((rule) => rule !== `+${command}`),
      );
      for (const node of place.nodes) await node.script('FLUSH');
      const { mover } = place;
      const told = await whatIsTold(command, {
        ...user(username),
        // Only where a slot migrates does a client ask a node for a slot that is not its own.
        ...(command === 'asking' && {
          prepare: async (name: string) => mover?.begin(await mover.slotOf(name)),
        }),
      });
      expect(told).not.toBe('');
    },
    20_000,
  );

  if (where === 'server')
    it.each<[string, string, (client: Holdfast, name: string) => Promise<unknown>, object?]>([
      ['a fenced lock', 'acquire', (client, name) => client.getFencedLock(name).acquire()],
      [
        'a fenced fair lock',
        'join',
        (client, name) => client.getFencedLock(name, { fair: true }).acquire(),
      ],
      [
        'a fenced Redlock',
        'vote',
        (client, name) =>
          client
            .getRedLock(client.getFencedLock(name), { nodeTimeout: 2_000, restartGuard: 1 })
            .acquire({ wait: 10_000 }),
      ],
      [
        'a fenced lock that a replica is to acknowledge',
        'acquire',
        (client, name) => client.getFencedLock(name).acquire(),
        { replicas: 1 },
      ],
    ])(
      'without the keys of tokens gets an error that names them, even from many calls at once for %s, and nothing changes',
      async (_, script, acquire, options = {}) => {
        const withoutKeys = rules.filter((rule) => !rule.startsWith('~redisson_lock_token'));
        await permit('without-counters', [...withoutKeys, '+wait']);
        await using client = user('without-counters').newClient(options);
        const names = Array.from({ length: 30 }, () => uniqueName());
        const errors = await Promise.all(names.map((name) => rejectionOf(acquire(client, name))));
        for (const [index, name] of names.entries()) {
          const counter = counterOf(PREFIX + name);
          const refusal = `^lock "${name}": NOPERM this user has no permission for one of the keys .*"${counter}".*, which ${script}.lua needs; npx holdfast acl prints the permissions that a user of holdfast needs$`;
          expect(errors[index]).toMatchObject({
            code: 'REDIS_UNAVAILABLE',
            message: expect.stringMatching(refusal) as string,
          });
          expect(await place.admin.exists(PREFIX + name, counter)).toBe(0);
        }
      },
    );
});
