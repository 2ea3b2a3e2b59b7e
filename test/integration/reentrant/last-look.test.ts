// The end of a wait: false and LockTimeoutError rest on an answer that is at most a second old, or on this client's own grant.
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
/** A lease so long that no renewal and no silence matters during a test. */
const LONG_MS = 60_000;

/** A holder of a lock, and a waiter that reaches the server over a network of its own. */
interface Scene {
  readonly client: Holdfast;
  readonly lock: Lock;
  readonly holders: Lock;
  readonly proxies: readonly TcpProxy[];
}

interface Kind {
  readonly title: string;
  /** The error code when the server does not answer. */
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

describe.each(kinds)('a wait for a $title', ({ unanswered, scene }) => {
  it('does not report it as held when its server fell silent long before: that is not known', async () => {
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

  it('acquires it at last when it was released long before, unheard', async () => {
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

  it('by callers of the client that holds it reports it as held, even if its server is silent', async () => {
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

const overtaken = kinds.filter(({ title }) => title !== 'fair lock'); // which goes to the waiter

it.each(overtaken)('the timeout of a $title names the holder of that moment', async ({ scene }) => {
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
});

it('an event loop that was blocked beyond the end of the wait still queries the lock', async () => {
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

it('one of the waiters acquires a released lock, and the others learn that this client has it', async () => {
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
  'of 1,000 callers that wait for a %s() until the same moment, one sends the query for all',
  async (method) => {
    // Without a proxy, which would be as slow as this process, busy with 1,000 ends at a time.
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
    expect(lookCount(writes)).toBeLessThan(50); // they did not all begin in the same millisecond
  },
);

/** How many attempts to acquire the lock were sent; through the proxy each counts once more. */
function lookCount(writes: readonly string[]): number {
  const { acquire, join } = scripts;
  return writes.join('').match(new RegExp(`${acquire.sha1}|${join.sha1}`, 'g'))?.length ?? 0;
}

/** The error of the call, which must come at most 100 ms after the end of its wait. */
async function endOf(call: Promise<unknown>): Promise<unknown> {
  using lag = new EventLoopLag();
  const timer = sleep(WAIT_MS).then(() => performance.now());
  const error = await rejectionOf(call);
  const settledAtMs = performance.now();
  expect(settledAtMs - (await timer)).toBeLessThan(150 + lag.longestMs);
  return error;
}
