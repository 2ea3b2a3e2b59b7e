// Subscriptions that die in silence: locks still change hands, first later, and soon as fast as before.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Holdfast, Lock } from '../../../src/index.js';
import { connectedClient, eventsOf, nextEvent } from '../../support/clients.js';
import { EventLoopLag, eventually } from '../../support/time.js';
import { redNodes } from '../../support/red-nodes.js';
import { startMasters } from '../../support/redis-topologies.js';
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

/** How often waiters poll, and how long a connection may be silent. */
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

/** A lock that one client holds and another, behind proxies, waits for. */
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

/** The time from a release to the waiter's acquisition, in ms, minus the delays of the machine. */
async function handOverMs(
  { held, awaited, waiter }: Pair,
  beforeRelease: () => void = () => undefined,
): Promise<number> {
  const hold = await held.acquire();
  const waiting = nextEvent(waiter, 'waiting');
  const next = awaited.acquire();
  await waiting;
  await sleep(200); // it has subscribed, and polled once more
  beforeRelease();
  using lag = new EventLoopLag();
  const startedAtMs = performance.now();
  await hold.release();
  const acquired = await next;
  const tookMs = performance.now() - startedAtMs - lag.longestMs;
  await acquired.release();
  return tookMs;
}

it.each(['getLock', 'getFairLock', 'getRedLock'] as const)(
  "%s changes hands within a third of the watchdog's timeout after its subscriptions died in silence, and as fast as before once that is found",
  async (kind) => {
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
  },
  60_000,
);
