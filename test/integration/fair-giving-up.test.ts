// Who gives up waiting for a fair lock leaves the line, also in the very moment in which it is given the lock.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Hold, Holdfast, HoldfastError } from '../../src/index.js';
import { rejectionOf } from '../support/clients.js';
import { connectedClient } from '../support/connected-client.js';
import { eventually } from '../support/eventually.js';
import { FairLine } from '../support/fair-line.js';
import { sharedConnection } from '../support/shared-connection.js';
import { startSharedProxy } from '../support/shared-proxy.js';

const OPTIONS = { lockWatchdogTimeout: 30_000 };
const ROUNDS = 100;
/** What a hand-over takes at most on a busy machine. One that got lost is found after 10 s. */
const SOON_MS = 3_000;
const TIMEOUT_MS = 90_000;

const redis = sharedConnection();
let line: FairLine;
let holder: Holdfast;
let leaver: Holdfast;
let other: Holdfast;

beforeEach(async () => {
  line = new FairLine(redis);
  holder = await connectedClient(OPTIONS);
  leaver = await connectedClient(OPTIONS);
  other = await connectedClient(OPTIONS);
});

afterEach(async () => {
  await line.isGone();
  await Promise.all([holder, leaver, other].map((client) => client.close()));
});

describe('in the instant of its grant, the next one holds the lock at once:', () => {
  it(
    'a waiter that aborts',
    async () => {
      for (let round = 0; round < ROUNDS; round++) {
        const hold = await line.lockOf(holder).acquire();
        const aborter = new AbortController();
        const leaving = line.join(leaver, 'leaver', { signal: aborter.signal });
        const { done } = await leaving;
        const next = await line.join(other, 'other');
        const releasedAt = performance.now();
        const releasing = hold.release();
        await aroundNow();
        aborter.abort();
        await soon(next.done, releasedAt);
        await Promise.all([ended(done, 'LOCK_ABORTED'), releasing]);
      }
      expect(line.turns.filter((label) => label === 'other')).toHaveLength(ROUNDS);
    },
    TIMEOUT_MS,
  );

  it(
    'a waiter whose wait is over',
    async () => {
      const wait = 60;
      for (let round = 0; round < ROUNDS; round++) {
        const hold = await line.lockOf(holder).acquire();
        const startedAt = performance.now();
        const done = line.call(leaver, 'leaver', { wait });
        const next = await line.join(other, 'other');
        await sleep(Math.max(0, startedAt + wait - 3 - performance.now()));
        await aroundNow();
        const releasedAt = performance.now();
        const releasing = hold.release();
        await soon(next.done, releasedAt);
        // The latter when a busy machine takes that long for the first try.
        await Promise.all([ended(done, 'LOCK_TIMEOUT', 'REDIS_UNAVAILABLE'), releasing]);
      }
      expect(line.turns.filter((label) => label === 'other')).toHaveLength(ROUNDS);
    },
    TIMEOUT_MS,
  );

  it(
    'a waiter whose client is closed',
    async () => {
      for (let round = 0; round < ROUNDS / 4; round++) {
        const closing = await connectedClient(OPTIONS);
        const hold = await line.lockOf(holder).acquire();
        const { done } = await line.join(closing, 'leaver');
        const next = await line.join(other, 'other');
        const releasedAt = performance.now();
        const releasing = hold.release();
        await aroundNow();
        const closed = closing.close();
        await soon(next.done, releasedAt);
        await Promise.all([ended(done, 'CLIENT_CLOSED', 'LOCK_LOST'), releasing, closed]);
      }
      expect(line.turns.filter((label) => label === 'other')).toHaveLength(ROUNDS / 4);
    },
    TIMEOUT_MS,
  );

  it(
    'many waiters that give up at random, some by abort, some by timeout',
    async () => {
      const hold = await line.lockOf(holder).acquire();
      const calls = Array.from({ length: 400 }, (_, index) => {
        const client = index % 2 === 0 ? leaver : other;
        const label = String(index);
        if (index % 8 === 0) return line.call(client, label);
        const afterMs = 200 + Math.random() * 400;
        if (index % 3 === 0) return line.call(client, label, { wait: afterMs });
        const aborter = new AbortController();
        setTimeout(() => {
          aborter.abort();
        }, afterMs);
        return line.call(client, label, { signal: aborter.signal });
      });
      await sleep(200);
      const releasedAt = performance.now();
      await hold.release();
      const all = Promise.all(
        calls.map((done, index) =>
          index % 8 === 0 ? done : ended(done, 'LOCK_ABORTED', 'LOCK_TIMEOUT', 'REDIS_UNAVAILABLE'),
        ),
      );
      await soon(all, releasedAt);
      const patient = Array.from({ length: 50 }, (_, index) => String(8 * index));
      expect(line.turns).toEqual(expect.arrayContaining(patient));
    },
    TIMEOUT_MS,
  );

  /** From the moment in which the release is sent to a little after its answer. */
  async function aroundNow(): Promise<void> {
    const untilMs = performance.now() + Math.random() * 3;
    while (performance.now() < untilMs) await new Promise(setImmediate);
  }

  async function soon(promise: Promise<unknown>, sinceMs: number): Promise<void> {
    await promise;
    expect(performance.now() - sinceMs).toBeLessThan(SOON_MS);
  }

  /** It had its turn, or it ended by one of these. */
  async function ended(done: Promise<void>, ...codes: HoldfastError['code'][]): Promise<void> {
    await done.catch((error: unknown) => {
      expect(codes).toContain((error as HoldfastError).code);
    });
  }
});

describe('long before its turn', () => {
  it('1,000 waiters that time out leave nothing of the line', async () => {
    await using hold = await line.lockOf(holder).acquire();
    const lock = line.lockOf(leaver);
    const calls = Array.from({ length: 1_000 }, () => lock.tryLock(3_000));
    await line.hasLength(1_000);
    expect(new Set(await Promise.all(calls))).toEqual(new Set([false]));
    await eventually(async () => {
      expect(await redis.exists(line.keys[1], line.keys[2])).toBe(0);
    });
    expect(await line.holder()).toBe(hold.ownerId);
  });

  it('waiters that abort leave the line, and the others keep their order', async () => {
    const hold = await line.lockOf(holder).acquire();
    const aborter = new AbortController();
    const staying = [await line.join(other, 'a')];
    const leaving = [await line.join(leaver, 'b', { signal: aborter.signal })];
    staying.push(await line.join(leaver, 'c'));
    leaving.push(await line.join(other, 'd', { signal: aborter.signal }));
    staying.push(await line.join(other, 'e'));
    aborter.abort();
    for (const { done } of leaving) {
      expect(await rejectionOf(done)).toMatchObject({ code: 'LOCK_ABORTED' });
    }
    await line.hasLength(3);
    expect(await line.owners()).toEqual(staying.map(({ ownerId }) => ownerId));
    await hold.release();
    await Promise.all(staying.map(({ done }) => done));
    expect(line.turns).toEqual(['a', 'c', 'e']);
  });

  it('a waiter behind a black hole leaves the line as soon as Redis can be reached', async () => {
    await using proxy = await startSharedProxy();
    await using unreachable = await connectedClient({ ...OPTIONS, redis: proxy.url });
    const hold = await line.lockOf(holder).acquire();
    const leaving = await line.join(unreachable, 'leaver', { wait: 2_000 });
    const next = await line.join(other, 'next');
    proxy.blackhole();
    expect(await rejectionOf(leaving.done)).toMatchObject({ code: 'LOCK_TIMEOUT' });
    expect(await line.owners()).toEqual([leaving.ownerId, next.ownerId]);
    proxy.heal();
    await eventually(async () => {
      expect(await line.owners()).toEqual([next.ownerId]);
    });
    await hold.release();
    await next.done;
  });

  it('close() of a client ends its 50 waits by ClosedError, and the line goes on with the others', async () => {
    const hold: Hold = await line.lockOf(holder).acquire();
    const calls = Array.from({ length: 50 }, () => line.call(leaver, 'closed'));
    await line.hasLength(50);
    const first = await line.join(other, 'first');
    const second = await line.join(holder, 'second');
    await leaver.close();
    for (const call of calls) {
      expect(await rejectionOf(call)).toMatchObject({ code: 'CLIENT_CLOSED', lockName: line.name });
    }
    expect(await line.owners()).toEqual([first.ownerId, second.ownerId]);
    await hold.release();
    await Promise.all([first.done, second.done]);
    expect(line.turns).toEqual(['first', 'second']);
  });
});
