// Owner scopes on a real server: shared lock objects, parallel branches, HTTP servers started inside a lock.
import { Redis } from 'ioredis';
import { once } from 'node:events';
import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest';
import type { Hold, Holdfast, Lock } from '../../../src/index.js';
import { eventsOf, newClient } from '../../support/clients.js';
import { uniqueName } from '../../support/unique-name.js';

const CALLERS = 200;

let client: Holdfast;
let redis: Redis;
let lock: Lock;
let counter: string;

beforeEach(() => {
  client = newClient({ lockWatchdogTimeout: 10_000 });
  redis = new Redis(inject('redisUrl'));
  lock = client.getLock(uniqueName()); // one object, as in a module or a service field
  counter = uniqueName('counter');
});

afterEach(async () => {
  await client.close();
  await redis.del(counter);
  redis.disconnect();
});

/** Reads, yields, writes: exact only if no other caller does so at the same time. */
async function increment(): Promise<void> {
  const count = Number(await redis.get(counter));
  await new Promise(setImmediate);
  await redis.set(counter, count + 1);
}

async function locked(work: () => Promise<void>): Promise<void> {
  await lock.lock();
  try {
    await work();
  } finally {
    await lock.unlock();
  }
}

function times(count: number, work: () => Promise<void>): Promise<unknown> {
  return Promise.all(Array.from({ length: count }, work));
}

describe(`${String(CALLERS)} concurrent callers share one lock object`, () => {
  it('with lock() and unlock(): the counter is exact', async () => {
    await times(CALLERS, () => locked(increment));
    expect(await redis.get(counter)).toBe(String(CALLERS));
  });

  it('with withLock: the counter is exact', async () => {
    await times(CALLERS, () => lock.withLock(increment));
    expect(await redis.get(counter)).toBe(String(CALLERS));
  });

  it('with a run each: the counter is exact', async () => {
    await times(CALLERS, () => client.run(() => locked(increment)));
    expect(await redis.get(counter)).toBe(String(CALLERS));
  });

  it('half of them in another client: the counter is exact', async () => {
    await using other = newClient({ lockWatchdogTimeout: 10_000 });
    const theirs = other.getLock(lock.name);
    await Promise.all([
      times(CALLERS / 2, () => locked(increment)),
      times(CALLERS / 2, () => theirs.withLock(increment)),
    ]);
    expect(await redis.get(counter)).toBe(String(CALLERS));
  });
});

describe('Promise.all of withLock', () => {
  it('in one run: the counter is exact', async () => {
    await client.run(() => times(50, () => lock.withLock(increment)));
    expect(await redis.get(counter)).toBe('50');
  });

  it('inside a holder, and inside a nested holder: the counter is exact', async () => {
    const held = eventsOf(client, 'acquired');
    await lock.withLock(() =>
      times(5, async () => {
        await lock.withLock(() => times(10, () => lock.withLock(increment)));
      }),
    );
    expect(await redis.get(counter)).toBe('50');
    expect(new Set(held.map(({ ownerId }) => ownerId)).size).toBe(1);
    expect(await lock.isLocked()).toBe(false);
  });
});

describe('an HTTP server whose requests lock', () => {
  let server: Server;
  const holds = new Set<Hold>();

  /** Starts the server in the scope of the caller, which its request handlers inherit. */
  async function serve(requested: Lock): Promise<void> {
    server = createServer((_, response) => {
      void requested
        .withLock(async (hold) => {
          holds.add(hold);
          await increment();
        })
        .then(
          () => response.end(),
          (error: unknown) => response.writeHead(500).end(String(error)),
        );
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  }

  async function get(): Promise<void> {
    const { port } = server.address() as AddressInfo;
    const [response] = (await once(
      request({ port, host: '127.0.0.1', agent: false }).end(),
      'response',
    )) as [NodeJS.ReadableStream & { statusCode: number }];
    response.resume();
    await once(response, 'end');
    expect(response.statusCode).toBe(200);
  }

  beforeEach(() => {
    holds.clear();
  });

  afterEach(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });

  it('started inside leader.withLock(…): requests exclude each other, each with a hold of its own', async () => {
    const leader = client.getLock(uniqueName('leader'));
    await leader.withLock(async () => {
      await serve(lock);
      await client.detach(() => times(20, get));
    });
    expect(await redis.get(counter)).toBe('20');
    expect(holds.size).toBe(20);
  });

  it("started inside leader.withLock(…), with lock() and unlock(): no request shares another's hold", async () => {
    const leader = client.getLock(uniqueName('leader'));
    await leader.withLock(async () => {
      server = createServer((_, response) => {
        void locked(increment).then(() => response.end());
      });
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      await client.detach(() => times(20, get));
    });
    expect(await redis.get(counter)).toBe('20');
  });

  it('started inside a run with detach: requests inherit no hold', async () => {
    await client.run(async () => {
      await lock.lock();
      await client.detach(() => serve(lock));
      const requests = client.detach(() => times(5, get));
      await sleep(50);
      expect(holds.size).toBe(0); // the requests wait: the run holds the lock, and they are not inside the run
      await lock.unlock();
      await requests;
    });
    expect(await redis.get(counter)).toBe('5');
    expect(holds.size).toBe(5);
  });
});
