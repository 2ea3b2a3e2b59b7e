// close(): it ends waits, releases holds and leaves nothing, whatever the state of Redis and of the client.
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, inject, it } from 'vitest';
import { LockLostError, type Hold } from '../../../src/index.js';
import { ONE_WARNING, startChild } from '../../support/child.js';
import {
  connectedClient,
  eventsOf,
  newClient,
  nextEvent,
  proxyPerTest,
  rejectionOf,
  sharedConnection,
} from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { commandOf } from '../../support/lock-commands.js';
import { startRedis } from '../../support/redis-server.js';
import { nameToken, uniqueName } from '../../support/unique-name.js';

const redis = sharedConnection();
let name: string;

beforeEach(() => {
  name = uniqueName();
});

describe('close()', () => {
  it('ends waiting calls with ClosedError', async () => {
    await using holder = newClient({ lockWatchdogTimeout: 30_000 });
    const client = newClient();
    await using hold = await holder.getLock(name).acquire();
    const lock = client.getLock(name);
    const waiting = nextEvent(client, 'waiting');
    const calls = [
      lock.lock(),
      lock.tryLock(60_000),
      lock.acquire(),
      lock.withLock(() => undefined),
      client.run(() => lock.lock()),
    ].map(rejectionOf);
    await waiting;
    await client.close();
    for (const error of await Promise.all(calls)) {
      expect(error).toMatchObject({ code: 'CLIENT_CLOSED', lockName: name });
    }
    expect(hold.remaining()).toBeGreaterThan(0);
    expect(await redis.hkeys(name)).toEqual([hold.ownerId]);
  });

  it('ends calls that wait for a sibling inside one holder', async () => {
    const client = newClient();
    const lock = client.getLock(name);
    let inside!: () => void;
    const isInside = new Promise<void>((resolve) => (inside = resolve));
    const outer = lock.withLock(async () => {
      const first = lock.acquire();
      const second = rejectionOf(lock.acquire());
      await first;
      inside();
      expect(await second).toMatchObject({ code: 'CLIENT_CLOSED' });
    });
    await isInside;
    const outerError = rejectionOf(outer);
    await client.close();
    expect(await outerError).toMatchObject({ code: 'LOCK_LOST', lossReason: 'closed' });
  });

  it('releases what is held: signals abort, the locks are free, waiters of other clients are woken', async () => {
    const client = newClient({ lockWatchdogTimeout: 60_000 });
    await using other = newClient({ lockWatchdogTimeout: 30_000 });
    const lost = eventsOf(client, 'lost');
    const names = Array.from({ length: 300 }, () => uniqueName());
    const holds = await Promise.all(names.map((each) => client.getLock(each).acquire()));
    const signals = holds.map(({ signal }) => signal);
    const waiting = nextEvent(other, 'waiting');
    const next = other.getLock(names[0]!).acquire();
    await waiting;
    await sleep(300); // it listens, and polls only after 10 s

    await client.close();
    const closedAtMs = performance.now();

    expect(signals.every(({ aborted }) => aborted)).toBe(true);
    expect(signals[0]!.reason).toBeInstanceOf(LockLostError);
    expect(lost.map(({ lossReason }) => lossReason)).toEqual(names.map(() => 'closed'));
    const theirs = await next;
    expect(performance.now() - closedAtMs).toBeLessThan(5_000);
    await theirs.release();
    expect(await redis.exists(...names)).toBe(0);
    expect(await rejectionOf(holds[1]!.release())).toMatchObject({ lossReason: 'closed' });
  });

  it('leaves no key and no channel when acquires, waits and releases are under way', async () => {
    const client = newClient();
    const names = Array.from({ length: 50 }, () => uniqueName());
    const settled: Promise<PromiseSettledResult<unknown>[]>[] = [];
    for (let round = 0; round < 4; round++) {
      settled.push(
        Promise.allSettled(names.map((each) => client.getLock(each).acquire({ wait: 30_000 }))),
        Promise.allSettled(names.map((each) => client.getLock(each).withLock(() => redis.ping()))),
      );
      if (round === 2) await nextEvent(client, 'waiting');
    }
    await client.close();
    const outcomes = (await Promise.all(settled)).flat();
    const codes = outcomes.map((outcome) =>
      outcome.status === 'rejected' ? (outcome.reason as { code?: string }).code : 'acquired',
    );
    expect(new Set(codes)).toEqual(new Set(['acquired', 'CLIENT_CLOSED']));
    expect(await redis.exists(...names)).toBe(0);
    expect(await redis.pubsub('CHANNELS', `*${nameToken}*`)).toEqual([]);
  });

  it('may be called twice, and while it is under way', async () => {
    const client = newClient();
    await client.getLock(name).lock();
    const first = client.close();
    const second = client.close();
    await Promise.all([first, second]);
    await client.close();
    await client[Symbol.asyncDispose]();
    expect(await redis.exists(name)).toBe(0);
  });

  it('may be called by listeners of the losses that it causes, however many', async () => {
    const client = newClient({ lockWatchdogTimeout: 30_000 });
    const names = Array.from({ length: 2_000 }, () => uniqueName());
    await Promise.all(names.map((each) => client.getLock(each).acquire()));
    let lostCount = 0;
    client.on('lost', () => {
      lostCount++;
      void client.close();
    });
    await client.close();
    expect(lostCount).toBe(names.length);
    expect(await redis.exists(...names)).toBe(0);
  });

  it('may be called before anything else', async () => {
    await newClient().close();
    const client = newClient();
    await Promise.all([client.close(), rejectionOf(client.getLock(name).lock())]);
  });

  it('is what `await using` does', async () => {
    let hold: Hold | undefined;
    {
      await using client = newClient();
      hold = await client.getLock(name).acquire();
      expect(hold.signal.aborted).toBe(false);
    }
    expect(hold.signal.reason).toMatchObject({ lossReason: 'closed' });
    expect(await redis.exists(name)).toBe(0);
  });
});

describe('close() of a client whose acquire is in flight', () => {
  const proxy = proxyPerTest();

  it('undoes the acquisition', async () => {
    const client = await connectedClient({ redis: proxy().url, lockWatchdogTimeout: 30_000 });
    const passing = proxy().copyNext(commandOf('acquire', name));
    proxy().delay({ downstreamMs: 200 });
    const acquiring = rejectionOf(client.getLock(name).acquire());
    await passing.happened;
    await eventually(async () => {
      expect(await redis.exists(name)).toBe(1);
    });
    await client.close();
    expect(await acquiring).toMatchObject({ code: 'CLIENT_CLOSED' });
    expect(await redis.exists(name)).toBe(0);
  });

  it('ends an acquire that has just found its lock lost, and whose listener closes the client', async () => {
    const client = await connectedClient({ redis: proxy().url, lockWatchdogTimeout: 30_000 });
    const lock = client.getLock(name);
    await lock.acquire({ lease: 300 });
    proxy().delay({ downstreamMs: 100 });
    let closing: Promise<void> | undefined;
    client.on('lost', () => {
      closing = client.close();
    });
    const resumesAtMs = performance.now() + 400;
    while (performance.now() < resumesAtMs); // the process is suspended
    const acquiring = rejectionOf(lock.acquire());
    expect(closing).toBeDefined();
    const error = await Promise.race([acquiring, closing]); // at once, not when it is closed
    expect(error).toMatchObject({ code: 'CLIENT_CLOSED' });
    await closing;
    expect(await redis.exists(name)).toBe(0);
  });

  it('does not wait longer than commandTimeout for a black hole', async () => {
    const client = newClient({ redis: proxy().url, commandTimeout: 300 });
    const hold = await client.getLock(name).acquire();
    proxy().blackhole();
    const acquiring = rejectionOf(client.getLock(uniqueName()).acquire());
    await settlesSoon(client.close());
    expect(await acquiring).toMatchObject({ code: 'CLIENT_CLOSED' });
    expect(hold.signal.aborted).toBe(true);
    proxy().heal('drop');
    await eventually(async () => {
      expect(await redis.exists(name)).toBe(0); // its lease ended
    });
  });

  it('does not wait for a connection that never came', async () => {
    proxy().refuse();
    const client = newClient({ redis: proxy().url });
    const acquiring = rejectionOf(client.getLock(name).acquire());
    await nextEvent(client, 'error');
    await settlesSoon(client.close());
    expect(await acquiring).toMatchObject({ code: 'CLIENT_CLOSED' });
  });
});

describe('close() called again by a listener of the loss', () => {
  const proxy = proxyPerTest();

  it('waits for Redis to come back, and removes what is held', async () => {
    const client = await connectedClient({ redis: proxy().url, lockWatchdogTimeout: 30_000 });
    await client.getLock(name).acquire();
    client.on('lost', () => void client.close());
    const down = nextEvent(client, 'error');
    proxy().refuse();
    proxy().cut();
    await down;
    const closing = client.close();
    await new Promise((resolve) => setTimeout(resolve, 200));
    await proxy().accept();
    await closing;
    expect(await redis.exists(name)).toBe(0);
  });
});

describe('close() without Redis', () => {
  it.each(['kill', 'pause', 'stop'] as const)('ends by itself (%s)', async (fault) => {
    await using server = await startRedis();
    await using holder = newClient({ redis: server.url });
    const client = newClient({ redis: server.url, commandTimeout: 300 });
    const hold = await client.getLock('held').acquire();
    await holder.getLock('others').lock();
    const waiting = nextEvent(client, 'waiting');
    const acquiring = rejectionOf(client.getLock('others').acquire());
    await waiting;
    await server[fault]();
    await settlesSoon(client.close());
    expect(await acquiring).toMatchObject({ code: 'CLIENT_CLOSED' });
    expect(hold.signal.reason).toMatchObject({ lossReason: 'closed' });
    await settlesSoon(client.close());
    if (fault === 'pause') await server.resume();
  });
});

describe('a process', () => {
  it.each(['holds and waits', 'is idle'])('that %s exits by itself after close()', async (what) => {
    await using child = startChild('lock-user.ts', childEnvironment(inject('redisUrl')));
    await child.next('ready');
    if (what !== 'is idle') {
      await using other = newClient({ lockWatchdogTimeout: 30_000 });
      const taken = uniqueName();
      await using hold = await other.getLock(taken).acquire();
      child.send({ type: 'acquire', name });
      await child.next('acquired');
      child.send({ type: 'acquire', name: taken });
      await eventually(async () => {
        expect(await redis.pubsub('CHANNELS', `*${taken}*`)).toHaveLength(1);
      });
      child.send({ type: 'close' });
      expect(await child.next('failed')).toMatchObject({ code: 'CLIENT_CLOSED' });
      expect(hold.remaining()).toBeGreaterThan(0);
    } else {
      child.send({ type: 'close' });
    }
    await child.next('closed');
    expect(await child.exited()).toEqual({ code: 0, signal: null });
    expect(child.output).toBe('');
    expect(await redis.exists(name)).toBe(0);
  });

  it('exits by itself after close() while Redis is down', async () => {
    await using server = await startRedis();
    await using child = startChild('lock-user.ts', childEnvironment(server.url));
    child.send({ type: 'acquire', name });
    await child.next('acquired');
    await server.kill();
    child.send({ type: 'close' });
    await child.next('closed');
    expect(await child.exited()).toEqual({ code: 0, signal: null });
    expect(child.output).toMatch(ONE_WARNING);
  });

  function childEnvironment(url: string): Record<string, string> {
    return {
      HOLDFAST_TEST_REDIS_URL: url,
      HOLDFAST_TEST_OPTIONS: JSON.stringify({ lockWatchdogTimeout: 900 }),
    };
  }
});

/** Well over commandTimeout, and well under any wait for an answer. */
async function settlesSoon(promise: Promise<void>): Promise<void> {
  const startMs = performance.now();
  await promise;
  expect(performance.now() - startMs).toBeLessThan(2_000);
}
