// What nested calls get when the lock around them is lost.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Hold } from '../../../src/index.js';
import { fakeHoldfast, ownerOfMe } from '../../support/fake-holdfast.js';
import { gate, settle } from '../../support/occupancy.js';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

const LOST = { code: 'LOCK_LOST', lossReason: 'expired' };

it('a nested acquisition whose outer hold was lost throws LockLostError, by every kind of call', async () => {
  const { getLock, run, server } = fakeHoldfast();
  const lock = getLock('a');
  const outer = lock.withLock({ lease: 1_000 }, async () => {
    await vi.advanceTimersByTimeAsync(1_001);
    server.hold('a');
    const { length } = server.commands;
    await expect(lock.withLock(() => 1)).rejects.toMatchObject(LOST);
    await expect(lock.lock()).rejects.toMatchObject(LOST);
    await expect(lock.tryLock()).rejects.toMatchObject(LOST);
    await expect(lock.acquire()).rejects.toMatchObject(LOST);
    await expect(lock.tryAcquire()).rejects.toMatchObject(LOST);
    await run(() => expect(lock.lock()).rejects.toMatchObject(LOST));
    expect(server.commands).toHaveLength(length);
  });
  await expect(outer).rejects.toMatchObject(LOST);
});

it('calls in a run whose lock() was lost throw until its unlock(), which throws as well', async () => {
  const { getLock, run, server } = fakeHoldfast();
  const lock = getLock('a');
  await run(async () => {
    await lock.lock(1_000);
    await vi.advanceTimersByTimeAsync(1_001);
    await expect(lock.lock()).rejects.toMatchObject(LOST);
    await expect(lock.unlock()).rejects.toMatchObject(LOST);
    await expect(lock.unlock()).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
    await lock.lock();
    await lock.unlock();
  });
  expect(server.heldNames).toEqual([]);
});

it('a nested acquisition finds on the server that somebody else has the lock: taken', async () => {
  const { getLock, server, told } = fakeHoldfast();
  const lock = getLock('a');
  const outer = lock.withLock(async (hold) => {
    server.hold('a');
    await expect(lock.withLock(() => 1)).rejects.toMatchObject({ lossReason: 'taken' });
    expect(hold.signal.aborted).toBe(true);
  });
  await expect(outer).rejects.toMatchObject({ lossReason: 'taken' });
  expect(told('lost')).toHaveLength(1);
  expect(server.holder('a')?.owner).toBe('somebody-else:1');
});

it('a nested acquisition that reaches the server while the lock around it is released is not a loss: it acquires anew', async () => {
  const { getLock, server, told } = fakeHoldfast({ commandTimeout: 50 });
  const lock = getLock('a');
  server.fate = (command) => (/^(reenter|release)/.test(command) ? 'lost command' : 'answered');
  let nested: Promise<Hold> | undefined;
  const outer = lock.withLock(() => {
    nested = lock.acquire();
  });
  await vi.advanceTimersByTimeAsync(60);
  await outer;
  server.fate = () => 'answered';
  await vi.advanceTimersByTimeAsync(300);
  const hold = await nested!;
  expect(server.commands.slice(1)).toEqual([
    'release a me:1',
    'reenter a me:1 2',
    'acquire a me:2',
  ]);
  expect(hold.ownerId).toEqual(ownerOfMe(2));
  expect(told('lost')).toEqual([]);
  await hold.release();
});

it('all holds of the owner lose the lock together', async () => {
  const { getLock, server } = fakeHoldfast();
  const lock = getLock('a');
  await lock
    .withLock({ lease: 5_000 }, async (outer) => {
      await lock
        .withLock({ lease: 5_000 }, async (inner) => {
          const reasons: unknown[] = [];
          for (const { signal } of [outer, inner]) {
            signal.addEventListener('abort', () => reasons.push(signal.reason));
          }
          await vi.advanceTimersByTimeAsync(5_001);
          expect(reasons).toHaveLength(2);
          expect(reasons[0]).toBe(reasons[1]);
          expect([outer.remaining(), inner.remaining()]).toEqual([0, 0]);
        })
        .catch(() => undefined);
    })
    .catch(() => undefined);
  expect(server.heldNames).toEqual([]);
});

it("a waiter for a sibling's turn learns of the loss at once, not when the sibling is done", async () => {
  const { getLock, told } = fakeHoldfast();
  const lock = getLock('a');
  const done = gate();
  const outer = lock.withLock({ lease: 1_000 }, () =>
    Promise.all([
      lock.withLock({ lease: 500 }, () => done.opened).catch(() => undefined),
      (async () => {
        const waiting = lock.withLock(() => 1);
        const outcome = vi.fn();
        waiting.then(outcome, outcome);
        await settle();
        expect(outcome).not.toHaveBeenCalled();
        await vi.advanceTimersByTimeAsync(1_001);
        expect(told('lost')).toHaveLength(1);
        expect(outcome).toHaveBeenCalledWith(expect.objectContaining(LOST));
      })().finally(done.open),
    ]),
  );
  await expect(outer).rejects.toMatchObject(LOST);
});

it("the callback's error wins over the loss; a successful callback gets the loss", async () => {
  const { getLock } = fakeHoldfast();
  const lock = getLock('a');
  const failing = lock.withLock({ lease: 1_000 }, async () => {
    await vi.advanceTimersByTimeAsync(1_001);
    throw new Error('mine');
  });
  await expect(failing).rejects.toThrow('mine');
  const succeeding = lock.withLock({ lease: 1_000 }, () => vi.advanceTimersByTimeAsync(1_001));
  await expect(succeeding).rejects.toMatchObject(LOST);
});

it('a nested short lease does not shorten the outer one', async () => {
  const { getLock, run, server, told } = fakeHoldfast();
  const lock = getLock('a');
  await run(async () => {
    await lock.lock();
    expect(await lock.tryLock(0, 1_000)).toBe(true);
    await vi.advanceTimersByTimeAsync(100_000);
    expect(server.holder('a')?.count).toBe(2);
    await lock.unlock();
    await lock.unlock();
  });
  expect(told('lost')).toEqual([]);
});
