// The order of entry: readers together, a writer alone, first come first served over all clients.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Hold, Holdfast } from '../../../src/index.js';
import { scripts } from '../../../src/redis/scripts.generated.js';
import { eventsOf, newClient, nextEvent, sharedConnection } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { TestReadWriteLock } from '../../support/weighted-locks.js';
import { recordCommands } from '../../support/recorded-commands.js';
import { startRedis } from '../../support/redis-server.js';
import { Redis } from 'ioredis';

const redis = sharedConnection();
let one: Holdfast;
let two: Holdfast;

beforeEach(async () => {
  [one, two] = [
    newClient({ lockWatchdogTimeout: 30_000 }),
    newClient({ lockWatchdogTimeout: 30_000 }),
  ];
  await Promise.all([one.ping(), two.ping()]);
});

afterEach(async () => {
  await Promise.all([one.close(), two.close()]);
});

describe('over several clients', () => {
  it('callers enter in the order in which they came, and adjacent readers enter together', async () => {
    const lock = new TestReadWriteLock(redis);
    const first = await lock.readLock(one).acquire();
    const order: string[] = [];
    const holds: Record<string, Promise<Hold>> = {};
    for (const who of ['W1', 'r2', 'r3', 'W4', 'W5', 'r6']) {
      const client = Number(who[1]) % 2 === 0 ? two : one;
      const { hold } = await lock.join(client, who.startsWith('W') ? 'write' : 'read');
      holds[who] = hold.then((acquired) => (order.push(who), acquired));
    }
    const free = async (who: string): Promise<void> => (await holds[who])!.release();
    const entered = async (expected: RegExp): Promise<void> => {
      await eventually(() => {
        expect(order.join(' ')).toMatch(expected);
      });
      await sleep(50);
      expect(order.join(' ')).toMatch(expected); // and nobody else
    };
    expect(await lock.readLock(two).tryLock()).toBe(false); // nobody overtakes
    await first.release();
    await entered(/^W1$/);
    await free('W1');
    await entered(/^W1 (r2 r3|r3 r2)$/);
    await free('r3');
    await entered(/^W1 (r2 r3|r3 r2)$/);
    await free('r2');
    await entered(/W4$/);
    await free('W4');
    await entered(/W5$/);
    await free('W5');
    await entered(/r6$/);
    await free('r6');
    await lock.isGone();
  });

  it('a writer that gives up lets the readers behind it join the present readers', async () => {
    const lock = new TestReadWriteLock(redis);
    const read = await lock.readLock(one).acquire();
    const aborter = new AbortController();
    const { hold: write } = await lock.join(two, 'write', { signal: aborter.signal });
    const { hold: behind } = await lock.join(one, 'read');
    await sleep(300); // all listen, and poll only after 10 s
    aborter.abort();
    await expect(write).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
    const gaveUpAtMs = performance.now();
    const letIn = await behind;
    expect(performance.now() - gaveUpAtMs).toBeLessThan(5_000);
    await letIn.release();
    await read.release();
    await lock.isGone();
  });

  it('a writer that dies is passed over when its lease ends', async () => {
    const lock = new TestReadWriteLock(redis);
    const dead = await lock.writeLock(one).acquire({ lease: 400 });
    const beganAtMs = performance.now();
    const read = await lock.readLock(two).acquire();
    expect(performance.now() - beganAtMs).toBeLessThan(5_000); // without it, it would poll after 10 s
    expect(dead.signal.aborted).toBe(true);
    await read.release();
    await lock.isGone();
  });

  it('a waiter learns who is in the way', async () => {
    const lock = new TestReadWriteLock(redis);
    await lock.writeLock(one).withLock(async ({ ownerId }) => {
      for (const half of [lock.readLock(two), lock.writeLock(two)])
        // For less than a second: one answer is enough.
        await expect(half.acquire({ wait: 800 })).rejects.toMatchObject({
          code: 'LOCK_TIMEOUT',
          holder: ownerId,
        });
    });
    await lock.isGone();
  });
});

it('40 readers of two clients enter in one hand-over', async () => {
  await using server = await startRedis();
  const own = new Redis(server.url);
  const clients = [1, 2].map(() => newClient({ redis: server.url, lockWatchdogTimeout: 30_000 }));
  const lock = new TestReadWriteLock(own);
  const write = await lock.writeLock(clients[0]!).acquire();
  const reads = Array.from({ length: 40 }, (_, index) =>
    lock.readLock(clients[index % 2]!).acquire(),
  );
  await lock.hasLength(40);
  await sleep(100); // all are where they receive messages
  const commands = await recordCommands(server.url, async () => {
    const beganAtMs = performance.now();
    await write.release();
    await Promise.all(reads);
    expect(performance.now() - beganAtMs).toBeLessThan(5_000); // without it, they would poll after 10 s
  });
  const handOvers = commands.filter(
    ({ name, args, byScript }) =>
      !byScript && name === 'EVALSHA' && args[0] === scripts.weightedHandOver.sha1,
  );
  expect(handOvers).toHaveLength(1);
  const messages = commands.filter(({ name }) => name === 'PUBLISH').length;
  expect(messages).toBeGreaterThan(0);
  expect(messages).toBeLessThanOrEqual(2); // one for each client
  expect(await lock.held()).toBe('R'.repeat(40));
  await Promise.all(reads.map(async (hold) => (await hold).release()));
  await lock.isGone();
  await Promise.all(clients.map((client) => client.close()));
  own.disconnect();
});

it('a writer among 50 readers that never pause enters before any of them enters twice more', async () => {
  const lock = new TestReadWriteLock(redis);
  let isOver = false;
  const reading = Array.from({ length: 50 }, async (_, index) => {
    const half = lock.readLock(index % 2 === 0 ? one : two);
    let reads = 0;
    while (!isOver) {
      await half.withLock(() => sleep(Math.random() * 5));
      reads++;
    }
    return reads;
  });
  await sleep(200);
  const writer = newClient({ lockWatchdogTimeout: 30_000 });
  const writes = 20;
  for (let write = 0; write < writes; write++) {
    const entered = [eventsOf(one, 'acquired'), eventsOf(two, 'acquired')];
    const waiting = nextEvent(writer, 'waiting');
    const acquiring = lock.writeLock(writer).acquire();
    await waiting; // with 50 readers somebody is always inside
    const before = entered.map(({ length }) => length);
    const held = await acquiring;
    const since = entered.map(({ length }, index) => length - before[index]!);
    expect(since[0]! + since[1]!).toBeLessThanOrEqual(50); // those whose answers were under way
    await held.release();
  }
  isOver = true;
  const counts = await Promise.all(reading);
  expect(Math.min(...counts)).toBeGreaterThan(1);
  await lock.isGone();
  await writer.close();
}, 60_000);
