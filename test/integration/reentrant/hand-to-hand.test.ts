// Callers of one process that want the same lock wait in one line, and each release names the next of them.
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Hold, Holdfast, Lock, ReleasedEvent } from '../../../src/index.js';
import { newClient, rejectionOf } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { expectWarnings } from '../../support/expected-warnings.js';
import { recordCommands } from '../../support/recorded-commands.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

// Callers wait for their own client, which holds the lock outside any run.
expectWarnings(/^lock ".*" has been waited for /);

let server: RedisServer;
let proxy: TcpProxy;
let admin: Redis;
let client: Holdfast;
let lock: Lock;

beforeEach(async () => {
  server = await startRedis();
  proxy = await startProxy(server.port);
  admin = new Redis(server.url);
  client = newClient({ redis: proxy.url, lockWatchdogTimeout: 6_000 });
  lock = client.getLock(uniqueName());
  await client.ping();
});

afterEach(async () => {
  await client.close();
  admin.disconnect();
  await proxy[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

/** Puts `count` callers in line behind a first one that has the lock; returns that hold and the waiting calls. */
async function queued(count: number): Promise<{ first: Hold; others: Promise<Hold>[] }> {
  const first = await lock.acquire();
  const others = Array.from({ length: count }, () => lock.acquire());
  await Promise.resolve(); // in line by then
  return { first, others };
}

describe('callers of the client that has the lock', () => {
  it('send nothing and subscribe to nothing while they wait, and acquire it in the order in which they came', async () => {
    const order: number[] = [];
    const first = await lock.acquire();
    const waiting: Promise<void>[] = [];
    const commands = await recordCommands(server.url, async () => {
      for (let index = 0; index < 40; index++)
        waiting.push(lock.withLock(() => void order.push(index)));
      await sleep(10); // a line subscribes after 100 ms of waiting, and a busy machine is late
    });
    expect(commands).toEqual([]);
    await first.release();
    await Promise.all(waiting);
    expect(order).toEqual(Array.from({ length: 40 }, (_, index) => index));
    expect(await admin.exists(lock.name)).toBe(0);
  });

  it('that lock again at once get no more turns than the others', async () => {
    const sections = new Array<number>(20).fill(0);
    let isOver = false;
    const callers = sections.map(async (_, index) => {
      while (!isOver) await lock.withLock(() => admin.incr(`${lock.name}:${index}`));
      sections[index] = Number(await admin.get(`${lock.name}:${index}`));
    });
    await eventually(async () => {
      expect(Number(await admin.get(`${lock.name}:0`))).toBeGreaterThan(20);
    }, 20_000);
    isOver = true;
    await Promise.all(callers);
    expect(Math.max(...sections) - Math.min(...sections)).toBeLessThanOrEqual(2);
    await admin.del(sections.map((_, index) => `${lock.name}:${index}`));
  });

  it('get false from tryLock() at once, without a command; and may re-enter a lock that was handed over', async () => {
    const { first, others } = await queued(2);
    const second = client.run(async () => {
      const hold = await lock.acquire();
      await lock.lock();
      expect(await admin.hvals(lock.name)).toEqual(['2']);
      await lock.unlock();
      await hold.release();
    });
    await first.release();
    for (const other of others) await (await other).release();
    await second;
    const hold = await lock.acquire();
    const commands = await recordCommands(server.url, async () => {
      expect(await lock.tryLock()).toBe(false);
    });
    expect(commands).toEqual([]);
    await hold.release();
  });
});

describe('a hand-over to a caller that gives up in that instant', () => {
  it.each([0, 1, 2, 3, 4, 5, 6, 7])(
    'goes to the next caller, %i turns after the release',
    async (turns) => {
      for (let round = 0; round < 20; round++) {
        const aborter = new AbortController();
        const first = await lock.acquire();
        const second = lock.acquire({ signal: aborter.signal });
        const third = lock.acquire();
        await sleep(1);
        const released = first.release();
        for (let turn = 0; turn < turns; turn++) await Promise.resolve();
        aborter.abort();
        await second.then((hold) => hold.release()).catch(() => undefined);
        await released;
        await (await third).release();
      }
      expect(await admin.exists(lock.name)).toBe(0);
    },
  );

  it('is a plain release when there is no next caller', async () => {
    for (let round = 0; round < 20; round++) {
      const aborter = new AbortController();
      const first = await lock.acquire();
      const second = lock.acquire({ signal: aborter.signal });
      await sleep(1);
      const released = first.release();
      for (let turn = 0; turn < round % 6; turn++) await Promise.resolve();
      aborter.abort();
      await second.then((hold) => hold.release()).catch(() => undefined);
      await released;
      await eventually(async () => {
        expect(await admin.exists(lock.name)).toBe(0);
      }, 1_000);
    }
  });
});

it('a hold that was handed over is renewed like any other', async () => {
  await using quick = newClient({ redis: server.url, lockWatchdogTimeout: 2_400 });
  const renewed: string[] = [];
  quick.on('renewed', ({ ownerId }) => renewed.push(ownerId));
  const mine = quick.getLock(lock.name);
  const first = await mine.acquire();
  const second = mine.acquire();
  await Promise.resolve(); // in line by then
  await first.release();
  const hold = await second;
  await eventually(() => {
    expect(renewed).toEqual([hold.ownerId, hold.ownerId, hold.ownerId]);
  });
  await hold.release();
});

describe('a release that hands the lock over', () => {
  it('reports how long its own hold lasted, and a hold count of 0', async () => {
    const told: ReleasedEvent[] = [];
    client.on('released', (event) => told.push(event));
    const { first, others } = await queued(1);
    await sleep(5);
    await first.release();
    await (await others[0]!).release();
    expect(told.map(({ ownerId, holdCount }) => [ownerId, holdCount])).toEqual([
      [first.ownerId, 0],
      [(await others[0]!).ownerId, 0],
    ]);
    expect(told[0]!.heldForMs).toBeGreaterThan(4);
  });

  it.each(['DEL', 'FLUSHALL', 'forceUnlock'])(
    'fails with LOCK_LOST if %s removed the lock before, and so does its successor; the callers behind them acquire it',
    async (how) => {
      const { first, others } = await queued(30);
      await using forcing = newClient({ redis: server.url, lockWatchdogTimeout: 6_000 });
      if (how === 'DEL') await admin.del(lock.name);
      else if (how === 'FLUSHALL') await admin.flushall();
      else await forcing.getLock(lock.name).forceUnlock();
      expect(await rejectionOf(first.release())).toMatchObject({ code: 'LOCK_LOST' });
      let lostCount = 0;
      for (const other of others)
        await (await other).release().catch((error: unknown) => {
          expect(error).toMatchObject({ code: 'LOCK_LOST' });
          lostCount++;
        });
      expect(lostCount).toBeLessThanOrEqual(1);
      expect(await admin.exists(lock.name)).toBe(0);
    },
  );

  it('reports that a silent Redis did not answer, and succeeds when it is repeated later', async () => {
    const { first, others } = await queued(1);
    const told: ReleasedEvent[] = [];
    client.on('released', (event) => told.push(event));
    proxy.blackhole();
    const released = rejectionOf(first.release());
    expect(await released).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
    proxy.heal();
    await eventually(async () => {
      await first.release();
    });
    expect(told).toMatchObject([{ holdCount: 0 }]); // its own, not the present holder's
    await (await others[0]!).release();
    expect(await admin.exists(lock.name)).toBe(0);
  });

  it('settles even if the client is closed meanwhile; the callers in line get ClosedError', async () => {
    const { first, others } = await queued(20);
    const released = first.release();
    const second = await others[0]!;
    const closing = client.close();
    const errors = await Promise.all(others.slice(1).map(rejectionOf));
    expect(new Set(errors.map((error) => (error as { code: string }).code))).toEqual(
      new Set(['CLIENT_CLOSED']),
    );
    await released;
    await closing;
    expect(second.signal.aborted).toBe(true);
    expect(await admin.exists(lock.name)).toBe(0);
  });
});

it('a forceUnlock() by another client is a loss for the holder, and the waiter acquires the lock long before the next renewal', async () => {
  await using patient = newClient({ redis: server.url, lockWatchdogTimeout: 120_000 });
  const mine = patient.getLock(lock.name);
  const first = await mine.acquire();
  const second = mine.acquire();
  await eventually(async () => {
    expect(await admin.pubsub('CHANNELS', `*${lock.name}*`)).toHaveLength(1);
  });
  await client.getLock(lock.name).forceUnlock();
  await (await second).release();
  expect(first.signal.reason).toMatchObject({ lossReason: 'forced' });
});

it('waits that end while a release is under way report the lock as held, not Redis as unavailable', async () => {
  const first = await lock.acquire();
  const waiting = [lock.tryLock(1_500), lock.tryLock(1_500, 5_000)];
  await sleep(1_400); // what the calls saw at first is too old by their end
  proxy.delay({ downstreamMs: 400 });
  const released = first.release();
  expect(await Promise.all(waiting)).toEqual([false, false]);
  await released;
  proxy.delay();
});

it('clients take turns: one with many callers does not shut out the others', async () => {
  await using other = newClient({ redis: server.url, lockWatchdogTimeout: 6_000 });
  const counts = { mine: 0, theirs: 0 };
  let isOver = false;
  const callers = (of: Holdfast, who: keyof typeof counts): Promise<void>[] =>
    Array.from({ length: 8 }, async () => {
      while (!isOver) {
        await of.getLock(lock.name).withLock(async () => {
          counts[who]++;
          await admin.incr(lock.name + ':n');
        });
      }
    });
  const all = [...callers(client, 'mine'), ...callers(other, 'theirs')];
  await eventually(() => {
    expect(counts.mine + counts.theirs).toBeGreaterThan(1_000);
  }, 30_000);
  isOver = true;
  await Promise.all(all);
  expect(Number(await admin.get(lock.name + ':n'))).toBe(counts.mine + counts.theirs);
  await admin.del(lock.name + ':n');
  expect(Math.min(counts.mine, counts.theirs)).toBeGreaterThan(
    0.2 * Math.max(counts.mine, counts.theirs),
  );
});
