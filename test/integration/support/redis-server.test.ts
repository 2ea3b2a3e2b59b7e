// The servers that tests start: they come back empty on their port, freeze, and end with the process.
import { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import { startChild } from '../../support/child.js';
import { eventually } from '../../support/time.js';
import { countCommands, recordCommands } from '../../support/recorded-commands.js';
import { startRedis } from '../../support/redis-server.js';

describe('a Redis server of a test', () => {
  it('comes back empty on the same port after a crash', async () => {
    await using server = await startRedis();
    await using redis = client(server.url);
    await redis.set('kept', 'no');
    await server.kill();
    await server.start();
    expect(await redis.get('kept')).toBeNull();
  });

  it('answers nothing while it is paused', async () => {
    await using server = await startRedis();
    await using redis = client(server.url);
    await redis.ping();
    await server.pause();
    let answered = false;
    const pong = redis.ping().then(() => (answered = true));
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(answered).toBe(false);
    await server.resume();
    await pong;
  });

  it('takes further arguments', async () => {
    await using server = await startRedis({ args: ['--requirepass', 'secret'] });
    await using redis = client(server.url);
    await expect(redis.ping()).rejects.toThrow('NOAUTH');
  });

  // Without Ryuk, containers outlive a crash.
  const outlivesCrash = process.env['TESTCONTAINERS_RYUK_DISABLED'] === 'true';
  it.skipIf(outlivesCrash)('ends when the process that started it crashes', async () => {
    await using child = startChild('redis-starter.ts');
    const { url } = await child.next('started');
    await child.kill('SIGKILL');
    await using redis = client(String(url));
    await eventually(() => expect(redis.ping()).rejects.toThrow(), 25_000);
  });
});

describe('recorded commands', () => {
  it('counts commands, including those inside scripts', async () => {
    await using server = await startRedis();
    await using redis = client(server.url);
    await redis.ping();
    const counts = await countCommands(server.url, async () => {
      await redis.set('a', '1');
      await redis.eval("return redis.call('get', KEYS[1])", 1, 'a');
    });
    expect(counts).toEqual({ set: 1, eval: 1, get: 1 });
  });

  it('lists commands in order and shows which ones a script ran', async () => {
    await using server = await startRedis();
    await using redis = client(server.url);
    await redis.ping();
    const commands = await recordCommands(server.url, async () => {
      await redis.eval("return redis.call('get', KEYS[1])", 1, 'a');
      await redis.set('a', '1');
    });
    expect(commands.map(({ name, byScript }) => [name, byScript])).toEqual([
      ['EVAL', false],
      ['GET', true],
      ['SET', false],
    ]);
    expect(commands[2]?.args).toEqual(['a', '1']);
  });
});

function client(url: string): Redis & AsyncDisposable {
  const redis = new Redis(url, { retryStrategy: () => 20, maxRetriesPerRequest: 3 });
  redis.on('error', () => undefined);
  return Object.assign(redis, {
    [Symbol.asyncDispose]: async () => {
      redis.disconnect();
      await Promise.resolve();
    },
  });
}
