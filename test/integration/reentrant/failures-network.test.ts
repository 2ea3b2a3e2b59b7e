// Failures of other lock libraries, part 3: lost wake-ups, and calls that hang while Redis is down.
import { beforeEach, describe, expect, it } from 'vitest';
import { UnavailableError } from '../../../src/index.js';
import {
  connectedClient,
  newClient,
  nextEvent,
  rejectionOf,
  sharedConnection,
  startSharedProxy,
} from '../../support/clients.js';
import { EventLoopLag, inTime } from '../../support/time.js';
import { commandOf } from '../../support/lock-commands.js';
import { Occupancy } from '../../support/occupancy.js';
import { startRedis } from '../../support/redis-server.js';
import { uniqueName } from '../../support/unique-name.js';

const redis = sharedConnection();
let name: string;

beforeEach(() => {
  name = uniqueName();
});

describe('an unlock before the subscription is up', () => {
  it('wakes the waiter as soon as the subscription is up', async () => {
    await using proxy = await startSharedProxy();
    await using holder = newClient({ lockWatchdogTimeout: 30_000 });
    await using waiter = newClient({ redis: proxy.url, lockWatchdogTimeout: 30_000 });
    const hold = await holder.getLock(name).acquire();

    const subscribe = proxy.copyNext(/^subscribe /i);
    const waiting = nextEvent(waiter, 'waiting');
    const acquiring = waiter.getLock(name).acquire();
    await waiting;
    proxy.delay({ upstreamMs: 1_000 });
    await subscribe.happened;
    proxy.delay(); // SUBSCRIBE itself takes a second
    await hold.release();
    expect(await subscriberCount()).toBe(0);

    while ((await subscriberCount()) === 0);
    // Otherwise it polls after 10 s.
    await using next = await inTime(acquiring, 1_000, 'the subscription did not wake it');
    expect(next.remaining()).toBeGreaterThan(0);
  });

  it('wakes the waiter when SUBSCRIBE was lost with its connection', async () => {
    await using proxy = await startSharedProxy();
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

    const occupancy = new Occupancy();
    const waiters = Array.from({ length: 50 }, (_, i) =>
      (i % 2 === 0 ? first : second)
        .getLock(name)
        .withLock(() => occupancy.inside(String(i), () => redis.ping())),
    );
    await Promise.all([nextEvent(first, 'waiting'), nextEvent(second, 'waiting')]);
    await server.kill();
    await server.start();

    await Promise.all(waiters);
    expect(occupancy.order).toHaveLength(50);
    expect(occupancy.most).toBe(1);
    await lost;
    expect(hold.signal.aborted).toBe(true);
  });
});

describe('without Redis, tryLock(500) settles within 500 ms plus 100, with the reason', () => {
  it('when the server is down', async () => {
    await using server = await startRedis();
    await using client = await connectedClient({ redis: server.url, lockWatchdogTimeout: 30_000 });
    await server.kill();
    const { error, tookMs } = await timed(client.getLock(name).tryLock(500));
    expect(error).toBeInstanceOf(UnavailableError);
    expect(String(error)).toContain('ECONNREFUSED');
    expect(tookMs).toBeLessThan(600);
  });

  it('when the server is behind a black hole', async () => {
    await using proxy = await startSharedProxy();
    await using client = await connectedClient({ redis: proxy.url, lockWatchdogTimeout: 30_000 });
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
    using lag = new EventLoopLag();
    const startMs = performance.now();
    const error = await rejectionOf(promise);
    return { error, tookMs: performance.now() - startMs - lag.longestMs };
  }
});
