// Subscriptions that are deaf without anybody being told: locks go on from hand to hand, later, and soon as before.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Holdfast, HoldfastOptions, Lock } from '../../../src/index.js';
import { connectedClient, eventsOf, nextEvent } from '../../support/clients.js';
import { EventLoopLag, eventually } from '../../support/time.js';
import { redNodes } from '../../support/red-nodes.js';
import { startMasters } from '../../support/redis-topologies.js';
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

/** How often those who wait look for themselves, and for how long a connection may be silent. */
const THIRD_MS = 2_000;
const OPTIONS = { lockWatchdogTimeout: 3 * THIRD_MS };

const nodes = redNodes(() => startMasters(3));
let proxies: TcpProxy[];

beforeEach(async () => {
  proxies = await Promise.all(nodes.servers.map(({ port }) => startProxy(port)));
});

afterEach(async () => {
  await Promise.all(proxies.map((proxy) => proxy[Symbol.asyncDispose]()));
});

/** A lock that one client holds and another, which is behind proxies, waits for. */
interface Pair extends AsyncDisposable {
  readonly held: Lock;
  readonly awaited: Lock;
  readonly waiter: Holdfast;
}

async function pair(kind: 'getLock' | 'getFairLock' | 'getRedLock'): Promise<Pair> {
  const name = uniqueName();
  if (kind === 'getRedLock') {
    const holder = await nodes.client(OPTIONS);
    const waiter = await nodes.client(OPTIONS, urls());
    return {
      held: holder.lock(name),
      awaited: waiter.lock(name),
      waiter: waiter.holdfast,
      async [Symbol.asyncDispose]() {
        await Promise.all([holder[Symbol.asyncDispose](), waiter[Symbol.asyncDispose]()]);
      },
    };
  }
  const holder = await connectedClient({ redis: nodes.urls[0]!, ...OPTIONS });
  const waiter = await connectedClient({ redis: urls()[0]!, ...OPTIONS });
  return {
    held: holder[kind](name),
    awaited: waiter[kind](name),
    waiter,
    async [Symbol.asyncDispose]() {
      await Promise.all([holder.close(), waiter.close()]);
    },
  };
}

function urls(): string[] {
  return proxies.map(({ url }) => url);
}

/** How long the lock takes from a release to somebody who was waiting for it, in milliseconds, beyond what the machine took. */
async function handOverMs(
  { held, awaited, waiter }: Pair,
  beforeRelease: () => void = () => undefined,
): Promise<number> {
  const hold = await held.acquire();
  const waiting = nextEvent(waiter, 'waiting');
  const next = awaited.acquire();
  await waiting;
  await sleep(200); // it has subscribed, and looked again
  beforeRelease();
  using lag = new EventLoopLag();
  const startedAtMs = performance.now();
  await hold.release();
  const acquired = await next;
  const tookMs = performance.now() - startedAtMs - lag.longestMs;
  await acquired.release();
  return tookMs;
}

describe.each(['getLock', 'getFairLock', 'getRedLock'] as const)('%s', (kind) => {
  it('goes on within a third of the watchdog’s time when subscriptions died in silence, and is as fast as before when that was found out', async () => {
    await using locks = await pair(kind);
    const errors = eventsOf(locks.waiter, 'error');
    expect(await handOverMs(locks)).toBeLessThan(THIRD_MS / 2);

    const deafMs = await handOverMs(locks, () => {
      for (const proxy of proxies) proxy.swallowSubscriptions();
    });
    expect(deafMs).toBeLessThan(THIRD_MS + 500);

    await eventually(async () => {
      expect(await handOverMs(locks)).toBeLessThan(THIRD_MS / 4);
    }, 5 * THIRD_MS);
    expect(errors.map(({ error }) => error.message)).toEqual([
      expect.stringMatching(
        /^the subscriber connection to Redis \(.+:\d+\) failed: no answer within 2000 ms$/,
      ),
    ]);
  }, 60_000);
});

describe('a server that takes longer to confirm a subscription than connections may be silent', () => {
  /** A connection that is silent for so long is dropped. */
  const SILENCE_MS = 500;
  const CONFIRM_MS = 1_500;

  it('is given more time each time, until it stands; meanwhile whoever waits looks for itself', async () => {
    const [proxy] = proxies as [TcpProxy];
    proxy.delaySubscriptions(CONFIRM_MS);
    const options: Partial<HoldfastOptions> = { ...OPTIONS, commandTimeout: SILENCE_MS };
    await using holder = await connectedClient({ redis: nodes.urls[0]!, ...OPTIONS });
    await using waiter = await connectedClient({ redis: proxy.url, ...options });
    const errors = eventsOf(waiter, 'error');
    const name = uniqueName();

    let hold = await holder.getLock(name).acquire();
    let next = waiter.getLock(name).acquire();
    const connections = proxy.connections;
    await eventually(() => {
      expect(proxy.connections).toBeGreaterThan(connections + 1); // one, and it was dropped
    });
    using lag = new EventLoopLag();
    const startedAtMs = performance.now();
    await hold.release();
    await (await next).release();
    expect(performance.now() - startedAtMs).toBeLessThan(THIRD_MS + 500 + lag.longestMs);

    hold = await holder.getLock(name).acquire();
    next = waiter.getLock(name).acquire();
    await eventually(async () => {
      const count = await subscribedFor(2 * SILENCE_MS, name);
      expect(count).toBe(1);
    });
    const standing = proxy.connections;
    await sleep(2 * CONFIRM_MS); // it is asked whether it lives, and is as late with that
    expect(proxy.connections).toBe(standing);
    await hold.release();
    await (await next).release();
    const told = errors.map(({ error }) => error.message);
    expect(told[0]).toMatch(
      /^the subscriber connection to Redis \(.+:\d+\) failed: no answer within 500 ms$/,
    );
    expect(told.length).toBeLessThanOrEqual(3);
  }, 60_000);

  /** How many listen to the unlock channel, all this time. */
  async function subscribedFor(ms: number, name: string): Promise<number> {
    const endsAtMs = performance.now() + ms;
    let least = Infinity;
    while (performance.now() < endsAtMs) {
      const [counts] = await nodes.ask((redis) =>
        redis.pubsub('NUMSUB', `redisson_lock__channel:{${name}}`),
      );
      least = Math.min(least, Number(counts![1]));
      await sleep(50);
    }
    return least;
  }
});
