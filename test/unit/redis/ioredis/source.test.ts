// What may stand for Redis: everything else is refused at once, in words that say what it is, and without its password.
import { Cluster, Redis, type RedisOptions } from 'ioredis';
import { inspect } from 'node:util';
import { afterEach, describe, expect, it } from 'vitest';
import { Holdfast, OptionError } from '../../../../src/index.js';
import { IOREDIS_OPTIONS } from '../../../../src/redis/ioredis/ioredis-options.js';
import { templateOf } from '../../../../src/redis/ioredis/source.js';

const SECRET = 'hunter2-secret';

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

describe('a text is refused', () => {
  it.each([
    ['an empty one', '', "is ''"],
    ['an http URL', `http://:${SECRET}@localhost:6379`, 'begins with http://'],
    ['a URL of another database', `postgres://u:${SECRET}@localhost/1`, 'begins with postgres://'],
    [
      'a URL of a scheme that ioredis does not know',
      'valkey://localhost',
      'redis://, or rediss://',
    ],
    ['a URL without a host', `redis://:${SECRET}`, 'no URL that can be used'],
    ['a port that is none', `redis://:${SECRET}@localhost:port`, 'no URL that can be used'],
    ['a port out of range', `redis://:${SECRET}@localhost:66666`, 'no URL that can be used'],
    ['a "/" in the password', `redis://:${SECRET}/x@localhost:6379`, 'percent-encoded'],
    ['a "/" that leaves a port', `redis://user:123/${SECRET}@localhost`, 'percent-encoded'],
    ['a "?" that leaves a port', `redis://user:123?${SECRET}@localhost`, 'percent-encoded'],
    ['a "#" that leaves a port', `redis://user:123#${SECRET}@localhost`, 'percent-encoded'],
    ['a "#" that leaves a host', `redis://${SECRET}#x@localhost`, 'percent-encoded'],
    ['"@" and "?" in the password', `redis://user:abc@de?${SECRET}@host:6379`, 'percent-encoded'],
    ['an "@" in the query', `redis://user:pass@host?keyPrefix=${SECRET}@`, 'percent-encoded'],
    ['an "&" in a password in the query', `redis://h?password=ab&${SECRET}`, '"&"'],
    ['the same behind the path of a socket', `/tmp/redis.sock?password=ab&${SECRET}`, '"&"'],
    ['a "%" in the password', `redis://:%${SECRET}@localhost`, 'percent-encoded'],
    ['a database that is no number', `redis://:${SECRET}@localhost/main`, 'number of a database'],
    [
      'a name in the query that ioredis does not know',
      'redis://h?database=2',
      'has no "database" (it is "db")',
    ],
    ['another one', `redis://:${SECRET}@h?ssl=true`, 'has no "ssl" (it is "tls")'],
    ['one behind the path of a socket', '/tmp/redis.sock?database=2', 'has no "database"'],
    [
      'an option that is no text',
      'redis://h?connectTimeout=5000',
      'connectTimeout cannot be given in a URL',
    ],
    ['a database with letters', 'redis://h?db=2x', "db is '2x'"],
    ['no scheme, but a database', `:${SECRET}@localhost:6379/2`, 'it must begin with redis://'],
    ['no scheme, and no port', `:${SECRET}`, 'no URL that can be used'],
    ['something else', `what is ${SECRET}?`, 'no URL that can be used'],
  ])('%s', (_title, text, words) => {
    refused({ redis: text }, words);
  });

  it('in place of the options, or in an array', () => {
    const url = `redis://:${SECRET}@localhost:6379`;
    const words = 'the options of new Holdfast() are';
    refused(url, `${words} 'redis://…'`);
    refused(`:${SECRET}@localhost`, `${words} '…@localhost'`);
    refused([url], `${words} an array of 1`);
    refused(new URL(url), `${words} an instance of URL`);
    refused({ redis: [url] }, 'option "redis" is an array of 1');
    refused({ redis: new URL(url) }, 'option "redis" is an instance of URL');
    refused({ redis: 'redis://localhost', clientId: [url] }, 'clientId is an array of 1');
    refused({ redis: 'redis://localhost', keyPrefix: { url } }, 'keyPrefix is an object');
    refused({ redis: 'redis://localhost', commandTimeout: url }, "commandTimeout is 'redis://…'");
  });
});

describe('a text is taken', () => {
  it.each<[string, Partial<RedisOptions>]>([
    ['redis://localhost', { host: 'localhost', port: 6379, db: 0 }],
    ['redis://user:p%40ss@host:7000/3', { host: 'host', port: 7000, db: 3, password: 'p@ss' }],
    ['redis://:pass@[::1]:7000/', { host: '::1', port: 7000, password: 'pass' }],
    ['redis://host?db=2&keyPrefix=app:', { host: 'host', db: 2, keyPrefix: 'app:' }],
    ['redis://host?password=pass&family=6', { host: 'host', password: 'pass', family: 6 }],
    ['REDISS://host', { host: 'host', tls: true as never }],
    ['//host:7000', { host: 'host', port: 7000 }],
    ['host:7000', { host: 'host', port: 7000 }],
    [':pass@host', { host: 'host', password: 'pass' }],
    ['7000', { host: 'localhost', port: 7000 }],
    ['/var/run/redis.sock', { path: '/var/run/redis.sock' }],
  ])('%s', (text, options) => {
    expect(templateOf(text).options).toMatchObject(options);
  });
});

describe('options are refused', () => {
  it.each<[string, object, string]>([
    ['a url', { url: `redis://:${SECRET}@localhost` }, 'has no "url" (a URL is given as it is'],
    ['a socket', { socket: { host: 'h' }, password: SECRET }, 'has no "socket" (its host, port'],
    ['a misspelt name', { hosst: 'h', password: SECRET }, 'has no "hosst": ioredis knows host'],
    ['nodes', { nodes: [{ host: 'h' }] }, 'has no "nodes" (for a cluster'],
    ['a URL as host', { host: `redis://:${SECRET}@h` }, "host is 'redis://…': it must be the name"],
    ['a password in the host', { host: `:${SECRET}@h` }, "host is '…@h'"],
    ['a number as host', { host: 6379 }, 'host is 6379'],
    ['a URL as path', { path: `redis://:${SECRET}@h` }, 'path is a URL'],
    ['a port that is none', { port: 'redis' }, 'port is NaN'],
    ['a port out of range', { port: 66_666 }, 'port is 66666'],
    ['a database that is none', { db: -1 }, 'db is -1'],
    ['a database with letters', { db: '2x' }, "db is '2x'"],
    ['a port with letters', { port: '63x' }, "port is '63x'"],
    ['sentinels without a name', { sentinels: [{ host: 'h' }] }, 'the name of master'],
    ['no sentinels', { sentinels: [], name: 'x' }, 'at least one sentinel'],
    [
      'a URL as sentinel',
      { sentinels: [{ host: `redis://:${SECRET}@h` }], name: 'x' },
      "sentinel's host is 'redis://…'",
    ],
    ['an instance of a class', new Config(), 'is an instance of Config: it must be a URL'],
    ['a promise', Promise.resolve({ host: 'h' }), 'a Promise (was an await forgotten?)'],
    ['a class', Redis, 'is a function'],
  ])('%s', (_title, redis, words) => {
    refused({ redis }, words);
  });

  it('each option of ioredis is known', () => {
    type Unlisted = Exclude<keyof RedisOptions, (typeof IOREDIS_OPTIONS)[number]>;
    const isComplete: [Unlisted] extends [never] ? true : false = true; // the compiler's business
    expect(isComplete).toBe(true);
    const template = idle(new Redis({ lazyConnect: true }));
    expect(IOREDIS_OPTIONS).toEqual(expect.arrayContaining(Object.keys(template.options)));
    expect(templateOf({ ...template.options }).options).toMatchObject({ host: 'localhost' });
  });
});

describe('an instance is refused', () => {
  class RedisClient {
    readonly isOpen = false;
    readonly options = { url: `redis://:${SECRET}@localhost` };
    duplicate(): this {
      return this;
    }
    sendCommand(): void {
      // It looks like ioredis', but takes an array.
    }
  }

  it('of node-redis', () => {
    refused({ redis: new RedisClient() }, 'is a client of node-redis (npm "redis"): it must be');
  });

  it('of ioredis whose host or path is a URL', () => {
    const url = `redis://:${SECRET}@localhost`;
    refused({ redis: idle(new Redis({ host: url, lazyConnect: true })) }, 'host is');
    const lazy = { lazyConnect: true };
    refused({ redis: idle(new Redis(`http://:${SECRET}@localhost`, lazy)) }, 'path is a URL');
  });

  it('of a cluster whose start-up nodes cannot be read', () => {
    const lazy = { lazyConnect: true };
    const nodes = [
      [`redis://user:abc@de?${SECRET}@host:6379`, 'a start-up node of the cluster is no URL'],
      [`redis://:${SECRET}@localhost:port`, 'a start-up node of the cluster is no URL'],
      [{ host: `redis://:${SECRET}@localhost` }, "its host is 'redis://…'"],
    ] as const;
    for (const [node, words] of nodes)
      refused({ redis: idle(new Cluster([node as string], lazy)) }, words);
    refused({ redis: idle(new Cluster([], lazy)) }, 'without start-up nodes');
  });
});

/** Also: its password is nowhere in the error. */
function refused(options: unknown, words: string): void {
  let error: unknown;
  try {
    new Holdfast(options as never);
  } catch (thrown) {
    error = thrown;
  }
  expect(error).toBeInstanceOf(OptionError);
  expect(String(error)).toContain(words);
  expect(inspect(error, { depth: Infinity, showHidden: true })).not.toContain(SECRET);
}
