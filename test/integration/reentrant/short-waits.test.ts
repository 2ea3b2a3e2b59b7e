// A wait that is shorter than the round trip or than a blocked event loop: the caller still gets the answer of Redis.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  Holdfast,
  LockTimeoutError,
  UnavailableError,
  type AcquireOptions,
  type Lock,
} from '../../../src/index.js';
import { eventsOf, nextEvent, rejectionOf } from '../../support/clients.js';
import { expectWarnings } from '../../support/expected-warnings.js';
import { RedNodes } from '../../support/red-nodes.js';
import { startMasters } from '../../support/redis-topologies.js';
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

// Two siblings of one run that enter at the same time are the simplest way to have two.
expectWarnings(/ calls of one run overlap; |^a run ended while it still held lock /);

/** The delay that the network adds to each answer, in ms: a call may take two of them, and has 100 ms for its attempt. */
const DELAY_MS = 12;

/** The common part of a lock and a semaphore. */
interface Acquirable {
  tryAcquire(options?: AcquireOptions): Promise<AsyncDisposable | undefined>;
}

let servers: Awaited<ReturnType<typeof startMasters>>;
let nodes: RedNodes;
let proxies: TcpProxy[];
/** The clients of the callers; and those of the holders, without a proxy. */
let clients: Holdfast[];
let holders: Holdfast[];
let name: string;

beforeAll(async () => {
  servers = await startMasters(3);
  nodes = new RedNodes(servers);
  await nodes.loadScripts();
});

afterAll(async () => {
  await servers[Symbol.asyncDispose]();
});

beforeEach(async () => {
  name = uniqueName();
  proxies = await Promise.all(servers.map(({ port, host }) => startProxy(port, host)));
  clients = proxies.map(({ url }) => new Holdfast({ redis: url }));
  holders = nodes.urls.map((redis) => new Holdfast({ redis }));
  await connected([...clients, ...holders]);
});

afterEach(async () => {
  await Promise.all([...clients, ...holders].map((client) => client.close()));
  for (const proxy of proxies) await proxy[Symbol.asyncDispose]();
});

async function connected(all: readonly Holdfast[]): Promise<void> {
  await Promise.all(all.map((client) => client.getLock('connected').isLocked()));
}

function slow(): void {
  for (const proxy of proxies) proxy.delay({ downstreamMs: DELAY_MS });
}

/** On a busy machine an answer may take longer than the call's 100 ms: the call is repeated. */
async function told<T>(call: () => Promise<T>, blockedMs = 0): Promise<T> {
  for (let round = 1; ; round++) {
    const begunMs = performance.now();
    try {
      return await call();
    } catch (error) {
      const hadItsTime = performance.now() - begunMs >= 100 + blockedMs;
      if (!(error instanceof UnavailableError) || !hadItsTime || round === 10) throw error;
    }
  }
}

const redLock = { nodeTimeout: 1_000, restartGuard: false } as const;
const kinds: [string, (clients: readonly Holdfast[]) => Acquirable][] = [
  ['reentrant lock', ([one]) => one!.getLock(name)],
  ['fair lock', ([one]) => one!.getFairLock(name)],
  ['fenced lock', ([one]) => one!.getFencedLock(name)],
  ['fenced fair lock', ([one]) => one!.getFencedLock(name, { fair: true })],
  ['read lock', ([one]) => one!.getReadWriteLock(name).readLock()],
  ['write lock', ([one]) => one!.getReadWriteLock(name).writeLock()],
  ['semaphore', ([one]) => one!.getSemaphore(name, { permits: 1 })],
  [
    'MultiLock',
    ([one, two]) => one!.getMultiLock(one!.getLock(`${name}:1`), two!.getFairLock(`${name}:2`)),
  ],
  ['Redlock', (all) => all[0]!.getRedLock(...all.map((each) => each.getLock(name)), redLock)],
  [
    'fenced Redlock',
    (all) => {
      const members = all.map((each) => each.getFencedLock(name));
      return all[0]!.getRedLock(...members, { ...redLock, restartGuard: 1 });
    },
  ],
];

describe.each(kinds)('a wait that is shorter than the round trip, for a %s', (title, lockOf) => {
  it.each([0.5, 9])('acquires a free lock (%d ms)', async (wait) => {
    const lock = lockOf(clients);
    slow();
    const hold = await told(() => lock.tryAcquire({ wait }));
    expect(hold).toBeDefined();
    await hold![Symbol.asyncDispose]();
    const fixed = await told(() => lock.tryAcquire({ wait, lease: 20_000 }));
    expect(fixed).toBeDefined();
    await fixed![Symbol.asyncDispose]();
  });

  it.each([9])('reports that somebody else has the lock (%d ms)', async (wait) => {
    const mine = title === 'read lock' ? kinds[5]![1](holders) : lockOf(holders);
    await using hold = await mine.tryAcquire({ wait: 5_000 });
    expect(hold).toBeDefined();
    slow();
    expect(await told(() => lockOf(clients).tryAcquire({ wait }))).toBeUndefined();
  });

  it('reports that Redis does not answer', async () => {
    for (const proxy of proxies) proxy.blackhole();
    const error = await rejectionOf(lockOf(clients).tryAcquire({ wait: 5 }));
    const code = title.endsWith('Redlock') ? 'NO_QUORUM' : 'REDIS_UNAVAILABLE';
    expect(['REDIS_UNAVAILABLE', code]).toContain((error as UnavailableError).code);
    for (const proxy of proxies) proxy.heal();
  });
});

describe.each(kinds)(
  'an event loop that is blocked for longer than the wait for a %s',
  (_title, lockOf) => {
    it.each([
      ['at once', 'on an idle connection', 200],
      ['at once', 'on an idle connection', 101],
      ['at once', 'on a busy connection', 200],
      ['in a moment', 'on an idle connection', 200],
    ])('%s, %s (%d ms), does not prevent the acquisition', async (when, where, blockedMs) => {
      const lock = lockOf(holders); // not the proxy, which would be blocked as well
      const others =
        where === 'on a busy connection'
          ? holders.map((each) => each.getLock('connected').isLocked())
          : [];
      const hold = await told(async () => {
        const acquiring = lock.tryAcquire({ wait: 100 });
        if (when === 'in a moment') await Promise.resolve();
        block(blockedMs);
        return await acquiring;
      }, blockedMs);
      expect(hold).toBeDefined();
      await hold![Symbol.asyncDispose]();
      await Promise.all(others);
    });
  },
);

it('an event loop that is blocked while the client connects does not prevent the acquisition', async () => {
  await using client = new Holdfast({ redis: nodes.urls[0]! });
  const hold = await told(async () => {
    const acquiring = client.getLock(name).acquire({ wait: 100 });
    block(300);
    return await acquiring;
  }, 300);
  await hold.release();
});

describe('a wait that is shorter than the round trip', () => {
  it('of a re-entry acquires the lock, even behind a sibling that enters', async () => {
    const lock = clients[0]!.getLock(name);
    await clients[0]!.run(async () => {
      slow();
      const both = await told(() => Promise.all([lock.tryLock(5), lock.tryLock(5)]));
      expect(both).toEqual([true, true]);
      expect(await told(() => Promise.all([lock.tryLock(5), lock.tryLock(5)]))).toEqual([
        true,
        true,
      ]);
      for (let count = 0; count < 4; count++) await lock.unlock();
    });
  });

  it('reports the lock as held, although other callers of the client have not asked a second time', async () => {
    const lock: Lock = clients[0]!.getLock(name);
    await using hold = await holders[0]!.getLock(name).acquire();
    const aborter = new AbortController();
    const waiting = nextEvent(clients[0]!, 'waiting');
    const patient = rejectionOf(lock.lock({ signal: aborter.signal }));
    await waiting;
    await sleep(1_100);
    slow();
    expect(await told(() => lock.tryLock(5))).toBe(false);
    aborter.abort();
    await patient;
    expect(hold.remaining()).toBeGreaterThan(0);
  });

  it('makes no subscription and emits no waiting event', async () => {
    const [lock] = clients.map((client) => client.getLock(name));
    await using hold = await holders[0]!.getLock(name).acquire();
    slow();
    const waiting = eventsOf(clients[0]!, 'waiting');
    let isTold = false;
    // On a busy machine the process may read the answer before it notices the end of the wait; then the caller waits in line.
    for (let round = 0; !isTold && round < 10; round++) {
      waiting.length = 0;
      const { connections } = proxies[0]!;
      const error = await rejectionOf(told(() => lock!.acquire({ wait: 5 })));
      expect(error).toBeInstanceOf(LockTimeoutError);
      expect(error).toMatchObject({ holder: hold.ownerId });
      isTold = waiting.length === 0 && proxies[0]!.connections === connections;
    }
    expect(isTold).toBe(true);
  });
});

function block(ms: number): void {
  const endsAtMs = performance.now() + ms;
  while (performance.now() < endsAtMs);
}
