// The end of a wait: false and LockTimeoutError rest on an answer that is a second old at most, or on this client's own grant.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import type { Holdfast, Lock } from '../../../src/index.js';
import { scripts } from '../../../src/redis/scripts.generated.js';
import { connectedClient, newClient, nextEvent, rejectionOf } from '../../support/clients.js';
import { EventLoopLag, eventually } from '../../support/time.js';
import { expectWarnings } from '../../support/expected-warnings.js';
import { loadScripts } from '../../support/lock-commands.js';
import { RedNodes } from '../../support/red-nodes.js';
import { startMasters } from '../../support/redis-topologies.js';
import { socketWrites } from '../../support/recorded-commands.js';
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

// Callers wait for their own client, which holds the lock outside any run.
expectWarnings(/^lock ".*" has been waited for /);

const WAIT_MS = 2_500;
/** A lease so long that nothing is renewed, and no silence noticed, while a test runs. */
const LONG_MS = 60_000;

/** Somebody who holds a lock, and somebody who waits for it over a network of their own. */
interface Scene {
  readonly client: Holdfast;
  readonly lock: Lock;
  readonly holders: Lock;
  readonly proxies: readonly TcpProxy[];
}

interface Kind {
  readonly title: string;
  /** What it is when nobody answers. */
  readonly unanswered: string;
  readonly scene: () => Promise<Scene>;
}

let nodes: RedNodes;
let servers: Awaited<ReturnType<typeof startMasters>>;
const ends: (() => Promise<unknown>)[] = [];
let name: string;

beforeAll(async () => {
  servers = await startMasters(3);
  nodes = new RedNodes(servers);
  await nodes.loadScripts();
  await loadScripts(inject('redisUrl'));
});

afterAll(async () => {
  await servers[Symbol.asyncDispose]();
});

beforeEach(() => {
  name = uniqueName();
});

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function proxyOf(url: string): Promise<TcpProxy> {
  const { hostname, port } = new URL(url);
  const proxy = await startProxy(Number(port), hostname);
  ends.push(() => proxy[Symbol.asyncDispose]());
  return proxy;
}

async function singleScene(lockOf: (client: Holdfast) => Lock): Promise<Scene> {
  const proxy = await proxyOf(inject('redisUrl'));
  const client = await connectedClient({ redis: proxy.url, lockWatchdogTimeout: LONG_MS });
  const holder = newClient({ lockWatchdogTimeout: LONG_MS });
  ends.push(() => Promise.all([client.close(), holder.close()]));
  return { client, lock: lockOf(client), holders: lockOf(holder), proxies: [proxy] };
}

const kinds: Kind[] = [
  {
    title: 'reentrant lock',
    unanswered: 'REDIS_UNAVAILABLE',
    scene: () => singleScene((client) => client.getLock(name)),
  },
  {
    title: 'fair lock',
    unanswered: 'REDIS_UNAVAILABLE',
    scene: () => singleScene((client) => client.getFairLock(name)),
  },
  {
    title: 'MultiLock',
    unanswered: 'REDIS_UNAVAILABLE',
    scene: () =>
      singleScene((client) =>
        client.getMultiLock(client.getLock(`${name}:a`), client.getFairLock(`${name}:b`)),
      ),
  },
  {
    title: 'Redlock',
    unanswered: 'NO_QUORUM',
    scene: async () => {
      const proxies = await Promise.all(nodes.urls.map(proxyOf));
      const options = { lockWatchdogTimeout: LONG_MS };
      const urls = proxies.map(({ url }) => url);
      const [client, holder] = await Promise.all([
        nodes.client(options, urls),
        nodes.client(options),
      ]);
      ends.push(() => Promise.all([client[Symbol.asyncDispose](), holder[Symbol.asyncDispose]()]));
      const settings = { nodeTimeout: 200 };
      return {
        client: client.holdfast,
        lock: client.lock(name, settings),
        holders: holder.lock(name, settings),
        proxies,
      };
    },
  },
];

describe.each(kinds)('a $title that is waited for', ({ unanswered, scene }) => {
  it('whose server fell silent long before the end is not said to be held: that is not known', async () => {
    const { client, lock, holders, proxies } = await scene();
    await using hold = await holders.acquire();
    const waiting = nextEvent(client, 'waiting');
    const calls = [1, 2, 3].map(() => endOf(lock.acquire({ wait: WAIT_MS })));
    await waiting;
    await sleep(300); // all wait in line
    for (const proxy of proxies) proxy.blackhole();
    for (const call of calls) expect(await call).toMatchObject({ code: unanswered });
    expect(hold.remaining()).toBeGreaterThan(0);
    for (const proxy of proxies) proxy.heal();
  });

  it('that was released long before, unheard, is had at last', async () => {
    const { client, lock, holders, proxies } = await scene();
    const hold = await holders.acquire();
    const held = proxies.map((proxy) => proxy.holdBack(/^s?subscribe /i, 'silence'));
    const waiting = nextEvent(client, 'waiting');
    const call = lock.tryAcquire({ wait: WAIT_MS });
    await waiting;
    await Promise.all(held.map(({ happened }) => happened));
    await sleep(200);
    await hold.release();
    const got = await call;
    expect(got?.remaining()).toBeGreaterThan(0);
    await got?.release();
  });

  it('by callers of the client that holds it is held, also if its server is silent', async () => {
    const { lock, proxies } = await scene();
    const hold = await lock.acquire();
    const calls = [1, 2, 3].map(() => lock.tryLock(WAIT_MS));
    await sleep(300);
    for (const proxy of proxies) proxy.blackhole();
    expect(await Promise.all(calls)).toEqual([false, false, false]);
    expect(hold.remaining()).toBeGreaterThan(0);
    for (const proxy of proxies) proxy.heal();
    await hold.release();
  });
});

const overtaken = kinds.filter(({ title }) => title !== 'fair lock'); // that goes to whoever waits

it.each(overtaken)(
  'a $title that somebody else has by then is held by that one',
  async ({ scene }) => {
    const { client, lock, holders, proxies } = await scene();
    const first = await holders.acquire();
    const held = proxies.map((proxy) => proxy.holdBack(/^s?subscribe /i, 'silence'));
    const waiting = nextEvent(client, 'waiting');
    const call = endOf(lock.acquire({ wait: WAIT_MS }));
    await waiting;
    await Promise.all(held.map(({ happened }) => happened));
    await first.release();
    await using second = await holders.acquire();
    expect(await call).toMatchObject({ code: 'LOCK_TIMEOUT', holder: second.ownerId });
  },
);

it('an event loop that was blocked beyond the end still asks', async () => {
  const { client, lock, holders } = await kinds[0]!.scene();
  await using hold = await holders.acquire();
  for (const blockedFromMs of [300, WAIT_MS - 400]) {
    const waiting = nextEvent(client, 'waiting');
    const call = endOf(lock.acquire({ wait: WAIT_MS }));
    await waiting;
    await sleep(blockedFromMs);
    const writes = await socketWrites(async () => {
      const untilMs = performance.now() + WAIT_MS;
      while (performance.now() < untilMs); // blocked
      expect(await call).toMatchObject({ code: 'LOCK_TIMEOUT', holder: hold.ownerId });
    });
    expect(lookCount(writes)).toBeGreaterThan(0);
  }
});

it('a released lock is had by one of those who wait, and the others are told that this client has it', async () => {
  const { client, lock, holders, proxies } = await kinds[0]!.scene();
  const hold = await holders.acquire();
  const held = proxies[0]!.holdBack(/^subscribe /i, 'silence');
  const waiting = nextEvent(client, 'waiting');
  const calls = Array.from({ length: 20 }, () => lock.tryAcquire({ wait: WAIT_MS }));
  await waiting;
  await held.happened;
  await hold.release();
  const got = (await Promise.all(calls)).filter((each) => each !== undefined);
  expect(got).toHaveLength(1);
  await got[0]!.release();
  await eventually(async () => {
    expect(await holders.isLocked()).toBe(false);
  });
});

it.each(['getLock', 'getFairLock'] as const)(
  'of 1,000 callers that wait for a %s() until the same moment one asks for all',
  async (method) => {
    // No proxy: it would be as slow as this process, which 1,000 ends at a time keep busy.
    await using client = await connectedClient({ lockWatchdogTimeout: LONG_MS });
    await using holder = newClient({ lockWatchdogTimeout: LONG_MS });
    await using hold = await holder[method](name).acquire();
    const lock = client[method](name);
    const calls = Array.from({ length: 1_000 }, () => rejectionOf(lock.acquire({ wait: 5_000 })));
    await sleep(2_500); // all wait in line
    const writes = await socketWrites(async () => {
      for (const call of calls)
        expect(await call).toMatchObject({ code: 'LOCK_TIMEOUT', holder: hold.ownerId });
    });
    expect(lookCount(writes)).toBeGreaterThan(0);
    expect(lookCount(writes)).toBeLessThan(50); // they did not all begin in one millisecond
  },
);

/** How often somebody tried to acquire it; on its way through the proxy each counts once more. */
function lookCount(writes: readonly string[]): number {
  const { acquire, join } = scripts;
  return writes.join('').match(new RegExp(`${acquire.sha1}|${join.sha1}`, 'g'))?.length ?? 0;
}

/** Its error; it must come at most 100 ms after the wait's end. */
async function endOf(call: Promise<unknown>): Promise<unknown> {
  using lag = new EventLoopLag();
  const timer = sleep(WAIT_MS).then(() => performance.now());
  const error = await rejectionOf(call);
  const settledAtMs = performance.now();
  expect(settledAtMs - (await timer)).toBeLessThan(150 + lag.longestMs);
  return error;
}
