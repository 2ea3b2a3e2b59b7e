// What broke in other lock libraries, part 3: wake-ups that got lost, and calls that hung with Redis down.
import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest';
import { UnavailableError } from '../../src/index.js';
import { newClient, nextEvent, rejectionOf } from '../support/clients.js';
import { commandOf, loadScripts } from '../support/lock-commands.js';
import { startRedis } from '../support/redis-server.js';
import { startProxy } from '../support/tcp-proxy.js';
import { uniqueName } from '../support/unique-name.js';

let redis: Redis;
let name: string;

beforeEach(async () => {
  redis = new Redis(inject('redisUrl'));
  await loadScripts(inject('redisUrl'));
  name = uniqueName();
});

afterEach(() => {
  redis.disconnect();
});

describe('an unlock before the subscription is up', () => {
  it('wakes the waiter in under 100 ms after it is up', async () => {
    const { hostname, port } = new URL(inject('redisUrl'));
    await using proxy = await startProxy(Number(port), hostname);
    await using holder = newClient({ lockWatchdogTimeout: 30_000 });
    await using waiter = newClient({ redis: proxy.url, lockWatchdogTimeout: 30_000 });
    const hold = await holder.getLock(name).acquire();

    const subscribe = proxy.copyNext(/^subscribe /i);
    const waiting = nextEvent(waiter, 'waiting');
    const acquiring = waiter.getLock(name).acquire();
    await waiting;
    proxy.delay({ upstreamMs: 300 });
    await subscribe.happened;
    proxy.delay(); // SUBSCRIBE itself is on its way for 300 ms
    await hold.release();
    expect(await subscriberCount()).toBe(0);

    while ((await subscriberCount()) === 0);
    const upAt = performance.now();
    await using next = await acquiring;
    expect(performance.now() - upAt).toBeLessThan(100);
    expect(next.remaining()).toBeGreaterThan(0);
  });

  it('wakes the waiter when SUBSCRIBE was lost with its connection', async () => {
    const { hostname, port } = new URL(inject('redisUrl'));
    await using proxy = await startProxy(Number(port), hostname);
    await using holder = newClient({ lockWatchdogTimeout: 30_000 });
    await using waiter = newClient({ redis: proxy.url, lockWatchdogTimeout: 30_000 });
    const hold = await holder.getLock(name).acquire();
    const lost = proxy.holdBack(/^subscribe /i, 'cut');
    const acquiring = waiter.getLock(name).acquire({ wait: 10_000 });
    await lost.happened;
    await hold.release();
    await using next = await acquiring;
    expect(next.remaining()).toBeGreaterThan(0);
  });

  async function subscriberCount(): Promise<number> {
    const [, count] = await redis.pubsub('NUMSUB', `redisson_lock__channel:{${name}}`);
    return Number(count);
  }
});

describe('a server that is killed under 50 waiters and comes back', () => {
  it('gives all of them their turn, one at a time', async () => {
    await using server = await startRedis();
    await using holder = newClient({ redis: server.url, lockWatchdogTimeout: 3_000 });
    await using first = newClient({ redis: server.url, lockWatchdogTimeout: 3_000 });
    await using second = newClient({ redis: server.url, lockWatchdogTimeout: 3_000 });
    const hold = await holder.getLock(name).acquire();
    const lost = nextEvent(holder, 'lost');

    let turns = 0;
    let inside = 0;
    let mostInside = 0;
    const waiters = Array.from({ length: 50 }, (_, i) =>
      (i % 2 === 0 ? first : second).getLock(name).withLock(async () => {
        mostInside = Math.max(mostInside, ++inside);
        await redis.ping();
        turns++;
        inside--;
      }),
    );
    await Promise.all([nextEvent(first, 'waiting'), nextEvent(second, 'waiting')]);
    await server.kill();
    await server.start();

    await Promise.all(waiters);
    expect(turns).toBe(50);
    expect(mostInside).toBe(1);
    await lost;
    expect(hold.signal.aborted).toBe(true);
  });
});

describe('with Redis gone, tryLock(500) settles within 500 ms plus 100, with the reason', () => {
  it('when the server is down', async () => {
    await using server = await startRedis();
    await using client = newClient({ redis: server.url, lockWatchdogTimeout: 30_000 });
    await client.getLock(name).isLocked(); // connected
    await server.kill();
    const { error, tookMs } = await timed(client.getLock(name).tryLock(500));
    expect(error).toBeInstanceOf(UnavailableError);
    expect(String(error)).toContain('ECONNREFUSED');
    expect(tookMs).toBeLessThan(600);
  });

  it('when the server is behind a black hole', async () => {
    const { hostname, port } = new URL(inject('redisUrl'));
    await using proxy = await startProxy(Number(port), hostname);
    await using client = newClient({ redis: proxy.url, lockWatchdogTimeout: 30_000 });
    await client.getLock(name).isLocked(); // connected
    proxy.blackhole();
    const { error, tookMs } = await timed(client.getLock(name).tryLock(500));
    expect(error).toBeInstanceOf(UnavailableError);
    expect(String(error)).toContain('did not answer within 500 ms');
    expect(tookMs).toBeLessThan(600);
    const removal = proxy.copyNext(commandOf('release', name));
    proxy.heal();
    await removal.happened; // the late acquire is undone
  });

  async function timed(promise: Promise<unknown>): Promise<{ error: unknown; tookMs: number }> {
    const startMs = performance.now();
    const error = await rejectionOf(promise);
    return { error, tookMs: performance.now() - startMs };
  }
});
