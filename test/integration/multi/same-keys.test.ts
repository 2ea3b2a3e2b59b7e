// Members that are one key of one server, by two clients, are refused, since each would take the other's hold for its own.
import { Cluster, Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Holdfast, OptionError, type HoldfastOptions, type Lock } from '../../../src/index.js';
import { rejectionOf } from '../../support/clients.js';
import { recordCommands } from '../../support/recorded-commands.js';
import { redNodes, type RedClient } from '../../support/red-nodes.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, startMasters } from '../../support/redis-topologies.js';
import { startProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

const nodes = redNodes(() => startMasters(3));
const LEASE = { lockWatchdogTimeout: 30_000, commandTimeout: 10_000 };

let one: Holdfast;
let other: Holdfast;
let red: RedClient;

beforeEach(async () => {
  [one, other] = twoClients(nodes.urls[0]!);
  red = await nodes.client(LEASE);
  await Promise.all([one.ping(), other.ping()]);
});

afterEach(async () => {
  await Promise.all([one.close(), other.close(), red[Symbol.asyncDispose]()]);
});

function twoClients(redis: HoldfastOptions['redis']): [Holdfast, Holdfast] {
  return [new Holdfast({ redis, ...LEASE }), new Holdfast({ redis, ...LEASE })];
}

/** Checks that every way to acquire is refused. Returns the commands for that key, and those that ask a server for its identity. */
async function refused(multi: Lock, key: string): Promise<string[]> {
  const commands = await recordCommands(nodes.urls[0]!, async () => {
    for (const call of [() => multi.acquire(), () => multi.tryLock(), () => multi.lock(5_000)]) {
      const error = await rejectionOf(call());
      expect(error).toBeInstanceOf(OptionError);
      expect(error).toMatchObject({ lockName: multi.name });
      expect((error as Error).message).toContain(`are the same key, "${key}", of the same server`);
    }
  });
  return commands
    .filter(({ name, args }) => args.some((arg) => arg.includes(key)) || name === 'INFO')
    .map(({ name }) => name);
}

const pairs: [string, (name: string) => Lock[]][] = [
  ['getLock() twice', (name) => [one.getLock(name), other.getLock(name)]],
  ['getLock() and getFairLock()', (name) => [one.getLock(name), other.getFairLock(name)]],
  ['getFairLock() twice', (name) => [one.getFairLock(name), other.getFairLock(name)]],
  ['getFencedLock() and getLock()', (name) => [one.getFencedLock(name), other.getLock(name)]],
  ['two that read', (name) => [one, other].map((by) => by.getReadWriteLock(name).readLock())],
  ['two that write', (name) => [one, other].map((by) => by.getReadWriteLock(name).writeLock())],
  [
    'one that reads and one that writes',
    (name) => [one.getReadWriteLock(name).readLock(), other.getReadWriteLock(name).writeLock()],
  ],
  ['a Redlock and the lock of one of its masters', (name) => [red.lock(name), other.getLock(name)]],
  [
    'two Redlocks that share a master',
    (name) => [red.lock(name), one.getRedLock(other.getLock(name))],
  ],
];

describe('two members that are the same key of the same server', () => {
  it.each(pairs)('are refused before anything is sent: %s', async (_, membersOf) => {
    const name = uniqueName();
    const multi = one.getMultiLock(one.getLock(uniqueName()), ...membersOf(name));
    expect(await refused(multi, name)).toEqual([]);
    await nodes.nothingLeft({ name });
  });

  it('are refused when prefixes make two names one key, and the error names both', async () => {
    const options = { redis: nodes.urls[0]!.replace('127.0.0.1', 'localhost'), ...LEASE };
    await using prefixed = new Holdfast({ ...options, keyPrefix: 'app:' });
    await prefixed.ping();
    const name = uniqueName();
    const multi = one.getMultiLock(prefixed.getLock(name), other.getLock(`app:${name}`));
    expect(await refused(multi, `app:${name}`)).toEqual([]);
    const { message } = (await rejectionOf(multi.acquire())) as Error;
    expect(message).toMatch(`"${name}" by localhost:`);
    expect(message).toMatch(`"app:${name}" by 127.0.0.1:`);
  });

  it.each(pairs.slice(0, 7))(
    'are refused by clients that connect only then, and nothing is left: %s',
    async (_, membersOf) => {
      await using proxy = await startProxy(nodes.servers[0]!.port);
      proxy.delay({ downstreamMs: 60 }); // several times, before a client knows its server
      for (const call of ['acquire', 'tryAcquire'] as const) {
        await Promise.all([one.close(), other.close()]);
        [one, other] = twoClients(proxy.url);
        const name = uniqueName();
        const multi = one.getMultiLock(...membersOf(name));
        expect(await rejectionOf(multi[call]())).toBeInstanceOf(OptionError);
        await nodes.nothingLeft({ name });
      }
      await Promise.all([one.close(), other.close()]);
    },
  );

  it('are not noticed without permission for INFO: the release reports that the lock was lost', async () => {
    const [url] = nodes.urls;
    const admin = new Redis(url!);
    const denied = ['unseen', 'on', '>secret', '~*', '&*', '+@all', '-info'] as const;
    await admin.acl('SETUSER', ...denied);
    const redis = url!.replace('redis://', 'redis://unseen:secret@');
    const [first, second] = twoClients(redis);
    const name = uniqueName();
    const multi = first.getMultiLock(first.getLock(name), second.getLock(name));
    const hold = await multi.acquire();
    expect(await rejectionOf(hold.release())).toMatchObject({ code: 'LOCK_LOST' });
    await Promise.all([first.close(), second.close()]);
    await admin.acl('DELUSER', 'unseen');
    admin.disconnect();
  });
});

describe('members by two clients that are different keys', () => {
  it('are held together at no further cost: with another name, in another database', async () => {
    const name = uniqueName();
    await using elsewhere = new Holdfast({ redis: `${nodes.urls[0]!}/1`, ...LEASE });
    await elsewhere.ping();
    const another = other.getLock(uniqueName());
    const multi = one.getMultiLock(one.getLock(name), elsewhere.getLock(name), another);
    const commands = await recordCommands(nodes.urls[0]!, () => multi.withLock(() => undefined));
    expect(commands.filter(({ byScript }) => !byScript).map((command) => command.name)).toEqual(
      Array(6).fill('EVALSHA'),
    );
  });
});

describe.skipIf(topologiesUnavailable)('in a cluster', () => {
  it('two members that are the same key are refused, even by clients that connect only then', async () => {
    await using servers = await startCluster();
    const instance = new Cluster(servers.nodes);
    await instance.ping();
    for (const isConnected of [true, false]) {
      const [first, second] = twoClients(instance);
      if (isConnected) await Promise.all([first.ping(), second.ping()]);
      const name = uniqueName();
      const multi = first.getMultiLock(first.getLock(name), second.getFairLock(name));
      for (const call of ['acquire', 'tryAcquire'] as const) {
        const error = await rejectionOf(multi[call]());
        expect(error).toBeInstanceOf(OptionError);
        expect((error as Error).message).toContain(`the same key, "${name}", of the same server`);
      }
      expect(await instance.exists(name)).toBe(0);
      const apart = first.getMultiLock(first.getLock(name), second.getLock(uniqueName()));
      await apart.withLock(() => undefined);
      await Promise.all([first.close(), second.close()]);
    }
    instance.disconnect();
  });

  it('members of one name in two clusters are held together', async () => {
    await using here = await startCluster({ masterCount: 3 });
    await using there = await startCluster({ masterCount: 3 });
    const instances = [here, there].map((servers) => new Cluster(servers.nodes));
    const clients = instances.map((redis) => new Holdfast({ redis, ...LEASE }));
    const name = uniqueName();
    const multi = clients[0]!.getMultiLock(...clients.map((client) => client.getLock(name)));
    await multi.withLock(async () => {
      expect(await Promise.all(instances.map((each) => each.exists(name)))).toEqual([1, 1]);
    });
    await Promise.all(clients.map((client) => client.close()));
    for (const instance of instances) instance.disconnect();
  });
});
