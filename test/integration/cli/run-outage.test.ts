// The verb run while Redis is away: it waits for as long as it is told, and ends its command in time.
import { Redis } from 'ioredis';
import { beforeEach, describe, expect, it } from 'vitest';
import { Command } from '../../support/cli-command.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { uniqueName } from '../../support/unique-name.js';

let name: string;

beforeEach(() => {
  name = uniqueName('cli');
});

const at = (server: RedisServer, ...args: string[]): Command =>
  new Command(args, { HOLDFAST_REDIS_URL: server.url });

/** How a server goes away; and how it comes back, if it does not come back by itself. */
type Outage = (server: RedisServer, redis: Redis) => Promise<(() => Promise<unknown>) | undefined>;

const OUTAGES: Readonly<Record<string, Outage>> = {
  'is down': async (server) => {
    await server.kill();
    return () => server.start();
  },
  'is frozen': async (server) => {
    await server.pause();
    return () => server.resume();
  },
  'is full': async (_, redis) => {
    await redis.config('SET', 'maxmemory', '1');
    return () => redis.config('SET', 'maxmemory', '0');
  },
  'is a read-only replica': async (_, redis) => {
    await redis.call('REPLICAOF', '127.0.0.1', '1');
    return () => redis.call('REPLICAOF', 'NO', 'ONE');
  },
  'loads its data': async (_, redis) => {
    // 12 s: each key takes 10 ms.
    await redis.eval("for i = 1, 1200 do redis.call('SET', i, string.rep('x', 2048)) end", 0);
    redis.call('DEBUG', 'RELOAD').catch(() => undefined);
    return undefined;
  },
};

const ARGS = [
  ...['--enable-debug-command', 'yes', '--key-load-delay', '10000'],
  ...['--loading-process-events-interval-bytes', '1024', '--rdbcompression', 'no'],
];

it.each(Object.entries(OUTAGES))(
  'while Redis %s, run waits for as long as --wait says, and not at all with -n',
  async (_, begin) => {
    await using server = await startRedis({ args: ARGS });
    const redis = new Redis(server.url, { lazyConnect: true, retryStrategy: () => 50 });
    redis.on('error', () => undefined);
    await redis.connect();
    const end = await begin(server, redis);
    const longest = at(server, 'run', name, '-w', '2m', '--', 'echo', 'ran');
    const tookMs = async (...options: string[]): Promise<number> => {
      const beganAtMs = performance.now();
      const command = at(server, 'run', name, ...options, '--', 'echo', 'ran');
      expect(await command.end(), options.join(' ')).toMatchObject({ code: 69, out: '' });
      return performance.now() - beganAtMs;
    };
    // One command may take 5 s.
    const [waiting, atOnce] = await Promise.all([tookMs('-w', '5500ms'), tookMs('-n')]);
    expect(waiting).toBeGreaterThan(5_500);
    // The processes start together on a machine that may be busy, and clean up.
    expect(waiting).toBeLessThan(5_500 + 6_000);
    expect(atOnce).toBeLessThan(waiting);
    expect(longest.child.exitCode).toBeNull();
    await end?.();
    expect(await longest.end()).toMatchObject({ code: 0, out: 'ran\n' });
    redis.disconnect();
  },
  60_000,
);

it('run says that Redis is away while it waits', async () => {
  const waiting = new Command(['run', name, '--url', 'redis://127.0.0.1:1', '--', 'true']);
  await expect.poll(() => waiting.err).toContain('ECONNREFUSED');
  waiting.child.kill('SIGTERM');
  expect((await waiting.end()).code).toBe(143);
});

describe('run', () => {
  it('ends its command in time when Redis stays away, and exits 76', async () => {
    await using server = await startRedis();
    const stubborn =
      "process.on('SIGTERM', () => console.log('asked')); console.log('ready'); setInterval(() => undefined, 1000)";
    const options = ['--grace', '15s'];
    const running = at(server, 'run', name, ...options, '--', process.execPath, '-e', stubborn);
    await running.said('ready');
    await server.kill();
    const ended = await running.end();
    expect(ended).toMatchObject({ code: 76, out: 'ready\nasked\n' });
    expect(ended.err).toContain('the command gets SIGTERM');
  }, 90_000);
});
