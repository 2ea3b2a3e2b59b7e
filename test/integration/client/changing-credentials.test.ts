// Credentials that change while a client lives: it connects with those that the user's instance or options have at that time.
import { Cluster, Redis, type RedisOptions } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Holdfast, HoldfastOptions } from '../../../src/index.js';
import { allWords, ChangingUser } from '../../support/users.js';
import { eventsOf, newClient, nextEvent, rejectionOf } from '../../support/clients.js';
import { eventually, settledWithin } from '../../support/time.js';
import { startRedis, topologiesUnavailable, type RedisServer } from '../../support/redis-server.js';
import { startCluster, startSentinel } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

/** A waiter polls after 20 s. */
const LEASE_MS = 60_000;
const BEFORE_A_LOOK_MS = 15_000;

/** What was given to a client, and how its password is changed there. */
interface Given {
  readonly redis: HoldfastOptions['redis'];
  change(password: string): void;
}

interface Servers extends AsyncDisposable {
  readonly user: ChangingUser;
  readonly given: () => Given;
  /** The same servers for another user, whose credentials do not change. */
  readonly forAnother: HoldfastOptions['redis'];
}

async function oneServer(
  given: (server: RedisServer, user: ChangingUser) => Given,
): Promise<Servers> {
  const server = await startRedis();
  const user = await ChangingUser.on(server);
  return withUser(user, server, server.url, () => given(server, user));
}

function withUser(
  user: ChangingUser,
  servers: AsyncDisposable,
  forAnother: HoldfastOptions['redis'],
  given: () => Given,
): Servers {
  return {
    user,
    given,
    forAnother,
    [Symbol.asyncDispose]: async () => {
      await user[Symbol.asyncDispose]();
      await servers[Symbol.asyncDispose]();
    },
  };
}

function instance(redis: Redis): Given {
  return { redis, change: (password) => (redis.options.password = password) };
}

const ON_ONE_SERVER: Record<string, () => Promise<Servers>> = {
  'a Redis': () =>
    oneServer(({ host, port }, { username, password }) =>
      instance(new Redis({ host, port, username, password, lazyConnect: true })),
    ),
  options: () =>
    oneServer(({ host, port }, { username, password }) => {
      const redis: RedisOptions = { host, port, username, password };
      return { redis, change: (changed) => (redis.password = changed) };
    }),
  'options with a getter': () =>
    oneServer(({ host, port }, { username, password }) => {
      let token = password;
      const redis = {
        ...{ host, port, username },
        get password(): string {
          return token;
        },
      };
      return { redis, change: (changed) => (token = changed) };
    }),
};

const ON_SEVERAL: typeof ON_ONE_SERVER = {
  'a Cluster': async () => {
    const servers = await startCluster();
    const user = await ChangingUser.on(...servers.masters);
    const forAnother = new Cluster(servers.nodes, { lazyConnect: true });
    return withUser(user, servers, forAnother, () => {
      const { username, password } = user;
      const redisOptions = { username, password };
      const redis = new Cluster(servers.nodes, { redisOptions, lazyConnect: true });
      return { redis, change: (changed) => (redis.options.redisOptions!.password = changed) };
    });
  },
  'a Redis by Sentinels': async () => {
    const setup = await startSentinel();
    const { name, sentinels } = setup;
    const urls = sentinels.map(({ host, port }) => ({ url: `redis://${host}:${String(port)}` }));
    const user = await ChangingUser.on(setup.master, ...urls);
    return withUser(user, setup, { name, sentinels }, () => {
      const { username, password } = user;
      const ofSentinels = { sentinelUsername: username, sentinelPassword: password };
      const options = { name, sentinels, username, password, ...ofSentinels };
      const redis = new Redis({ ...options, lazyConnect: true });
      const change = (changed: string): void => {
        redis.options.sentinelPassword = changed;
        redis.options.password = changed;
      };
      return { redis, change };
    });
  },
};

function changing(start: () => Promise<Servers>): void {
  let servers: Servers;
  let user: ChangingUser;
  let given: Given;
  let client: Holdfast;
  let told: unknown[];

  beforeAll(async () => {
    servers = await start();
    ({ user } = servers);
  }, 60_000);

  afterAll(async () => {
    await servers[Symbol.asyncDispose]();
  });

  beforeEach(async () => {
    given = servers.given();
    client = newClient({
      redis: given.redis,
      lockWatchdogTimeout: LEASE_MS,
      commandTimeout: 20_000,
    });
    told = eventsOf(client, 'error');
    await client.ping();
  });

  afterEach(async () => {
    await client.close();
    expect(user.passwords.filter((password) => allWords(told).includes(password))).toEqual([]);
  });

  /** First here, then on the servers, which end all connections. */
  async function change(): Promise<void> {
    const password = user.newPassword();
    given.change(password);
    await user.setPassword(password);
    await user.kill();
  }

  it('keeps its locks, and acquires others, when they change', async () => {
    const lost = eventsOf(client, 'lost');
    const hold = await client.getLock(uniqueName()).acquire();
    for (let times = 0; times < 3; times++) {
      const renewed = nextEvent(client, 'renewed'); // on the new connection, at once
      await change();
      await renewed;
      await client.getLock(uniqueName()).withLock(() => undefined);
    }
    expect(hold.remaining()).toBeGreaterThan(0);
    await hold.release();
    expect(lost).toEqual([]);
  });

  it.each(['getLock', 'getFairLock'] as const)('receives a release message (%s)', async (kind) => {
    const lock = client[kind](uniqueName());
    await using holder = newClient({ redis: servers.forAnother, lockWatchdogTimeout: LEASE_MS });
    const hold = await holder[kind](lock.name).acquire();
    const waiting = nextEvent(client, 'waiting');
    const theirs = lock.acquire();
    theirs.catch(() => undefined); // of a test that fails
    await waiting;
    await user.subscribedAnew([]);
    const before = await user.subscribers();
    await change();
    await user.subscribedAnew(before);
    await hold.release();
    const next = await settledWithin(theirs, BEFORE_A_LOOK_MS);
    expect(next).toHaveProperty('lockName', lock.name);
    await (await theirs).release();
  });

  it('is refused while they are wrong, and recovers when they are right', async () => {
    const password = user.newPassword();
    await user.setPassword(password);
    await user.kill();
    await expect.poll(() => client.status, { timeout: 10_000 }).toBe('refused');
    const error = await rejectionOf(client.getLock(uniqueName()).acquire());
    expect(error).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
    told.push(error);
    given.change(password);
    await eventually(() => client.getLock(uniqueName()).withLock(() => undefined));
    await expect.poll(() => client.status, { timeout: 10_000 }).toBe('ready');
  });
}

describe.each(Object.entries(ON_ONE_SERVER))('a client that was given %s', (_, start) => {
  changing(start);
});

describe.skipIf(topologiesUnavailable).each(Object.entries(ON_SEVERAL))(
  'a client that was given %s',
  (_, start) => {
    changing(start);
  },
);
