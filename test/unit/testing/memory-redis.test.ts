// What a server in memory can be made to do, and what it shows.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  Holdfast,
  LockLostError,
  OptionError,
  type QuorumError,
  UnavailableError,
  type HoldfastOptions,
} from '../../../src/index.js';
import { MemoryRedis, type MemoryRedisOptions } from '../../../src/testing/memory-redis.js';
import { eventsOf, nextEvent, rejectionOf } from '../../support/clients.js';

let redis: MemoryRedis;
const clients: Holdfast[] = [];

function newClient(options: Partial<HoldfastOptions> = {}): Holdfast {
  const client = new Holdfast({ redis, ...options });
  client.on('error', () => undefined);
  clients.push(client);
  return client;
}

/** The server of the tests of the current group. */
function onServer(options?: MemoryRedisOptions): void {
  beforeEach(() => {
    redis = new MemoryRedis(options);
  });
}

afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()));
});

describe('a MemoryRedis', () => {
  onServer();

  it('is shared by the clients that it is given to, and by no others', async () => {
    const [one, two] = [newClient(), newClient()];
    await using elsewhere = new Holdfast({ redis: new MemoryRedis() });
    await one.getLock('report').lock();
    expect(await two.getLock('report').tryLock()).toBe(false);
    expect(await elsewhere.getLock('report').tryLock()).toBe(true);
  });

  it('wakes waiters of another client', async () => {
    const hold = await newClient().getLock('report').acquire();
    const other = newClient({ lockWatchdogTimeout: 60_000 });
    const waiting = nextEvent(other, 'waiting');
    const acquiring = other.getLock('report').acquire();
    await waiting;
    await hold.release();
    expect((await acquiring).signal.aborted).toBe(false);
  });

  it('has a name that tells it from others in errors', async () => {
    const servers = [redis, ...[1, 2].map(() => new MemoryRedis({ timeOf: redis }))];
    const locks = servers.map((server) => newClient({ redis: server }).getLock('report'));
    const lock = clients[0]!.getRedLock(...locks);
    await (await lock.acquire()).release();
    for (const server of servers.slice(1)) server.down();
    const { nodes } = (await rejectionOf(lock.tryAcquire())) as QuorumError;
    expect(new Set(nodes.map(({ node }) => node)).size).toBe(3);
    for (const server of servers) server.up();
    await redis.advance(2_000);
  });

  it('serves many programs that wait for one lock before their time is over', async () => {
    const hold = await newClient().getLock('report').acquire();
    const inTurn = Array.from({ length: 100 }, () =>
      newClient()
        .getLock('report')
        .withLock({ wait: 30_000 }, () => undefined),
    );
    const served = Promise.all(inTurn);
    await redis.advance(1_000);
    await hold.release();
    await redis.advance(4_000);
    await served;
    expect(redis.keys()).toEqual([]);
  }, 30_000); // a hundred programs take seconds on a busy machine

  it('accepts names that are not ASCII', async () => {
    const semaphore = newClient({ clientId: 'ü€' }).getSemaphore('größe \u{1f600}', { permits: 2 });
    await semaphore.acquire();
    await semaphore.acquire();
    expect(redis.holders('größe \u{1f600}')).toHaveLength(2);
    expect(redis.holders('grosse')).toEqual([]);
  });

  it('answers ping()', async () => {
    expect(await newClient().ping()).toBeGreaterThanOrEqual(0);
  });

  it('lets a timer stop the loop of a test that never pauses', async () => {
    const lock = newClient().getLock('report');
    const over = AbortSignal.timeout(20);
    while (!over.aborted) await lock.withLock(() => undefined);
    expect(await lock.isLocked()).toBe(false);
  });
});

describe('MemoryRedis.holders() and keys()', () => {
  onServer();

  it('show the holder of a lock, how often it holds it, and for how long', async () => {
    const client = newClient();
    expect(redis.holders('report')).toEqual([]);
    await client.getLock('report').withLock({ lease: 5_000 }, async (hold) => {
      const { ownerId } = hold;
      const [holder] = redis.holders('report');
      expect(holder).toMatchObject({ ownerId, count: 1, access: undefined });
      expect(holder?.remaining).toBeGreaterThan(4_000);
      expect(holder?.remaining).toBeLessThanOrEqual(5_000);
      await client.getLock('report').withLock(() => {
        expect(redis.holders('report')).toMatchObject([{ ownerId, count: 2 }]);
      });
    });
    expect(redis.holders('report')).toEqual([]);
  });

  it.each([
    ['fair', (client: Holdfast) => client.getFairLock('report')],
    ['fenced', (client: Holdfast) => client.getFencedLock('report')],
  ])('show a %s lock', async (_kind, lockOf) => {
    const hold = await lockOf(newClient()).acquire();
    expect(redis.holders('report')).toMatchObject([{ ownerId: hold.ownerId, count: 1 }]);
  });

  it('show the permits of a semaphore, and no longer those whose lease has ended', async () => {
    const semaphore = newClient().getSemaphore('report', { permits: 5 });
    const [one, two] = [
      await semaphore.acquire({ permits: 3 }),
      await semaphore.acquire({ lease: 1_000 }),
    ];
    expect(redis.holders('report')).toMatchObject([
      { ownerId: one.ownerId, count: 3 },
      { ownerId: two.ownerId, count: 1 },
    ]);
    await redis.advance(2_000);
    expect(redis.holders('report')).toMatchObject([{ ownerId: one.ownerId }]);
  });

  it('show readers and writers', async () => {
    const lock = newClient().getReadWriteLock('report');
    const readers = [await lock.readLock().acquire(), await lock.readLock().acquire()];
    expect(redis.holders('report')).toMatchObject(
      readers.map(({ ownerId }) => ({ ownerId, count: 1, access: 'read' })),
    );
    await Promise.all(readers.map((reader) => reader.release()));
    const { ownerId } = await lock.writeLock().acquire();
    expect(redis.holders('report')).toMatchObject([{ ownerId, count: 1, access: 'write' }]);
  });

  it('show all keys', async () => {
    expect(redis.keys()).toEqual([]);
    const hold = await newClient({ keyPrefix: 'app:' }).getFencedLock('report').acquire();
    expect(redis.keys()).toEqual(['app:report', 'redisson_lock_token:{app:report}']);
    expect(redis.holders('app:report')).toMatchObject([{ ownerId: hold.ownerId }]);
    await hold.release();
    expect(redis.keys()).toEqual(['redisson_lock_token:{app:report}']);
    await redis.advance(8 * 86_400_000);
    expect(redis.keys()).toEqual([]);
  });
});

describe('MemoryRedis.down() and up()', () => {
  onServer();

  it('keep clients away until the server is up again with all its data', async () => {
    const client = newClient();
    const hold = await client.getLock('report').acquire();
    redis.down();
    const error = await rejectionOf(client.getLock('page').tryLock());
    expect(error).toBeInstanceOf(UnavailableError);
    expect((error as Error).message).toContain('ECONNREFUSED');
    const recovered = nextEvent(client, 'recovered');
    redis.up();
    await redis.advance(2_000);
    await recovered;
    expect(redis.holders('report')).toMatchObject([{ ownerId: hold.ownerId }]);
    await hold.release();
    expect(redis.keys()).toEqual([]);
  });
});

describe('MemoryRedis.loseReplies()', () => {
  onServer();

  it('runs a script whose reply never comes: its caller asks again', async () => {
    const client = newClient();
    await client.ping();
    redis.loseReplies();
    const acquiring = client.getLock('report').acquire();
    await redis.advance(100);
    const { ownerId } = await acquiring;
    expect(redis.holders('report')).toMatchObject([{ ownerId, count: 1 }]);
  });

  it('loses as many replies as requested, and none after 0', async () => {
    const client = newClient();
    const hold = await client.getLock('report').acquire();
    redis.loseReplies(2);
    const releasing = hold.release();
    await redis.advance(3_000);
    await releasing;
    redis.loseReplies(5);
    redis.loseReplies(0);
    expect(await client.getLock('report').tryLock()).toBe(true);
  });
});

describe('MemoryRedis.delay()', () => {
  onServer();

  it('delays every answer, and keeps their order', async () => {
    const client = newClient();
    await client.ping();
    redis.delay(250);
    const answered: string[] = [];
    const first = client
      .getLock('a')
      .tryLock()
      .then(() => answered.push('a'));
    const second = client
      .getLock('b')
      .tryLock()
      .then(() => answered.push('b'));
    await redis.advance(400);
    expect(answered).toEqual([]);
    redis.delay(0);
    await redis.advance(200);
    await Promise.all([first, second]);
    expect(answered).toEqual(['a', 'b']);
  });

  it('keeps no process alive for answers on their way to a closed client', async () => {
    const timers = (): number =>
      process.getActiveResourcesInfo().filter((type) => type === 'Timeout').length;
    const before = timers();
    const client = newClient();
    await client.ping();
    redis.delay(60_000);
    const asked = rejectionOf(client.ping());
    expect(timers()).toBeGreaterThan(before);
    await client.close();
    await asked;
    expect(timers()).toBeLessThanOrEqual(before); // those of earlier files may have ended
    redis.delay(0);
  });

  it('makes a server silent that is slower than a client waits', async () => {
    const client = newClient({ commandTimeout: 500 });
    await client.ping();
    redis.delay(10_000);
    const trying = rejectionOf(client.getLock('report').tryLock());
    await redis.advance(1_000);
    expect(await trying).toBeInstanceOf(UnavailableError);
    redis.delay(0);
  });
});

describe('MemoryRedis.restart()', () => {
  onServer();

  it('keeps the locks unless it is empty', async () => {
    const client = newClient();
    const hold = await client.getLock('report').acquire();
    redis.restart();
    await redis.advance(60_000);
    expect(hold.signal.aborted).toBe(false);
    const lost = eventsOf(client, 'lost');
    redis.restart({ empty: true });
    expect(redis.keys()).toEqual([]);
    await redis.advance(30_000);
    expect(lost).toMatchObject([{ lockName: 'report', lossReason: 'deleted' }]);
    expect(hold.signal.reason).toBeInstanceOf(LockLostError);
  });

  it('brings back a server that was down', async () => {
    const client = newClient();
    await client.ping();
    redis.down();
    redis.restart();
    await redis.advance(2_000);
    expect(await client.getLock('report').tryLock()).toBe(true);
  });

  it('leaves a server that a fenced Redlock does not trust yet', async () => {
    const members = [redis, ...[1, 2].map(() => new MemoryRedis({ timeOf: redis }))];
    const locks = members.map((member) => {
      const client = newClient({ redis: member });
      return client.getFencedLock('report');
    });
    const lock = clients[0]!.getRedLock(...locks);
    await (await lock.acquire()).release();
    for (const member of members) member.restart({ empty: true });
    await redis.advance(3_000);
    expect(await rejectionOf(lock.tryAcquire())).toMatchObject({ code: 'NO_QUORUM' });
    await redis.advance(60_000);
    expect((await lock.acquire()).token).toBeGreaterThan(0n);
  });
});

describe('MemoryRedis.failover()', () => {
  onServer({ replicas: 1 });

  it('loses the newest writes, so that a lock is free although its holder relies on it', async () => {
    const client = newClient();
    const kept = await client.getLock('kept').acquire();
    const lost = await client.getLock('lost').acquire();
    redis.failover({ lose: 1 });
    expect(redis.holders('kept')).toMatchObject([{ ownerId: kept.ownerId }]);
    expect(redis.holders('lost')).toEqual([]);
    expect(await newClient().getLock('lost').tryLock()).toBe(true);
    await redis.advance(30_000);
    expect(lost.signal.reason).toMatchObject({ lossReason: 'taken' });
    expect(kept.signal.aborted).toBe(false);
  });

  it('brings back what the lost writes have changed', async () => {
    const client = newClient();
    const semaphore = client.getSemaphore('report', { permits: 3 });
    const [one, two] = [await semaphore.acquire(), await semaphore.acquire()];
    await one.release();
    await two.release();
    expect(redis.holders('report')).toEqual([]);
    redis.failover({ lose: 2 });
    expect(redis.holders('report').map(({ ownerId }) => ownerId)).toEqual([
      one.ownerId,
      two.ownerId,
    ]);
  });

  it('loses nothing unless replicas lag', async () => {
    const client = newClient();
    await client.getLock('old').lock();
    redis.failover();
    await redis.advance(1_000);
    redis.lag(500);
    await client.getLock('young').lock();
    redis.failover();
    expect(redis.holders('old')).toHaveLength(1);
    expect(redis.holders('young')).toHaveLength(0);
  });

  it('keeps what a replica has acknowledged', async () => {
    const careful = newClient({ replicas: 1 });
    redis.lag(50);
    const acquiring = careful.getLock('report').acquire();
    await redis.advance(200);
    const { ownerId } = await acquiring;
    redis.failover();
    expect(redis.holders('report')).toMatchObject([{ ownerId }]);
  });

  it('undoes an acquisition that no replica acknowledges in time', async () => {
    const careful = newClient({ replicas: 1, commandTimeout: 1_000 });
    await careful.ping();
    redis.lag(60_000);
    const trying = rejectionOf(careful.getLock('report').tryLock());
    await redis.advance(3_000);
    expect(String(await trying)).toContain('0 of 1 replicas acknowledged it');
    expect(redis.holders('report')).toEqual([]);
  });
});

describe('a misused MemoryRedis', () => {
  onServer();

  it.each<[string, () => unknown]>([
    ['unknown options', () => new MemoryRedis({ replica: 1 } as object)],
    ['replicas', () => new MemoryRedis({ replicas: -1 })],
    ['timeOf', () => new MemoryRedis({ timeOf: new Map() as unknown as MemoryRedis })],
    ['advance()', () => redis.advance(-1)],
    ['advance() of no number', () => redis.advance('1' as unknown as number)],
    [
      'delay()',
      () => {
        redis.delay(NaN);
      },
    ],
    [
      'loseReplies()',
      () => {
        redis.loseReplies(1.5);
      },
    ],
    [
      'lag() without a replica',
      () => {
        redis.lag(10);
      },
    ],
    [
      'failover() without a replica',
      () => {
        redis.failover();
      },
    ],
    [
      'failover()',
      () => {
        new MemoryRedis({ replicas: 1 }).failover({ lose: 1_001 });
      },
    ],
    [
      'restart()',
      () => {
        redis.restart({ empty: 1 } as object);
      },
    ],
    ['holders()', () => redis.holders('')],
  ])('reports what is wrong with %s', async (_what, call) => {
    await expect(Promise.resolve().then(call)).rejects.toBeInstanceOf(OptionError);
  });
});
