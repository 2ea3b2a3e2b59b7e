// The proxy that simulates a bad network: each fault does what its name says.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest';
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

let proxy: TcpProxy;
let direct: Redis;
let redis: Redis;
let key: string;

beforeEach(async () => {
  const { hostname, port } = new URL(inject('redisUrl'));
  proxy = await startProxy(Number(port), hostname);
  direct = new Redis(inject('redisUrl'));
  redis = new Redis(proxy.url, {
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    retryStrategy: () => 20,
  });
  redis.on('error', () => undefined);
  await redis.ping();
  key = uniqueName('proxied');
});

afterEach(async () => {
  redis.disconnect();
  await direct.del(key);
  direct.disconnect();
  await proxy[Symbol.asyncDispose]();
});

describe('connections', () => {
  it('pass and are counted', async () => {
    await redis.set(key, 'x'.repeat(100_000));
    expect(await redis.get(key)).toHaveLength(100_000);
    expect(proxy.connections).toBe(1);
    expect(proxy.bytesUpstream).toBeGreaterThan(100_000);
  });

  it('pass pipelined commands and their replies in order', async () => {
    const replies = await Promise.all(Array.from({ length: 500 }, () => redis.incr(key)));
    expect(replies).toEqual(Array.from({ length: 500 }, (_, i) => i + 1));
  });

  it('are cut, and made again', async () => {
    proxy.cut();
    await expect(redis.ping()).rejects.toThrow();
    await reconnected();
    expect(proxy.connections).toBe(2);
  });

  it('are refused until they are accepted again', async () => {
    proxy.refuse();
    await redis.ping();
    proxy.cut();
    await sleep(100);
    expect(proxy.openConnections).toBe(0);
    await proxy.accept();
    await reconnected();
  });

  it('are half-open: the client hears nothing and notices nothing', async () => {
    proxy.halfOpen();
    expect(await settlesWithin(redis.ping(), 200)).toBe(false);
    expect(redis.status).toBe('ready');
  });
});

describe('a black hole', () => {
  it('answers nothing, and forwards what it swallowed when it heals', async () => {
    proxy.blackhole();
    const set = redis.set(key, 'late');
    expect(await settlesWithin(set, 100)).toBe(false);
    expect(await direct.get(key)).toBeNull();
    proxy.heal('forward');
    expect(await set).toBe('OK');
  });

  it('loses what it swallowed when told so', async () => {
    proxy.blackhole();
    const set = redis.set(key, 'lost');
    await sleep(20);
    proxy.heal('drop');
    expect(await settlesWithin(set, 100)).toBe(false);
    expect(await direct.get(key)).toBeNull();
  });

  it('delivers commands of a client that has gone meanwhile', async () => {
    proxy.blackhole();
    redis.set(key, 'late').catch(() => undefined);
    await sleep(20);
    redis.disconnect();
    await sleep(20);
    proxy.heal('forward');
    await expect.poll(() => direct.get(key)).toBe('late');
  });

  it('accepts new connections and leaves them unanswered', async () => {
    proxy.blackhole();
    const late = new Redis(proxy.url, { retryStrategy: () => null });
    expect(await settlesWithin(late.ping(), 100)).toBe(false);
    late.disconnect();
  });
});

describe('a black hole in one direction', () => {
  it('loses replies only', async () => {
    proxy.blackhole('downstream');
    expect(await settlesWithin(redis.set(key, 'done'), 100)).toBe(false);
    expect(await direct.get(key)).toBe('done');
    proxy.heal('forward');
    expect(await redis.get(key)).toBe('done');
  });

  it('loses commands only', async () => {
    proxy.blackhole('upstream');
    const set = redis.set(key, 'done');
    expect(await settlesWithin(set, 100)).toBe(false);
    expect(await direct.get(key)).toBeNull();
    proxy.heal('forward');
    expect(await set).toBe('OK');
  });
});

it('a black hole for subscribers leaves other connections alone', async () => {
  const heard: string[] = [];
  const subscriber = new Redis(proxy.url);
  subscriber.on('message', (_, message) => heard.push(message));
  await subscriber.subscribe(key);
  proxy.blackhole('both', 'subscribers');
  expect(await redis.publish(key, 'late')).toBe(1);
  await sleep(100);
  expect(heard).toEqual([]);
  proxy.heal('forward');
  await expect.poll(() => heard).toEqual(['late']);
  subscriber.disconnect();
});

describe('a rule', () => {
  it('for commands treats each of them', async () => {
    const seen: string[] = [];
    proxy.treatCommands(([name]) => {
      seen.push(String(name));
      return undefined;
    });
    await redis.get(key);
    await redis.get(key);
    proxy.treatCommands();
    await redis.get(key);
    expect(seen).toEqual(['get', 'get']);
  });

  it('for messages loses, doubles and delays them', async () => {
    const heard: string[] = [];
    const copies = [[], [0, 500], [0]];
    const subscriber = new Redis(proxy.url);
    subscriber.on('message', (_, message) => heard.push(message));
    await subscriber.subscribe(key);
    proxy.treatMessages(() => copies.shift()!);
    for (const message of ['lost', 'doubled', 'once']) await direct.publish(key, message);
    await expect.poll(() => heard).toEqual(['doubled', 'once', 'doubled']);
    subscriber.disconnect();
  });

  it('for messages passes none on after the answer to UNSUBSCRIBE', async () => {
    const heard: string[] = [];
    const subscriber = new Redis(proxy.url);
    subscriber.on('message', (_, message) => heard.push(message));
    await subscriber.subscribe(key, `${key}:other`);
    const seen: Buffer[] = [];
    proxy.treatMessages((message) => {
      seen.push(message);
      return [300];
    });
    await direct.publish(key, 'late');
    await expect.poll(() => seen.length).toBe(1);
    await subscriber.unsubscribe(key);
    proxy.treatMessages();
    await sleep(400);
    expect(heard).toEqual([]);
    subscriber.disconnect();
  });

  it.each([2, 3] as const)(
    'for messages spares the answers to SUBSCRIBE under RESP%i',
    async (RESP) => {
      const heard: string[] = [];
      const subscriber = createClient({ url: proxy.url, RESP });
      await subscriber.on('error', () => undefined).connect();
      proxy.treatMessages((message) => (message.includes('passed on') ? [0] : []));
      await subscriber.subscribe(key, (message) => heard.push(message));
      for (const message of ['lost', 'passed on']) await direct.publish(key, message);
      await expect.poll(() => heard).toEqual(['passed on']);
      subscriber.destroy();
    },
  );
});

it('a delay applies in each direction, and keeps the order', async () => {
  proxy.delay({ upstreamMs: 50, downstreamMs: 50 });
  const start = performance.now();
  expect(await Promise.all([redis.incr(key), redis.incr(key), redis.incr(key)])).toEqual([1, 2, 3]);
  expect(performance.now() - start).toBeGreaterThanOrEqual(99);
  proxy.delay();
});

describe('a single command', () => {
  it('is executed and its reply lost', async () => {
    const { happened } = proxy.loseReplyTo(`set ${key}`);
    const replies = [redis.get(key), redis.set(key, '1'), redis.get(key)];
    const [before, set, after] = await Promise.allSettled(replies);
    await happened;
    expect(before).toEqual({ status: 'fulfilled', value: null });
    expect([set?.status, after?.status]).toEqual(['rejected', 'rejected']);
    expect(await direct.get(key)).toBe('1');
  });

  it('is forwarded and the connection cut', async () => {
    proxy.cutAfterForwarding(/^set /);
    await expect(redis.set(key, '1')).rejects.toThrow();
    await expect.poll(() => direct.get(key)).toBe('1');
  });

  it('is held back and delivered later', async () => {
    const held = proxy.holdBack(`set ${key}`);
    await expect(redis.set(key, 'old')).rejects.toThrow();
    await held.happened;
    expect(await direct.get(key)).toBeNull();
    expect(await held.deliver()).toBe('OK');
    expect(await direct.get(key)).toBe('old');
  });

  it('is held back in silence', async () => {
    const held = proxy.holdBack(`set ${key}`, 'silence');
    expect(await settlesWithin(redis.set(key, 'old'), 100)).toBe(false);
    await held.happened;
    expect(redis.status).toBe('ready');
  });

  it('passes and is delivered a second time later', async () => {
    const copy = proxy.copyNext(`incr ${key}`);
    expect(await redis.incr(key)).toBe(1);
    expect(await redis.incr(key)).toBe(2);
    expect(await copy.deliver()).toBe(3);
  });
});

it('replies can be rewritten', async () => {
  await direct.set(key, 'redis_version:7.0.15');
  proxy.rewrite('redis_version:7', 'redis_version:6');
  expect(await redis.get(key)).toBe('redis_version:6.0.15');
});

async function reconnected(): Promise<void> {
  await expect.poll(() => redis.ping().catch(() => 'down'), { timeout: 5_000 }).toBe('PONG');
}

async function settlesWithin(promise: Promise<unknown>, timeoutMs: number): Promise<boolean> {
  const settled = promise.then(
    () => true,
    () => true,
  );
  return Promise.race([settled, sleep(timeoutMs, false)]);
}
