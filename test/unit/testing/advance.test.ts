// A server in memory jumps ahead with all its clients, and runs what is due in between.
import { AsyncLocalStorage } from 'node:async_hooks';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Holdfast, type HoldfastOptions } from '../../../src/index.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { eventsOf, nextEvent } from '../../support/clients.js';

type FakeMethod = NonNullable<
  NonNullable<Parameters<typeof vi.useFakeTimers>[0]>['toFake']
>[number];

describe('MemoryRedis.advance()', () => {
  let redis: MemoryRedis;
  const clients: Holdfast[] = [];

  function newClient(options: Partial<HoldfastOptions> = {}): Holdfast {
    const client = new Holdfast({ redis, ...options });
    client.on('error', () => undefined);
    clients.push(client);
    return client;
  }

  beforeEach(() => {
    redis = new MemoryRedis();
  });

  afterEach(async () => {
    await Promise.all(clients.splice(0).map((client) => client.close()));
    vi.useRealTimers();
  });

  it('keeps a watched lock by running every renewal in between', async () => {
    const client = newClient();
    const renewed = eventsOf(client, 'renewed');
    const hold = await client.getLock('report').acquire();
    await redis.advance(600_000);
    expect(renewed.length).toBeGreaterThan(55);
    expect(hold.signal.aborted).toBe(false);
    expect(hold.remaining()).toBeGreaterThan(19_000);
    expect(await newClient().getLock('report').tryLock()).toBe(false);
  });

  it('ends a fixed lease for its holder before another caller can acquire the lock', async () => {
    const hold = await newClient().getLock('report').acquire({ lease: 60_000 });
    const other = newClient().getLock('report');
    let wasAborted: boolean | undefined;
    const waiting = other.lock().then(() => (wasAborted = hold.signal.aborted));
    await redis.advance(59_000);
    expect(hold.signal.aborted).toBe(false);
    await redis.advance(2_000);
    expect(wasAborted).toBe(true);
    await waiting;
  });

  it('frees the locks of a client that does nothing any more', async () => {
    const hold = await newClient({ lockWatchdogTimeout: 3_000 }).getLock('report').acquire();
    redis.down();
    await redis.advance(4_000);
    redis.up();
    const other = newClient();
    await redis.advance(2_000);
    expect(hold.signal.reason).toMatchObject({ code: 'LOCK_LOST' });
    expect(await other.getLock('report').tryLock()).toBe(true);
  });

  it('ends waits whose time is over', async () => {
    await newClient().getLock('report').acquire();
    const other = newClient();
    const waiting = nextEvent(other, 'waiting');
    const trying = other.getLock('report').tryLock({ wait: 5_000 });
    await waiting;
    await redis.advance(6_000);
    expect(await trying).toBe(false);
  });

  it('gives the lock to the waiters in turn, each for its lease', async () => {
    const order: number[] = [];
    const waits = [0, 1, 2].map(async (index) => {
      const lock = newClient().getFairLock('report');
      await lock.acquire({ lease: 10_000 });
      order.push(index);
    });
    await redis.advance(9_000);
    expect(order).toHaveLength(1);
    await redis.advance(10_500);
    expect(order).toHaveLength(2);
    await redis.advance(10_500);
    expect([...order].sort()).toEqual([0, 1, 2]);
    await Promise.all(waits);
  });

  it('runs timers in order, and what follows from each in between', async () => {
    const seen: string[] = [];
    const client = newClient();
    for (const [name, lease] of [
      ['c', 3_000],
      ['a', 1_000],
      ['b', 2_000],
    ] as const) {
      const hold = await client.getLock(name).acquire({ lease });
      hold.signal.addEventListener('abort', () => {
        seen.push(`${name} lost`);
        void client
          .getLock(`after ${name}`)
          .acquire()
          .then(() => seen.push(`after ${name}`));
      });
    }
    await redis.advance(5_000);
    const expected = ['a lost', 'after a', 'b lost', 'after b', 'c lost', 'after c'];
    expect(seen).toEqual(expected);
  });

  it("leaves the test's own timers alone", async () => {
    const rung = vi.fn();
    const timer = setTimeout(rung, 50_000);
    await redis.advance(100_000);
    expect(rung).not.toHaveBeenCalled();
    clearTimeout(timer);
  });

  it('runs one call after another', async () => {
    const hold = await newClient().getLock('report').acquire({ lease: 10_000 });
    const left: number[] = [];
    await Promise.all(
      [1, 2, 3].map(() => redis.advance(3_000).then(() => left.push(hold.remaining()))),
    );
    expect(left.map((ms) => Math.ceil(ms / 1_000))).toEqual([7, 4, 1]);
  });

  it('ends even if something repeats without a pause', async () => {
    const lock = newClient().getLock('report');
    const over = new AbortController();
    const loop = (async () => {
      while (!over.signal.aborted) await lock.withLock(() => undefined);
    })();
    await redis.advance(5_000);
    over.abort();
    await loop;
    expect(redis.holders('report')).toEqual([]);
  });

  it('moves all servers of a Redlock that share a clock', async () => {
    const others = [1, 2].map(() => new MemoryRedis({ timeOf: redis }));
    const locks = [redis, ...others].map((each) => {
      const client = new Holdfast({ redis: each });
      clients.push(client);
      return client.getFencedLock('report');
    });
    const hold = await clients[0]!.getRedLock(...locks).acquire();
    expect(hold.token).toBeGreaterThan(0n);
    await others[0]!.advance(300_000);
    expect(hold.signal.aborted).toBe(false);
    for (const each of [redis, ...others])
      expect(each.holders('report')).toMatchObject([{ ownerId: hold.ownerId }]);
  });

  it("wakes no waiter in another's asynchronous context", async () => {
    const storage = new AsyncLocalStorage<string>();
    const client = newClient();
    const stores: (string | undefined)[] = [];
    client.on('renewed', () => stores.push(storage.getStore()));
    await storage.run('mine', () => client.getLock('report').acquire());
    await storage.run('mine', () => redis.advance(11_000));
    expect(stores).toEqual([undefined]);
  });
});

describe('fake timers move leases, the watchdog and the server at once', () => {
  const TIMERS: FakeMethod[] = ['setTimeout', 'clearTimeout'];
  const ALL: FakeMethod[] = [...TIMERS, 'setImmediate', 'Date', 'performance', 'hrtime'];

  afterEach(() => {
    vi.useRealTimers();
  });

  it.each([
    ['all', undefined],
    ['all, and microtasks as by Jest', [...ALL, 'queueMicrotask']],
    ['none but timers and the clock that cannot be set', [...TIMERS, 'performance']],
    ['none but timers and the wall clock, as by node:test', [...TIMERS, 'Date']],
  ] as [string, FakeMethod[] | undefined][])('when they fake %s', async (_what, toFake) => {
    vi.useFakeTimers(toFake && { toFake });
    const redis = new MemoryRedis();
    await using a = new Holdfast({ redis });
    await using b = new Holdfast({ redis });
    const hold = await a.getLock('report').acquire();
    const fixed = await a.getLock('page').acquire({ lease: 60_000 });
    const waiting = b.getLock('page').acquire({ wait: 70_000 });
    await vi.advanceTimersByTimeAsync(59_000);
    expect(fixed.signal.aborted).toBe(false);
    const [holder] = redis.holders('page');
    expect(holder).toMatchObject({ ownerId: fixed.ownerId });
    expect(holder?.remaining).toBeCloseTo(1_000, -3);
    await vi.advanceTimersByTimeAsync(2_000);
    expect(fixed.signal.aborted).toBe(true);
    expect(redis.holders('page')).toMatchObject([{ ownerId: (await waiting).ownerId }]);
    expect(hold.signal.aborted).toBe(false);
  });

  it('when they come and go while locks are held', async () => {
    const redis = new MemoryRedis();
    await using holdfast = new Holdfast({ redis });
    const renewed = eventsOf(holdfast, 'renewed');
    const hold = await holdfast.getLock('report').acquire();
    vi.useFakeTimers();
    await redis.advance(0); // reads the clock
    await vi.advanceTimersByTimeAsync(100_000);
    expect(renewed.length).toBeGreaterThan(8);
    vi.useRealTimers();
    await redis.advance(100_000);
    expect(hold.signal.aborted).toBe(false);
    const waiting = holdfast.getLock('report').tryLock(20);
    expect(await waiting).toBe(false);
  });

  it('when they begin at another time', async () => {
    const redis = new MemoryRedis();
    await using holdfast = new Holdfast({ redis });
    const hold = await holdfast.getLock('report').acquire({ lease: 60_000 });
    vi.useFakeTimers({ now: 0 });
    await redis.advance(0); // reads the clock
    await vi.advanceTimersByTimeAsync(50_000);
    expect(redis.holders('report')).toHaveLength(1);
    vi.useRealTimers();
    await redis.advance(5_000);
    expect(hold.signal.aborted).toBe(false);
    await redis.advance(5_000);
    expect(hold.signal.aborted).toBe(true);
  });
});
