// Keys with other values, and unusable servers: a clear error, and nothing changes.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { KeyConflictError, UnavailableError, type Holdfast } from '../../../src/index.js';
import { connectedClient, eventsOf, newClient, rejectionOf } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { recordCommands } from '../../support/recorded-commands.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { startProxy } from '../../support/tcp-proxy.js';

let server: RedisServer;
let redis: Redis;
let client: Holdfast;

beforeAll(async () => {
  server = await startRedis();
  redis = new Redis(server.url);
  client = await connectedClient({ redis: server.url });
});

afterAll(async () => {
  await client.close();
  redis.disconnect();
  await server[Symbol.asyncDispose]();
});

describe('after a conflict', () => {
  it('nothing is retried', async () => {
    await redis.set('foreign', 'text');
    const error = await rejectionOf(client.getLock('foreign').acquire({ lease: 60_000 }));
    expect(error).toBeInstanceOf(KeyConflictError);
    await client.getLock('ready').isLocked(); // anything that follows a failure was sent before this
    const sent = await recordCommands(server.url, () => sleep(1_500));
    expect(sent).toEqual([]);
    await redis.del('foreign');
  });
});

describe('an unusable server is reported', () => {
  it('fast and clearly when the password is wrong', async () => {
    await using guarded = await startRedis({ args: ['--requirepass', 'right'] });
    for (const password of ['wrong', '']) {
      const url = new URL(guarded.url);
      url.password = password;
      await using stranger = newClient({ redis: url.href, lockWatchdogTimeout: 60_000 });
      const errors = eventsOf(stranger, 'error');
      const error = await rejectionOf(stranger.getLock('guarded').lock());
      expect(error).toBeInstanceOf(UnavailableError);
      expect(String(error)).toMatch(/WRONGPASS|NOAUTH/);
      expect(await rejectionOf(stranger.getLock('guarded').tryLock(60_000))).toBeInstanceOf(
        UnavailableError,
      );
      expect(errors.length).toBeGreaterThan(0);
    }
  });

  it('clearly when its host cannot be reached', async () => {
    await using nowhere = newClient({ redis: 'redis://127.0.0.1:1', commandTimeout: 300 });
    const error = await rejectionOf(nowhere.getLock('unreachable').tryLock());
    expect(error).toBeInstanceOf(UnavailableError);
    expect(String(error)).toContain('ECONNREFUSED');
  });

  it('once when it is older than 6.2, and by every call', async () => {
    const [, version] = /redis_version:(\S+)/.exec(await redis.info('server'))!;
    const oldVersion = `6.0.${'9'.repeat(version!.length - 4)}`;
    await using proxy = await startProxy(server.port, server.host);
    proxy.rewrite(`redis_version:${version!}`, `redis_version:${oldVersion}`);
    await using stranger = newClient({ redis: proxy.url });
    const errors = eventsOf(stranger, 'error');

    const error = await rejectionOf(stranger.getLock('old').lock());
    expect(error).toBeInstanceOf(UnavailableError);
    expect(String(error)).toContain(`Redis ${oldVersion} is too old`);
    expect(String(error)).toContain('6.2');
    expect(await rejectionOf(stranger.getLock('old').tryLock())).toBeInstanceOf(UnavailableError);
    const connectionsBefore = proxy.connections;
    proxy.cut();
    await eventually(() => {
      expect(proxy.connections).toBeGreaterThan(connectionsBefore);
    });
    expect(String(await rejectionOf(stranger.getLock('old').tryLock()))).toContain('too old');
    const told = errors.filter((event) => event.error.message.includes('too old'));
    expect(told).toHaveLength(1);
    expect(await redis.exists('old')).toBe(0);
  });
});
