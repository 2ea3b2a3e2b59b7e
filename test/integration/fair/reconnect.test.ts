// The line of a fair lock survives lost connections, and the loss of all that the server knew of it.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Holdfast, type Hold } from '../../../src/index.js';
import { eventsOf, nextEvent } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { FairLine, type Caller } from '../../support/fair-line.js';
import { loadScripts } from '../../support/lock-commands.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.js';

const CLIENTS = 4;
const WAITERS_EACH = 8;
/** No lease ends while a busy machine reconnects all clients, which takes seconds. */
const LEASE_MS = 20_000;
/** For leases that are to end. */
const SHORT_LEASE_MS = 3_000;

let server: RedisServer;
let proxy: TcpProxy;
let redis: Redis;
let holder: Holdfast;
/** The first client goes through the proxy. */
let clients: Holdfast[];
let hold: Hold;
let line: FairLine;

beforeEach(async () => {
  server = await startRedis();
  await loadScripts(server.url);
  proxy = await startProxy(server.port);
  redis = new Redis(server.url).on('error', () => undefined);
  line = new FairLine(redis);
});

afterEach(async () => {
  try {
    await line.isGone();
  } finally {
    await Promise.all([holder, ...clients].map((client) => client.close()));
    redis.disconnect();
    await proxy[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  }
});

/** Makes all clients, and has the holder lock. `firstMs`: another lease, for the client that goes through the proxy. */
async function start({ leaseMs = LEASE_MS, firstMs = 0 } = {}): Promise<void> {
  holder = newClient(server.url, leaseMs);
  const others = Array.from({ length: CLIENTS - 1 }, () => newClient(server.url, leaseMs));
  clients = [newClient(proxy.url, firstMs || leaseMs), ...others];
  hold = await line.lockOf(holder).acquire();
}

describe('the order stays the same', () => {
  it.each(['normal', 'pubsub'])(
    'when all clients lose their connections of type %s while they wait',
    async (type) => {
      await start();
      const { labels, callers } = await joinOneAfterAnother();
      const owners = await line.owners();
      await redis.call('CLIENT', 'KILL', 'TYPE', type);
      await connectedAgain();
      expect(await line.owners()).toEqual(owners);
      await hold.release();
      await Promise.all(callers.map(({ done }) => done));
      expect(line.turns).toEqual(labels);
    },
  );

  it('when a client is away for so long that its places lapse: it takes them again', async () => {
    await start({ firstMs: SHORT_LEASE_MS });
    const { labels, callers } = await joinOneAfterAnother();
    const lapsed = callers.filter((_, index) => index % CLIENTS === 0);
    proxy.refuse();
    proxy.cut();
    await eventually(async () => {
      expect(await line.lockOf(holder).getQueueLength()).toBe(callers.length - lapsed.length);
    });
    await proxy.accept();
    await eventually(async () => {
      expect(await line.lockOf(holder).getQueueLength()).toBe(callers.length);
    });
    await hold.release();
    await Promise.all(callers.map(({ done }) => done));
    expect(line.turns).toEqual(labels);
  });
});

describe('all get their turn, one at a time', () => {
  it.each(['normal', 'pubsub'])(
    'while connections of type %s are lost again and again',
    async (type) => {
      await start();
      const lost = clients.map((client) => eventsOf(client, 'lost'));
      const { labels, callers } = await joinOneAfterAnother(() => sleep(20));
      const releasing = hold.release();
      const over = new AbortController();
      const all = Promise.all(callers.map(({ done }) => done)).finally(() => {
        over.abort();
      });
      const isOver = (): boolean => over.signal.aborted;
      while (!isOver()) {
        const turns = line.turns.length;
        await redis.call('CLIENT', 'KILL', 'TYPE', type);
        await throughAgain();
        await sleep(150);
        // If they were lost again before the line has moved on, a busy machine would only reconnect.
        while (!isOver() && line.turns.length === turns) await sleep(10);
      }
      await Promise.all([all, releasing]);
      expect([...line.turns].sort()).toEqual([...labels].sort());
      expect(lost.flat()).toEqual([]);
    },
  );

  it('when the server is suspended for longer than all leases', async () => {
    await start({ leaseMs: SHORT_LEASE_MS });
    const { labels, callers } = await joinOneAfterAnother(() => sleep(1));
    await server.pause();
    await sleep(1.5 * SHORT_LEASE_MS);
    await server.resume();
    await Promise.all(callers.map(({ done }) => done));
    expect([...line.turns].sort()).toEqual([...labels].sort());
    expect(hold.signal.aborted).toBe(true);
  });

  it('when the server is killed under 50 waiters and comes back empty', async () => {
    await start();
    const lost = nextEvent(holder, 'lost');
    const calls = Array.from({ length: 50 }, (_, index) =>
      line.call(clients[index % CLIENTS]!, String(index), { body: () => sleep(1) }),
    );
    await line.hasLength(50);
    await server.kill();
    await server.start();
    await Promise.all(calls);
    expect(new Set(line.turns).size).toBe(50);
    expect(['deleted', 'taken']).toContain((await lost).lossReason);
    expect(hold.signal.aborted).toBe(true);
  });
});

function newClient(url: string, lockWatchdogTimeout: number): Holdfast {
  return new Holdfast({ redis: url, lockWatchdogTimeout, commandTimeout: 10_000, wait: Infinity });
}

/** One client after the other, again and again. */
async function joinOneAfterAnother(
  body: () => unknown = () => undefined,
): Promise<{ labels: string[]; callers: Caller[] }> {
  const labels = Array.from({ length: CLIENTS * WAITERS_EACH }, (_, index) => String(index));
  const callers: Caller[] = [];
  for (const [index, label] of labels.entries()) {
    callers.push(await line.join(clients[index % CLIENTS]!, label, { body }));
  }
  return { labels, callers };
}

/** All clients can send commands and receive messages again. */
async function connectedAgain(): Promise<void> {
  await eventually(async () => {
    const grants = (await redis.pubsub('CHANNELS', 'holdfast_grants:*')) as string[];
    expect(grants).toHaveLength(CLIENTS);
    expect(await redis.pubsub('NUMSUB', `redisson_lock__channel:{${line.name}}`)).toContain(
      CLIENTS,
    );
  });
  await throughAgain();
}

/** All clients can send commands again. A query fails with an attempt to connect that took too long. */
async function throughAgain(): Promise<void> {
  await Promise.all(
    [holder, ...clients].map((client) => eventually(() => line.lockOf(client).isLocked())),
  );
}
