// What a client tells of the locks of all clients, over the server in memory.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Holdfast, Inspection, ListOptions } from '../../../src/index.js';
import { startOfOwner } from '../../../src/core/session.js';
import { nextEvent } from '../../support/clients.js';
import { fakeHoldfast, FakeServer } from '../../support/fake-holdfast.js';
import { keepLock } from '../../support/kept-locks.js';

let server: FakeServer;
let client: Holdfast;
let other: Holdfast;

beforeEach(() => {
  server = new FakeServer();
  client = fakeHoldfast({ server, clientId: 'web' }).holdfast;
  other = fakeHoldfast({ server, clientId: 'job' }).holdfast;
});

afterEach(async () => {
  await Promise.all([client.close(), other.close()]);
});

async function listed(options?: ListOptions): Promise<Inspection[]> {
  const found: Inspection[] = [];
  for await (const lock of client.list(options)) found.push(lock);
  return found.sort((one, two) => (one.name < two.name ? -1 : 1));
}

/** Between then and now, as far as two clocks agree. */
function expectSince(since: Date | undefined, beforeMs: number): void {
  expect(Number(since)).toBeGreaterThanOrEqual(beforeMs - 50);
  expect(Number(since)).toBeLessThanOrEqual(Date.now() + 50);
}

describe('inspect()', () => {
  it('is undefined for a lock that nobody has', async () => {
    expect(await client.inspect('orders')).toBeUndefined();
  });

  it('shows the holder of another client, since when, and what is left of its lease', async () => {
    const before = Date.now();
    const hold = await other.getLock('orders').acquire({ lease: 60_000 });
    const found = await client.inspect('orders');
    expect(found).toMatchObject({ name: 'orders', kind: 'lock', waiters: [], isCut: false });
    expect(found!.token).toBeUndefined();
    const [holder] = found!.holders;
    expect(holder).toMatchObject({
      ownerId: hold.ownerId,
      clientId: other.clientId,
      holdCount: 1,
    });
    expect(holder!.leaseLeftMs).toBeGreaterThan(50_000);
    expect(holder!.leaseLeftMs).toBeLessThanOrEqual(60_000);
    expectSince(holder!.since, before);
    await hold.release();
    expect(await client.inspect('orders')).toBeUndefined();
  });

  it('shows a lock that its client keeps, also to that client, and lets it be kept', async () => {
    const lock = await keepLock(other, 'orders');
    for (const each of [client, other]) {
      const [holder] = (await each.inspect('orders'))!.holders;
      expect(holder).toMatchObject({ clientId: other.clientId, state: 'kept' });
      expect(holder).not.toHaveProperty('holdCount');
      expect(holder!.leaseLeftMs).toBeLessThanOrEqual(10_000);
    }
    expect(await listed()).toMatchObject([{ name: 'orders', holders: [{ state: 'kept' }] }]);
    expect(other.stats().kept).toBe(1);
    const hold = await lock.acquire();
    expect((await client.inspect('orders'))!.holders).toMatchObject([
      { ownerId: hold.ownerId, state: 'kept' }, // in use, which the server is not told
    ]);
    await hold.release();
    await client.getLock('orders').withLock(async ({ ownerId }) => {
      const [holder] = (await client.inspect('orders'))!.holders;
      expect(holder).toMatchObject({ ownerId, holdCount: 1 });
      expect(holder).toHaveProperty('state', 'held');
    });
  });

  it('counts the clients that wait for a plain lock', async () => {
    const hold = await client.getLock('orders').acquire();
    const waiting = nextEvent(other, 'waiting');
    const theirs = other.getLock('orders').acquire();
    await waiting;
    await expect.poll(async () => (await client.inspect('orders'))?.waitingClients).toBe(1);
    await hold.release();
    await (await theirs).release();
  });

  it('shows the line of a fenced fair lock in order, and the last token', async () => {
    const lock = client.getFencedLock('orders', { fair: true });
    const hold = await lock.acquire();
    const calls: Promise<{ release(): Promise<void> }>[] = [];
    for (const each of [other, client]) {
      const waiting = nextEvent(each, 'waiting');
      calls.push(each.getFencedLock('orders', { fair: true }).acquire());
      await waiting;
    }
    const found = await client.inspect('orders');
    expect(found).toMatchObject({ kind: 'lock', token: String(hold.token) });
    expect(found!.waiters.map(({ clientId }) => clientId)).toEqual([
      other.clientId,
      client.clientId,
    ]);
    for (const { since, leaseLeftMs } of found!.waiters) {
      expectSince(since, Date.now() - 10_000);
      expect(leaseLeftMs).toBeGreaterThan(0);
    }
    await hold.release();
    for (const call of calls) await (await call).release();
  });

  it('shows the permits of a semaphore', async () => {
    const semaphore = client.getSemaphore('seats', { permits: 5 });
    const hold = await semaphore.acquire({ permits: 3 });
    const found = await other.inspect('seats');
    expect(found).toMatchObject({
      kind: 'semaphore',
      permits: { capacity: 5, available: 2 },
      holders: [{ ownerId: hold.ownerId, permits: 3 }],
    });
    expect(found!.holders[0]!.holdCount).toBeUndefined();
    await hold.release();
  });

  it('shows who reads and who wants to write', async () => {
    const lock = client.getReadWriteLock('page');
    const hold = await lock.readLock().acquire();
    const waiting = nextEvent(other, 'waiting');
    const theirs = other.getReadWriteLock('page').writeLock().acquire();
    await waiting;
    expect(await other.inspect('page')).toMatchObject({
      kind: 'read-write',
      holders: [{ ownerId: hold.ownerId, mode: 'read' }],
      waiters: [{ clientId: other.clientId, mode: 'write' }],
    });
    await hold.release();
    const writer = await theirs;
    expect(await client.inspect('page')).toMatchObject({
      holders: [{ ownerId: writer.ownerId, mode: 'write' }],
      waiters: [],
    });
    await writer.release();
  });

  it.each([
    ['a text', ['SET', 'orders', 'mine']],
    ['a hash of other data', ['HSET', 'orders', 'name', 'Ada']],
    ['a hash whose one field looks like an owner', ['HSET', 'orders', 'user:1', 'Ada']],
    [
      'a hash whose one field looks like an owner, with a negative number',
      ['HSET', 'orders', 'user:1', '-4'],
    ],
    ['a hash of several fields', ['HSET', 'orders', 'user:1', '1', 'user:2', '1']],
  ])('refuses %s', async (_, [command = '', ...args]) => {
    server.execute(command, ...args);
    await expect(client.inspect('orders')).rejects.toMatchObject({
      code: 'KEY_CONFLICT',
      lockName: 'orders',
    });
  });

  it('refuses a bad name, and a closed client', async () => {
    await expect(client.inspect('')).rejects.toMatchObject({ code: 'INVALID_OPTION' });
    await client.close();
    await expect(client.inspect('orders')).rejects.toMatchObject({ code: 'CLIENT_CLOSED' });
  });
});

describe('list()', () => {
  it('lists the locks of all clients and kinds, and nothing else', async () => {
    server.execute('SET', 'text', '1');
    server.execute('HSET', 'user', 'name', 'Ada');
    server.execute('HSET', 'endless', 'user:1', '1');
    const holds = [
      await client.getLock('orders:1').acquire(),
      await other.getFairLock('orders:2').acquire(),
      await other.getSemaphore('seats', { permits: 2 }).acquire(),
      await client.getReadWriteLock('page').writeLock().acquire(),
    ];
    const kinds = (await listed()).map(({ name, kind }) => [name, kind]);
    expect(kinds).toEqual([
      ['orders:1', 'lock'],
      ['orders:2', 'lock'],
      ['page', 'read-write'],
      ['seats', 'semaphore'],
    ]);
    expect((await listed({ prefix: 'orders:' })).map(({ name }) => name)).toEqual([
      'orders:1',
      'orders:2',
    ]);
    expect(await listed({ kinds: ['semaphore'] })).toHaveLength(1);
    expect(await listed({ limit: 3 })).toHaveLength(3);
    expect(await listed({ prefix: 'o*' })).toEqual([]);
    for (const hold of holds) await hold.release();
    expect(await listed()).toEqual([]);
  });

  it('lists the locks behind the key prefix, by the names that the client gives them', async () => {
    await using prefixed = fakeHoldfast({ server, keyPrefix: 'app:' }).holdfast;
    const holds = [await client.getLock('a').acquire(), await prefixed.getLock('b').acquire()];
    const names: string[] = [];
    for await (const { name } of prefixed.list()) names.push(name);
    expect(names).toEqual(['b']);
    for (const hold of holds) await hold.release();
  });

  it.each([
    [{ prefix: 3 }, 'prefix is 3'],
    [{ kinds: [] }, 'kinds is an array of 0'],
    [{ kinds: ['mutex'] }, "kinds has 'mutex'"],
    [{ limit: 0 }, 'limit is 0'],
    [{ max: 3 }, 'have no "max"'],
  ])('refuses %j', (options, message) => {
    expect(() => client.list(options as ListOptions)).toThrow(message);
  });

  it('refuses a closed client', async () => {
    await client.close();
    await expect(listed()).rejects.toMatchObject({ code: 'CLIENT_CLOSED' });
  });
});

describe('the number of an owner', () => {
  it('grows with each call, and tells when the call began', async () => {
    const before = Date.now();
    const owners: string[] = [];
    for (let i = 0; i < 3; i++)
      await client.getLock('orders').withLock(({ ownerId }) => owners.push(ownerId));
    const numbers = owners.map((owner) => Number(owner.split(':').at(-1)));
    expect(numbers).toEqual([...numbers].sort((one, two) => one - two));
    expect(new Set(numbers).size).toBe(3);
    for (const owner of owners) expectSince(startOfOwner(owner), before);
  });

  it.each(['8743c9c0-0795-4907-87fd-6c719a6b4586:1', 'web-0123456789ab:7', 'web:-1', ''])(
    'tells nothing of %j',
    (ownerId) => {
      expect(startOfOwner(ownerId)).toBeUndefined();
    },
  );
});
