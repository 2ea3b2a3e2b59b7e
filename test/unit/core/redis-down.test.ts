// What docs/how-to/redis-is-down.md says of each call, on the time of a server in memory, with the defaults of a client.
import { afterEach, beforeEach, expect, it } from 'vitest';
import {
  Holdfast,
  type HoldfastOptions,
  LockLostError,
  type Lock,
  QuorumError,
  UnavailableError,
} from '../../../src/index.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { eventsOf, rejectionOf } from '../../support/clients.js';

let redis: MemoryRedis;
let servers: MemoryRedis[];
const clients: Holdfast[] = [];

beforeEach(() => {
  redis = new MemoryRedis();
  servers = [redis];
});
afterEach(async () => {
  for (const server of servers) server.up();
  await redis.advance(2_000);
  await Promise.all(clients.splice(0).map((client) => client.close()));
});

/** A client that is connected. */
async function newClient(options: Partial<HoldfastOptions> = {}): Promise<Holdfast> {
  const client = new Holdfast({ redis, ...options });
  client.on('error', () => undefined);
  clients.push(client);
  await client.ping().catch(() => undefined);
  return client;
}

/** Another server on the same time. */
function newServer(): MemoryRedis {
  const server = new MemoryRedis({ timeOf: redis });
  servers.push(server);
  return server;
}

/** How a call stands; `pending` until it has settled. */
function watch<T>(call: Promise<T>): { outcome: unknown } {
  const watched: { outcome: unknown } = { outcome: 'pending' };
  call.then(
    (value) => (watched.outcome = value),
    (error: unknown) => (watched.outcome = error),
  );
  return watched;
}

const unavailable = expect.any(UnavailableError) as unknown;

it.each<[string, (lock: Lock) => Promise<unknown>]>([
  ['acquire()', (lock) => lock.acquire()],
  ['lock()', (lock) => lock.lock()],
  ['withLock()', (lock) => lock.withLock(() => 'done')],
])('%s waits for Redis, and throws UnavailableError when its wait is over', async (_, call) => {
  const limited = await newClient({ wait: 5_000 });
  const endless = await newClient({ wait: Infinity });
  redis.down();
  const [first, second] = [watch(call(limited.getLock('a'))), watch(call(endless.getLock('b')))];
  await redis.advance(4_900);
  expect(first.outcome).toBe('pending');
  await redis.advance(200);
  expect(first.outcome).toEqual(unavailable);
  await redis.advance(600_000);
  expect(second.outcome).toBe('pending');
  redis.up();
  await redis.advance(2_000);
  expect(second.outcome).not.toBe('pending');
  expect(second.outcome).not.toEqual(unavailable);
});

it.each<[string, (lock: Lock) => Promise<unknown>]>([
  ['tryAcquire()', (lock) => lock.tryAcquire()],
  ['tryLock()', (lock) => lock.tryLock()],
  ['isLocked()', (lock) => lock.isLocked()],
])('%s throws UnavailableError at the next failed attempt to connect', async (_, call) => {
  const client = await newClient();
  redis.down();
  const atOnce = watch(call(client.getLock('a')));
  await redis.advance(100);
  expect(atOnce.outcome).toEqual(unavailable);
  await redis.advance(60_000); // the pauses between attempts are at their longest
  const later = watch(call(client.getLock('a')));
  await redis.advance(1_260);
  expect(later.outcome).toEqual(unavailable);
});

it('a Redis that accepts commands and answers none is unavailable after commandTimeout', async () => {
  const client = await newClient();
  redis.delay(3_600_000);
  const trying = watch(client.getLock('a').tryLock());
  await redis.advance(9_900);
  expect(trying.outcome).toBe('pending');
  await redis.advance(200);
  expect(trying.outcome).toEqual(unavailable);
  redis.delay(0);
});

it('callers that wait already wait on, and get the lock when Redis is back', async () => {
  const holder = await newClient();
  const waiter = await newClient();
  const hold = await holder.getLock('a').acquire();
  const limited = watch(waiter.getLock('a').acquire({ wait: 5_000 }));
  const endless = watch(waiter.getLock('a').acquire());
  await redis.advance(100);
  redis.down();
  await redis.advance(5_100);
  expect(limited.outcome).toEqual(unavailable);
  expect(endless.outcome).toBe('pending');
  redis.up();
  await redis.advance(2_000);
  expect(endless.outcome).toBe('pending'); // it is held still
  await hold.release();
  await redis.advance(100);
  expect(endless.outcome).toMatchObject({ lockName: 'a' });
});

it('a watched hold outlives an outage that ends before its lease, and is lost to a longer one', async () => {
  const client = await newClient();
  const lost = eventsOf(client, 'lost');
  const hold = await client.getLock('a').acquire();
  await redis.advance(20_500); // renewed half a second ago
  redis.down();
  await redis.advance(28_000);
  expect(hold.signal.aborted).toBe(false);
  expect(hold.remaining()).toBeGreaterThan(0);
  redis.up();
  await redis.advance(1_300);
  expect(hold.remaining()).toBeGreaterThan(28_000);
  redis.down();
  await redis.advance(30_000);
  expect(hold.remaining()).toBe(0);
  expect(hold.signal.reason).toBeInstanceOf(LockLostError);
  expect(lost).toMatchObject([{ lockName: 'a', lossReason: 'unreachable' }]);
});

it('a hold with a lease of its own goes on to the end of that lease', async () => {
  const client = await newClient();
  const hold = await client.getLock('a').acquire({ lease: 60_000 });
  redis.down();
  await redis.advance(59_000);
  expect(hold.signal.aborted).toBe(false);
  await redis.advance(1_000);
  expect(hold.signal.reason).toMatchObject({ lossReason: 'expired' });
});

it('withLock() returns what its function returns if an outage begins meanwhile, and removes the lock later', async () => {
  const client = await newClient();
  const errors = eventsOf(client, 'error');
  let goOn!: () => void;
  const done = watch(
    client.getLock('a').withLock(
      () =>
        new Promise<string>((resolve) => {
          goOn = () => {
            resolve('done');
          };
        }),
    ),
  );
  await redis.advance(100);
  redis.down();
  await redis.advance(1_000);
  goOn();
  await redis.advance(10_100);
  expect(done.outcome).toBe('done');
  expect(errors).toContainEqual(expect.objectContaining({ error: unavailable, lockName: 'a' }));
  expect(redis.holders('a')).toHaveLength(1);
  redis.up();
  await redis.advance(2_000);
  expect(redis.holders('a')).toEqual([]);
});

it("withLock() throws LockLostError if its lock was lost before its function succeeded, else the function's error", async () => {
  const client = await newClient();
  let succeed!: () => void;
  let fail!: (error: Error) => void;
  const succeeding = watch(
    client.getLock('a').withLock(() => new Promise<void>((resolve) => (succeed = resolve))),
  );
  const failing = watch(
    client.getLock('b').withLock(() => new Promise<void>((_resolve, reject) => (fail = reject))),
  );
  await redis.advance(100);
  redis.down();
  await redis.advance(31_000);
  succeed();
  fail(new RangeError('of the function'));
  await redis.advance(0);
  expect(succeeding.outcome).toBeInstanceOf(LockLostError);
  expect(failing.outcome).toBeInstanceOf(RangeError);
});

it('release(), unlock() and extend() throw UnavailableError after commandTimeout', async () => {
  const client = await newClient();
  const released = await client.getLock('a').acquire();
  const extended = await client.getLock('b').acquire();
  await client.getLock('c').lock();
  redis.down();
  const calls = [released.release(), extended.extend(60_000), client.getLock('c').unlock()];
  const outcomes = calls.map((call) => watch(call));
  await redis.advance(9_900);
  expect(outcomes.map(({ outcome }) => outcome)).toEqual(Array(3).fill('pending'));
  await redis.advance(200);
  expect(outcomes.map(({ outcome }) => outcome)).toEqual(Array(3).fill(unavailable));
  expect(extended.signal.aborted).toBe(false);
});

it('a kept lock that nobody holds is taken again only when Redis is back', async () => {
  const client = await newClient({ wait: 5_000 });
  const lock = client.getLock('a', { keep: 3_000 });
  for (let i = 0; i < 3; i++) await lock.withLock(() => undefined);
  await redis.advance(50);
  expect(client.stats().kept).toBe(1);
  redis.down();
  await redis.advance(0);
  const waiting = watch(lock.withLock(() => 'done'));
  await redis.advance(1_000);
  expect(waiting.outcome).toBe('pending');
  expect(client.stats().kept).toBe(0);
  redis.up();
  await redis.advance(2_000);
  expect(waiting.outcome).toBe('done');
});

it('a Redlock works while a minority is down, and throws QuorumError while a majority is', async () => {
  const nodes = [redis, newServer(), newServer()];
  const members = await Promise.all(nodes.map((node) => newClient({ redis: node })));
  const lock = members[0]!.getRedLock(...members.map((member) => member.getLock('a')), {
    restartGuard: false,
  });
  nodes[1]!.down();
  await redis.advance(100);
  const one = watch(lock.withLock(() => 'done'));
  await redis.advance(1_000);
  expect(one.outcome).toBe('done');
  nodes[2]!.down();
  await redis.advance(100);
  const [attempt, waiting] = [watch(lock.tryLock()), watch(lock.acquire({ wait: 5_000 }))];
  await redis.advance(2_000);
  expect(attempt.outcome).toBeInstanceOf(QuorumError);
  expect(waiting.outcome).toBe('pending');
  await redis.advance(3_200);
  expect(waiting.outcome).toBeInstanceOf(QuorumError);
});

it('a MultiLock waits for the Redis of each member, and holds none of them meanwhile', async () => {
  const away = newServer();
  const here = await newClient();
  const there = await newClient({ redis: away });
  const lock = here.getMultiLock(here.getLock('a'), there.getLock('b'));
  away.down();
  await redis.advance(100);
  const waiting = watch(lock.acquire({ wait: 5_000 }));
  await redis.advance(2_000);
  expect(waiting.outcome).toBe('pending');
  expect(redis.holders('a')).toEqual([]);
  await redis.advance(3_200);
  expect(waiting.outcome).toEqual(unavailable);
});

it('permits of a semaphore and reads of a read-write lock are waited for like a lock', async () => {
  const client = await newClient({ wait: 5_000 });
  const semaphore = client.getSemaphore('s', { permits: 2 });
  const held = await semaphore.acquire();
  redis.down();
  await redis.advance(100);
  const calls = [
    semaphore.withPermits(() => 'done'),
    client
      .getReadWriteLock('rw')
      .readLock()
      .withLock(() => 'done'),
  ];
  const outcomes = calls.map((call) => watch(call));
  await redis.advance(4_000);
  expect(outcomes.map(({ outcome }) => outcome)).toEqual(['pending', 'pending']);
  await redis.advance(1_100);
  expect(outcomes.map(({ outcome }) => outcome)).toEqual([unavailable, unavailable]);
  redis.up();
  await redis.advance(11_000);
  expect(held.remaining()).toBeGreaterThan(18_000); // renewed when Redis was back
  redis.down();
  await redis.advance(30_000);
  expect(held.signal.reason).toMatchObject({ lossReason: 'unreachable' });
});

it('a fair lock serves its line in the old order when Redis is back with its data', async () => {
  const holder = await newClient();
  const hold = await holder.getFairLock('a').acquire({ lease: 120_000 });
  const order: number[] = [];
  for (const index of [0, 1, 2]) {
    const waiter = await newClient();
    void waiter.getFairLock('a').withLock(() => order.push(index));
    await redis.advance(100);
  }
  redis.down();
  await redis.advance(15_000);
  redis.up();
  await redis.advance(2_000);
  await hold.release();
  await redis.advance(2_000);
  expect(order).toEqual([0, 1, 2]);
});

it('close() takes commandTimeout and half a second at most, and never rejects', async () => {
  const client = await newClient();
  const hold = await client.getLock('a').acquire();
  redis.down();
  await redis.advance(100);
  const closing = watch(client.close());
  expect(hold.signal.reason).toMatchObject({ lossReason: 'closed' });
  await redis.advance(10_600);
  expect(closing.outcome).toBeUndefined();
  expect(redis.holders('a')).toHaveLength(1); // until its lease ends
  await redis.advance(20_000);
  expect(redis.holders('a')).toEqual([]);
});

it('a client may be made while Redis is down: it connects when that is up', async () => {
  redis.down();
  const client = await newClient();
  expect(client.status).toBe('connecting');
  const [attempt, waiting] = [
    watch(client.getLock('a').tryLock()),
    watch(client.getLock('a').withLock(() => 'done')),
  ];
  await redis.advance(1_300);
  expect(attempt.outcome).toEqual(unavailable);
  expect(waiting.outcome).toBe('pending');
  redis.up();
  await redis.advance(2_000);
  expect(waiting.outcome).toBe('done');
  expect(client.status).toBe('ready');
});

it('ping() throws, and status is connecting', async () => {
  const client = await newClient();
  redis.down();
  await redis.advance(100);
  expect(client.status).toBe('connecting');
  const pinging = rejectionOf(client.ping());
  await redis.advance(1_300);
  expect(await pinging).toEqual(unavailable);
});

it('there is one error event when an outage begins, and one recovered event when it is over', async () => {
  const client = await newClient();
  const errors = eventsOf(client, 'error');
  const recovered = eventsOf(client, 'recovered');
  const hold = await client.getLock('a').acquire();
  redis.down();
  await redis.advance(25_000);
  expect(errors).toHaveLength(1);
  redis.up();
  await redis.advance(2_000);
  expect([errors.length, recovered.length]).toEqual([1, 1]);
  await hold.release();
});
