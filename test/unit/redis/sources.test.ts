// The valid values for Redis: everything else is refused at once, with an error that says what it is, without its password.
import { Cluster, Redis } from 'ioredis';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { inspect } from 'node:util';
import { createClient, createClientPool, createCluster, createSentinel } from 'redis';
import { afterEach, describe, expect, it } from 'vitest';
import { OptionError } from '../../../src/api/errors.js';
import { libraryFor } from '../../../src/redis/installed.js';
import type { NodeRedis } from '../../../src/redis/node-redis/connection.js';
import { nodeRedisLibrary } from '../../../src/redis/node-redis/library.js';
import type { Library, Target } from '../../../src/redis/port.js';
import { parseRedisUrl, type RedisUrl } from '../../../src/redis/redis-url.js';

const SECRET = 'hunter2-secret';

const redis5 = createRequire(import.meta.url)('redis5') as {
  createClient: typeof createClient;
  createClientPool: typeof createClientPool;
  createCluster: typeof createCluster;
  createSentinel: typeof createSentinel;
};

const created: (Redis | Cluster)[] = [];

afterEach(() => {
  for (const client of created.splice(0)) client.disconnect();
});

class Config {
  readonly host = 'h';
}

function idle<Client extends Redis | Cluster>(client: Client): Client {
  created.push(client);
  return client;
}

function idleRedis(options: object): Redis {
  return idle(new Redis({ ...options, lazyConnect: true }));
}

function idleCluster(nodes: readonly unknown[], options: object = {}): Cluster {
  return idle(new Cluster(nodes as string[], { ...options, lazyConnect: true }));
}

describe('a text is refused', () => {
  it.each([
    ['an empty one', ''],
    ['an http URL', `http://:${SECRET}@localhost:6379`],
    ['an http URL without a path', 'http://localhost:6379'],
    ['a URL of another database', `postgres://u:${SECRET}@localhost/1`],
    ['a URL of an unknown scheme', 'valkeyss://localhost'],
    ['a URL without a host', `redis://:${SECRET}`],
    ['a port that is none', `redis://:${SECRET}@localhost:port`],
    ['a port out of range', `redis://:${SECRET}@localhost:66666`],
    ['only a port, out of range', '66666'],
    ['a "/" in the password', `redis://:${SECRET}/x@localhost:6379`],
    ['a "/" that leaves a port', `redis://user:123/${SECRET}@localhost`],
    ['a "?" that leaves a port', `redis://user:123?${SECRET}@localhost`],
    ['a "#" that leaves a port', `redis://user:123#${SECRET}@localhost`],
    ['a "#" that leaves a host', `redis://${SECRET}#x@localhost`],
    ['"@" and "?" in the password', `redis://user:abc@de?${SECRET}@host:6379`],
    ['an "@" in the query', `redis://user:pass@host?keyPrefix=${SECRET}@`],
    ['an "&" in a password in the query', `redis://h?password=ab&${SECRET}`],
    ['a "%" in the password', `redis://:%${SECRET}@localhost`],
    ['a database that is no number', `redis://:${SECRET}@localhost/main`],
    ['an unknown name in the query', `redis://:${SECRET}@h?ssl=true`],
    ['no scheme, and no port', `:${SECRET}`],
    ['something else', `what is ${SECRET}?`],
  ])('%s', (_title, text) => {
    const words = 'is no URL that can be used: it must be like redis://user:password@localhost';
    refused(text, words);
    refused({ url: text }, words);
  });

  it('with a database of letters', () => {
    refused('redis://h?db=2x', "db is '2x': it must be a whole number");
  });

  it('in an array, or as an instance of URL', () => {
    const url = `redis://:${SECRET}@localhost:6379`;
    refused([url], 'is an array of 1: it must be a URL as text, such as redis://localhost:6379');
    refused(new URL(url), 'is an instance of URL: it must be');
  });
});

describe('a text is read as', () => {
  const [database, isTls] = [0, false];

  it.each<[string, RedisUrl]>([
    ['redis://localhost', { address: { host: 'localhost', port: 6379 }, database, isTls }],
    ['valkey://localhost', { address: { host: 'localhost', port: 6379 }, database, isTls }],
    [
      'VALKEYS://user:pass@host/2',
      {
        address: { host: 'host', port: 6379 },
        database: 2,
        isTls: true,
        username: 'user',
        password: 'pass',
      },
    ],
    [
      'redis://user:p%40ss@host:7000/3',
      {
        address: { host: 'host', port: 7000 },
        database: 3,
        isTls,
        username: 'user',
        password: 'p@ss',
      },
    ],
    [
      'redis://:pass@[::1]:7000/',
      { address: { host: '::1', port: 7000 }, database, isTls, password: 'pass' },
    ],
    [
      'redis://host?db=2&keyPrefix=app:&connectionName=me',
      {
        address: { host: 'host', port: 6379 },
        database: 2,
        isTls,
        keyPrefix: 'app:',
        connectionName: 'me',
      },
    ],
    [
      'redis://host?username=user&password=pass&family=6',
      {
        address: { host: 'host', port: 6379 },
        database,
        isTls,
        username: 'user',
        password: 'pass',
        family: 6,
      },
    ],
    [
      'redis://user:pass@host/1?username=other&password=other&db=2',
      {
        address: { host: 'host', port: 6379 },
        database: 1,
        isTls,
        username: 'user',
        password: 'pass',
      },
    ],
    ['REDISS://host', { address: { host: 'host', port: 6379 }, database, isTls: true }],
    ['//host:7000', { address: { host: 'host', port: 7000 }, database, isTls }],
    ['host:7000', { address: { host: 'host', port: 7000 }, database, isTls }],
    ['host:7000/2', { address: { host: 'host', port: 7000 }, database: 2, isTls }],
    [':pass@host', { address: { host: 'host', port: 6379 }, database, isTls, password: 'pass' }],
    ['7000', { address: { host: 'localhost', port: 7000 }, database, isTls }],
    ['/var/run/redis.sock', { address: { path: '/var/run/redis.sock' }, database, isTls }],
  ])('%s', (text, url) => {
    expect(parseRedisUrl('option "redis"', text)).toEqual(url);
  });
});

describe('for a URL', () => {
  it('a library reports where Redis is, and what the URL names', () => {
    const library = libraryFor('redis://host:7000/3?keyPrefix=app:&connectionName=me');
    expect(library.target).toEqual(single({ host: 'host', port: 7000 }, 3));
    expect(library).toMatchObject({ keyPrefix: 'app:', connectionName: 'me' });
    expect(libraryFor('/tmp/redis.sock').target).toEqual(single({ path: '/tmp/redis.sock' }));
  });
});

describe('options are refused', () => {
  it.each<[string, unknown, string]>([
    ['nothing', undefined, 'is undefined (is an environment variable missing?): it must be a URL'],
    ['null', null, 'is null: it must be a URL'],
    ['a number', 6379, 'is 6379: it must be a URL'],
    ['a URL as host', { host: `redis://:${SECRET}@h` }, 'host or path is a URL'],
    ['a password in the host', { host: `:${SECRET}@h` }, 'host or path is a URL'],
    ['a URL as path', { path: `redis://:${SECRET}@h` }, 'host or path is a URL'],
    ['a port that is none', { port: 'redis' }, "port is 'redis': it must be a whole number"],
    ['a database that is none', { db: -1 }, 'db is -1'],
    ['a database with letters', { db: '2x' }, "db is '2x'"],
    ['a port with letters', { port: '63x' }, "port is '63x'"],
    ['an instance of a class', new Config(), 'is an instance of Config: it must be a URL'],
    ['a promise', Promise.resolve({ host: 'h' }), 'a Promise (was an await forgotten?)'],
    ['a class', Redis, 'is a function'],
  ])('%s', (_title, source, words) => {
    refused(source, words);
  });

  const ofSentinels = 'must be where the Sentinels are, [{ host, port }], and its name that of';

  it.each<[string, object, string]>([
    ['Sentinels without a name', { sentinels: [{ host: 'h' }] }, `sentinels ${ofSentinels}`],
    ['an empty name', { sentinels: [{ host: 'h' }], name: '' }, ofSentinels],
    ['no Sentinels', { sentinels: [], name: 'x' }, ofSentinels],
    ['one Sentinel without a list', { sentinels: { host: 'h' }, name: 'x' }, ofSentinels],
    ['a text as Sentinel', { sentinels: [`:${SECRET}@h`], name: 'x' }, ofSentinels],
    [
      'a URL as the host of a Sentinel',
      { sentinels: [{ host: `redis://:${SECRET}@h` }], name: 'x' },
      "Sentinel's host or path is a URL",
    ],
    [
      'a port of a Sentinel that is none',
      { sentinels: [{ host: 'h', port: 'x' }], name: 'x' },
      "Sentinel's port is 'x'",
    ],
  ])('in the form of ioredis: %s', (_title, source, words) => {
    refused(source, words);
  });

  it.each<[string, object, string]>([
    ['a URL as host', { socket: { host: `redis://:${SECRET}@h` } }, 'path is a URL'],
    ['a URL as path', { socket: { path: `redis://:${SECRET}@h` } }, 'path is a URL'],
    ['a port that is none', { socket: { port: 'x' } }, "port is 'x'"],
    ['a database that is none', { socket: {}, database: -1 }, 'database is -1'],
    ['no root nodes', { rootNodes: [] }, 'rootNodes must be an array of nodes'],
    ['root nodes that are not there', { rootNodes: undefined }, 'rootNodes must be an array'],
    [
      'a root node that cannot be read',
      { rootNodes: [{ url: `redis://:${SECRET}@h:port` }] },
      'a root node of the cluster: its url is no URL',
    ],
    [
      'a database of a cluster',
      { rootNodes: [{ url: `redis://:${SECRET}@h/2` }] },
      'the database of a root node of the cluster is 2: it must be 0',
    ],
    [
      'a database in its defaults',
      { rootNodes: [{ url: 'redis://h' }], defaults: { database: 1, password: SECRET } },
      'the database of the defaults of the cluster is 1: it must be 0',
    ],
    ['Sentinels without a name', { sentinelRootNodes: [{ host: 'h', port: 1 }] }, ofSentinels],
    ['no Sentinels', { sentinelRootNodes: [], name: 'x' }, `sentinelRootNodes ${ofSentinels}`],
    [
      'a URL as the host of a Sentinel',
      { sentinelRootNodes: [{ host: `redis://:${SECRET}@h`, port: 1 }], name: 'x' },
      "Sentinel's host or path is a URL",
    ],
  ])('in the form of node-redis: %s', (_title, source, words) => {
    refused(source, words);
  });
});

describe('options that a library would ignore', () => {
  const asked = (wrong: string, right: string): string =>
    `has no "${wrong}", but "${right}": is that meant?`;

  it.each<[object, string]>([
    [{ hots: 'h' }, asked('hots', 'host')],
    [{ hostname: 'h', port: 7000 }, asked('hostname', 'host')],
    [{ host: 'h', prot: 7000 }, asked('prot', 'port')],
    [{ host: 'h', pasword: SECRET }, asked('pasword', 'password')],
    [{ host: 'h', userName: 'u' }, asked('userName', 'username')],
    [{ host: 'h', database: 2 }, asked('database', 'db')],
    [{ host: 'h', keyprefix: 'app:' }, asked('keyprefix', 'keyPrefix')],
    [{ host: 'h', prefix: 'app:' }, asked('prefix', 'keyPrefix')],
    [{ host: 'h', ssl: true }, asked('ssl', 'tls')],
    [{ host: 'h', ca: 'pem' }, asked('ca', 'tls.ca')],
    [
      { host: 'h', tls: {}, rejectUnauthorized: false },
      asked('rejectUnauthorized', 'tls.rejectUnauthorized'),
    ],
    [{ socket: { host: 'h', tls: { ca: 'pem' } } }, 'socket.tls must be true or false'],
    [
      { host: 'h', maxRetriesPerRequests: null },
      asked('maxRetriesPerRequests', 'maxRetriesPerRequest'),
    ],
    [{ sentinel: [{ host: 'h' }], name: 'x' }, asked('sentinel', 'sentinels')],
    [{ url: 'redis://h', pasword: SECRET }, asked('pasword', 'password')],
    [{ url: 'redis://h', db: 2 }, asked('db', 'database')],
    [{ url: 'redis://h', tls: true }, asked('tls', 'socket.tls')],
    [{ socket: { hots: 'h' } }, asked('hots', 'host')],
    [{ socket: { host: 'h' }, port: 7000 }, asked('port', 'socket.port')],
    [{ rootNodes: [{ socket: { hots: 'h' } }] }, asked('hots', 'host')],
    [{ rootNodes: [{ ulr: 'redis://h' }] }, asked('ulr', 'url')],
    [{ rootNodes: [{ host: 'h' }] }, asked('host', 'socket.host')],
    [
      { rootNodes: [{ url: 'redis://h' }], defaults: { pasword: SECRET } },
      asked('pasword', 'password'),
    ],
    [{ sentinels: [{ hots: 'h' }], name: 'x' }, asked('hots', 'host')],
    [{ sentinelRootNodes: [{ host: 'h', prot: 7000 }], name: 'x' }, asked('prot', 'port')],
    [
      { sentinelRootNodes: [{ host: 'h', port: 1 }], name: 'x', nodeClientOptions: { db: 2 } },
      asked('db', 'database'),
    ],
  ])('are refused if they are probably misspelt: %j', (source, words) => {
    refused(source, words);
  });

  it.each<[object, string]>([
    [{}, 'does not say where Redis is: it must have host, port, path, sentinels'],
    [{ password: SECRET }, 'does not say where Redis is'],
    [{ host: undefined }, 'has a "host" that is undefined (is an environment variable missing?)'],
    [{ host: '' }, 'has a "host" that is \'\''],
    [{ host: undefined, port: 6379 }, 'has a "host" that is undefined'],
    [{ socket: { host: undefined, port: 6379 } }, 'has a "host" that is undefined'],
    [{ url: undefined, socket: { port: 6379 } }, 'has a "url" that is undefined'],
    [{ url: undefined }, 'has a "url" that is undefined (is an environment variable missing?)'],
    [{ socket: {} }, 'does not say where Redis is: it must have url, host, port, path'],
    [{ socket: { tls: true } }, 'does not say where Redis is'],
    [{ socket: { host: undefined } }, 'has a "host" that is undefined'],
    [{ rootNodes: [{}] }, 'a root node of the cluster does not say where Redis is'],
    [{ rootNodes: [{ url: undefined }] }, 'has a "url" that is undefined'],
    [
      { sentinels: [{}], name: 'x' },
      'a Sentinel does not say where Redis is: it must have host, port',
    ],
    [{ sentinels: [{ host: undefined }], name: 'x' }, 'a Sentinel has a "host" that is undefined'],
    [{ sentinelRootNodes: [null], name: 'x' }, 'a Sentinel does not say where Redis is'],
  ])('are refused if they name no address: %j', (source, words) => {
    refused(source, words);
  });

  it('pass if they resemble no known one', () => {
    const { target } = libraryFor({ host: 'h', enableFancyThing: true, foo: 1, id: 2 });
    expect(target).toEqual(single({ host: 'h', port: 6379 }));
  });

  it.each([
    ['ioredis', 'built/redis/RedisOptions.d.ts', 'CommonRedisOptions', { host: 'h' }],
    ['ioredis5', 'built/redis/RedisOptions.d.ts', 'CommonRedisOptions', { host: 'h' }],
    [
      'ioredis',
      'built/connectors/SentinelConnector/index.d.ts',
      'SentinelConnectionOptions',
      { host: 'h' },
    ],
    [
      'ioredis5',
      'built/connectors/SentinelConnector/index.d.ts',
      'SentinelConnectionOptions',
      { host: 'h' },
    ],
    ['@redis/client', 'dist/lib/client/index.d.ts', 'RedisClientOptions', { url: 'redis://h' }],
  ])('are none that the types of %s have: %s, %s', (name, file, type, address) => {
    const text = readFileSync(`node_modules/${name}/${file}`, 'utf8');
    const [, body = ''] =
      new RegExp(`interface ${type}\\b.*?\\{\n(.*?)^\\}`, 'ms').exec(text) ?? [];
    const options = Array.from(body.matchAll(/^ {4}(\w+)\??:/gm), ([, option]) => option!);
    expect(options.length).toBeGreaterThan(10);
    for (const option of options.filter((each) => !(each in address) && each !== 'sentinels'))
      expect(libraryFor({ [option]: undefined, ...address }).target).toEqual(
        single({ host: 'h', port: 6379 }),
      );
  });
});

describe('options of ioredis', () => {
  it('give the address of one server', () => {
    expect(libraryFor({ host: 'localhost' }).target).toEqual(
      single({ host: 'localhost', port: 6379 }),
    );
    expect(libraryFor({ host: null, port: '7000', db: '2' }).target).toEqual(
      single({ host: 'localhost', port: 7000 }, 2),
    );
    expect(libraryFor({ path: '/tmp/s', host: 'h' }).target).toEqual(single({ path: '/tmp/s' }));
    expect(libraryFor({ host: 'h', keyPrefix: 'app:', connectionName: 'me' })).toMatchObject({
      target: single({ host: 'h', port: 6379 }),
      keyPrefix: 'app:',
      connectionName: 'me',
    });
  });

  it('give the addresses of Sentinels, and the master they watch', () => {
    const { target } = libraryFor({
      sentinels: [{ host: 's1' }, { host: 's2', port: 7000 }],
      name: 'main',
      db: 3,
      updateSentinels: false,
      natMap: { '10.0.0.1:6379': { host: 'outside', port: 1 } },
    });
    expect(target).toMatchObject({
      kind: 'sentinel',
      name: 'main',
      database: 3,
      isFixed: true,
      sentinels: [
        { host: 's1', port: 26_379 },
        { host: 's2', port: 7000 },
      ],
    });
    expect(remapped(target, '10.0.0.1:6379')).toEqual({ host: 'outside', port: 1 });
    expect(remapped(target, '10.0.0.2:6379')).toBeUndefined();
  });

  it('are read without the settings of a single attempt', () => {
    const options = {
      host: 'h',
      get password(): string {
        throw new Error('no token today');
      },
    };
    expect(libraryFor(options).target).toEqual(single({ host: 'h', port: 6379 }));
  });
});

describe('a client of ioredis', () => {
  it('is read, and not used', () => {
    const client = idleRedis({
      host: 'h',
      port: 7000,
      db: 2,
      keyPrefix: 'a:',
      connectionName: 'b',
    });
    const library = libraryFor(client);
    expect(library.target).toEqual(single({ host: 'h', port: 7000 }, 2));
    expect(library).toMatchObject({ keyPrefix: 'a:', connectionName: 'b' });
    expect(client.status).toBe('wait');
  });

  it('of a cluster is read, and not used', () => {
    const natMap = { '10.0.0.1:6379': { host: 'outside', port: 1 } };
    const nodes = [{ host: 'n1', port: 7001 }, 'redis://user:pass@n2:7002', 7003];
    const redisOptions = { connectionName: 'me' };
    const client = idleCluster(nodes, { natMap, keyPrefix: 'app:', redisOptions });
    const library = libraryFor(client);
    expect(library.target).toMatchObject({
      kind: 'cluster',
      startup: [
        { host: 'n1', port: 7001 },
        { host: 'n2', port: 7002 },
        { host: expect.any(String) as string, port: 7003 },
      ],
    });
    expect(remapped(library.target, '10.0.0.1:6379')).toEqual({ host: 'outside', port: 1 });
    expect(library).toMatchObject({ keyPrefix: 'app:', connectionName: 'me' });
    expect(client.status).toBe('wait');
  });

  it('may translate the addresses of a cluster by a function', () => {
    const natMap = (at: string) => (at === 'a:1' ? { host: 'outside', port: 1 } : null);
    const { target } = libraryFor(idleCluster([{ host: 'h' }], { natMap }));
    expect(remapped(target, 'a:1')).toEqual({ host: 'outside', port: 1 });
    expect(remapped(target, 'a:2')).toBeUndefined();
  });

  it('is refused if its host or path is a URL', () => {
    refused(idleRedis({ host: `redis://:${SECRET}@localhost` }), 'host or path is a URL');
    const url = `http://:${SECRET}@localhost`;
    refused(idle(new Redis(url, { lazyConnect: true })), 'host or path is a URL');
  });

  it('is refused if a start-up node of its cluster is unusable', () => {
    const nodes = [
      [`redis://user:abc@de?${SECRET}@host:6379`, 'a start-up node of the cluster is no URL'],
      [`redis://:${SECRET}@localhost:port`, 'a start-up node of the cluster is no URL'],
      [{ host: `redis://:${SECRET}@localhost` }, 'its host or path is a URL'],
      [{ host: 'h', db: 1 }, 'a start-up node of the cluster is 1: it must be 0'],
    ] as const;
    for (const [node, words] of nodes) refused(idleCluster([node]), words);
    refused(idleCluster([]), 'without start-up nodes');
  });

  it.each([
    ['a Redis', () => idleRedis({ password: SECRET })],
    ['a Cluster', () => idleCluster([{ host: 'h' }], { redisOptions: { password: SECRET } })],
  ])('is read though it was closed: %s', async (_title, create) => {
    const client = create();
    const { target } = libraryFor(client);
    client.disconnect();
    await expect.poll(() => client.status).toBe('end');
    const read = libraryFor(client).target;
    expect({ ...read, remap: undefined }).toEqual({ ...target, remap: undefined });
  });
});

describe.each([
  ['6', { createClient, createClientPool, createCluster, createSentinel }],
  ['5', redis5],
])('a client of node-redis %s', (_version, nodeRedis) => {
  it('is read, and not used', () => {
    const url = `redis://user:${SECRET}@host:7000/2`;
    const client = nodeRedis.createClient({ url, name: 'me' });
    expect(libraryFor(client)).toMatchObject({
      target: single({ host: 'host', port: 7000 }, 2),
      connectionName: 'me',
      keyPrefix: '',
    });
    expect(client.isOpen).toBe(false);
  });

  it('may have been made from options, or from none', () => {
    const { createClient: create } = nodeRedis;
    const atPath = create({ socket: { path: '/tmp/redis.sock', tls: false }, database: 1 });
    expect(libraryFor(atPath).target).toEqual(single({ path: '/tmp/redis.sock' }, 1));
    expect(libraryFor(create()).target).toEqual(single({ host: 'localhost', port: 6379 }));
  });

  it('of a cluster is read, and not used', () => {
    const client = nodeRedis.createCluster({
      rootNodes: [{ url: 'redis://n1:7001' }, { socket: { host: 'n2', port: 7002 } }],
      defaults: { name: 'me' },
      nodeAddressMap: { '10.0.0.1:6379': { host: 'outside', port: 1 } },
    });
    const library = libraryFor(client);
    expect(library).toMatchObject({
      target: {
        kind: 'cluster',
        startup: [
          { host: 'n1', port: 7001 },
          { host: 'n2', port: 7002 },
        ],
      },
      connectionName: 'me',
    });
    expect(remapped(library.target, '10.0.0.1:6379')).toEqual({ host: 'outside', port: 1 });
    expect(remapped(library.target, '10.0.0.2:6379')).toBeUndefined();
  });

  it('that hides its options is refused, with the right way', () => {
    const words = 'it must be what createClient() or createCluster() returns, or plain options';
    const options = { password: SECRET };
    const sentinel = nodeRedis.createSentinel({
      name: 'main',
      sentinelRootNodes: [{ host: 'h', port: 1 }],
      nodeClientOptions: options,
    });
    refused(sentinel, words);
    refused(sentinel, 'for Sentinels { name, sentinelRootNodes, nodeClientOptions }');
    refused(nodeRedis.createClientPool(options), words);
  });
});

describe('options of node-redis', () => {
  it('give the address of one server', () => {
    expect(libraryFor({ url: 'redis://u:p@host:7000/2' }).target).toEqual(
      single({ host: 'host', port: 7000 }, 2),
    );
    const library = libraryFor({ socket: { host: 'h', port: 7000 }, database: 1, keyPrefix: 'a:' });
    expect(library.target).toEqual(single({ host: 'h', port: 7000 }, 1));
    expect(library.keyPrefix).toBe('a:');
  });

  it('come after their URL, as in node-redis itself', () => {
    const options = { url: 'redis://h:7000/2', database: 3, socket: { host: 'other' } };
    expect(libraryFor(options).target).toEqual(single({ host: 'h', port: 7000 }, 2));
    const unsaid = { url: 'redis://h', database: 3 };
    expect(libraryFor(unsaid).target).toEqual(single({ host: 'h', port: 6379 }, 3));
    const named = libraryFor({ url: 'redis://h?keyPrefix=app:&connectionName=me' });
    expect(named).toMatchObject({ keyPrefix: 'app:', connectionName: 'me' });
  });

  it('give the addresses of the nodes of a cluster', () => {
    const rootNodes = [{ url: 'redis://n1:7001' }, { socket: { host: 'n2', port: 7002 } }];
    const nodeAddressMap = (at: string) =>
      at === 'a:1' ? { host: 'outside', port: 1 } : undefined;
    const { target } = libraryFor({ rootNodes, nodeAddressMap });
    expect(target).toMatchObject({
      kind: 'cluster',
      startup: [
        { host: 'n1', port: 7001 },
        { host: 'n2', port: 7002 },
      ],
    });
    expect(remapped(target, 'a:1')).toEqual({ host: 'outside', port: 1 });
  });

  it('give the addresses of Sentinels, and the master they watch', () => {
    const library = libraryFor({
      name: 'main',
      sentinelRootNodes: [{ host: 's1', port: 7000 }, { host: 's2' }],
      nodeClientOptions: { database: 3, name: 'me' },
    });
    expect(library).toMatchObject({
      target: {
        kind: 'sentinel',
        name: 'main',
        database: 3,
        isFixed: false,
        sentinels: [
          { host: 's1', port: 7000 },
          { host: 's2', port: 26_379 },
        ],
      },
      connectionName: 'me',
    });
  });

  it('are read without the settings of a single attempt', () => {
    const options = {
      socket: { host: 'h' },
      get password(): string {
        throw new Error('no token today');
      },
    };
    expect(libraryFor(options).target).toEqual(single({ host: 'h', port: 6379 }));
    expect(libraryFor({ rootNodes: [options] }).target.kind).toBe('cluster');
  });

  it('give the credentials of the URL, and otherwise their own', () => {
    const given = optionsOf({ url: 'rediss://user:pass@h?family=6', username: 'x', RESP: 3 });
    expect(given).toMatchObject({ username: 'user', password: 'pass', RESP: undefined });
    expect(given['socket']).toMatchObject({ host: 'h', port: 6379, tls: true, family: 6 });
    const credentialsProvider = { type: 'async-credentials-provider' };
    expect(optionsOf({ url: 'redis://h', credentialsProvider })).toMatchObject({
      credentialsProvider,
    });
  });
});

describe('a client of another library is refused', () => {
  it('of GLIDE', () => {
    class GlideClient {
      customCommand(): void {
        // only its name counts
      }
    }
    refused(new GlideClient(), 'a client of GLIDE, which tells nobody when its connection is lost');
    refused(new GlideClient(), 'give a client of ioredis or node-redis, a URL, or options');
  });

  it('of ioredis-mock', () => {
    class RedisMock {
      readonly options = { password: SECRET };
      readonly status = 'ready';
      duplicate(): this {
        return this;
      }
    }
    refused(new RedisMock(), 'a client of ioredis-mock, which has no server');
  });

  it('of an unknown library', () => {
    class Tedis {
      readonly options = { host: 'h', port: 6379, password: SECRET };
      command(): void {
        // as in the package of this name
      }
    }
    refused(new Tedis(), 'is an instance of Tedis: it must be a URL');
    refused(new Tedis(), 'or a client of ioredis or node-redis');
  });
});

function single(address: object, database = 0): Target {
  return { kind: 'single', address, database } as Target;
}

function remapped(target: Target, announced: string): unknown {
  return target.kind === 'single' ? undefined : target.remap(announced);
}

/** What node-redis receives for a connection. */
function optionsOf(source: object): Record<string, unknown> {
  let given: object = {};
  const template = {
    duplicate(options: object) {
      given = options;
      throw new Error('none is needed');
    },
  };
  const nodeRedis = { createClient: () => template } as unknown as NodeRedis;
  const library: Library = nodeRedisLibrary(source, () => nodeRedis);
  const silent = (): void => undefined;
  const heard = {
    ready: silent,
    ended: silent,
    message: silent,
    moved: silent,
    invalidated: silent,
  };
  if (library.target.kind === 'single') library.open(library.target.address, 'commands', heard);
  return given as Record<string, unknown>;
}

/** Also checks that its password is nowhere in the error. */
function refused(source: unknown, words: string): void {
  let error: unknown;
  try {
    libraryFor(source);
  } catch (thrown) {
    error = thrown;
  }
  expect(error).toBeInstanceOf(OptionError);
  expect(String(error)).toContain(words);
  expect(inspect(error, { depth: Infinity, showHidden: true })).not.toContain(SECRET);
}
