// Outside any run: every lock() is its own owner, unlock() undoes that of its own code, and a nested call triggers a warning.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { elsewhere } from '../../support/clients.js';
import { fakeHoldfast, ownerOfMe } from '../../support/fake-holdfast.js';
import { expectPending, Occupancy, settle } from '../../support/occupancy.js';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

describe('outside any run', () => {
  it('a lock() never re-enters another one: it waits', async () => {
    const { getLock } = fakeHoldfast();
    await getLock('a').lock();
    const second = elsewhere(() => getLock('a').lock());
    await expectPending(second);
    await getLock('a').unlock();
    await second;
    await elsewhere(() => getLock('a').unlock());
  });

  it('a tryLock() returns false while another call has the lock', async () => {
    const { getLock } = fakeHoldfast();
    expect(await getLock('a').tryLock()).toBe(true);
    expect(await elsewhere(() => getLock('a').tryLock())).toBe(false);
    await getLock('a').unlock();
  });

  it('20 callers that share one lock object are inside one at a time', async () => {
    const { getLock, server } = fakeHoldfast();
    const lock = getLock('a');
    const section = new Occupancy();
    await Promise.all(
      Array.from({ length: 20 }, async (_, who) => {
        await lock.lock();
        await section.inside(String(who), settle);
        await lock.unlock();
      }),
    );
    expect(section.most).toBe(1);
    expect(section.order).toHaveLength(20);
    expect(server.heldNames).toEqual([]);
  });

  it('acquire() is anonymous as well: the next one waits, and unlock() does not undo it', async () => {
    const { getLock } = fakeHoldfast();
    const hold = await getLock('a').acquire();
    expect(await getLock('a').tryLock()).toBe(false);
    await expect(elsewhere(() => getLock('a').unlock())).rejects.toThrow(
      'lock "a" cannot be unlocked: this client holds it by acquire(): call hold.release() of the hold that acquire() returned',
    );
    expect(hold.remaining()).toBeGreaterThan(0);
    await hold.release();
  });

  it('unlock() after acquire() in a run names hold.release()', async () => {
    const { getLock, run } = fakeHoldfast();
    await run(async () => {
      const hold = await getLock('a').acquire();
      await expect(getLock('a').unlock()).rejects.toThrow(
        'by acquire(), which hold.release() undoes',
      );
      await hold.release();
    });
  });

  it('unlock() does not undo a withLock()', async () => {
    const { getLock, server } = fakeHoldfast();
    await getLock('a').withLock(async () => {
      await expect(getLock('a').unlock()).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
      expect(server.holder('a')?.count).toBe(1);
    });
  });

  it('unlock() of a lock that was never locked throws an error that names it', async () => {
    const { getLock, server } = fakeHoldfast();
    await expect(getLock('orders:42').unlock()).rejects.toMatchObject({
      code: 'LOCK_NOT_HELD',
      lockName: 'orders:42',
      message: expect.stringContaining('"orders:42"') as unknown,
    });
    expect(server.commands).toEqual([]);
  });

  it('a second unlock() throws and sends nothing', async () => {
    const { getLock, server } = fakeHoldfast();
    await getLock('a').lock();
    await getLock('a').unlock();
    const { length } = server.commands;
    await expect(getLock('a').unlock()).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
    expect(server.commands).toHaveLength(length);
  });

  it('unlock() inside a run does not undo what was locked outside', async () => {
    const { getLock, run, server } = fakeHoldfast();
    await getLock('a').lock();
    await run(() => expect(getLock('a').unlock()).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' }));
    expect(server.heldNames).toEqual(['a']);
    await getLock('a').unlock();
  });

  it('unlock() undoes only what this client locked', async () => {
    const one = fakeHoldfast({ clientId: 'one' });
    const two = fakeHoldfast({ clientId: 'two', server: one.server });
    await one.getLock('a').lock();
    await expect(two.getLock('a').unlock()).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
    await one.getLock('a').unlock();
  });

  it('isHeldByCurrentOwner() and getHoldCount() show whether unlock() has something to undo', async () => {
    const { getLock, run } = fakeHoldfast();
    const lock = getLock('a');
    expect(await lock.isHeldByCurrentOwner()).toBe(false);
    await lock.lock();
    expect(await lock.isHeldByCurrentOwner()).toBe(true);
    expect(await lock.getHoldCount()).toBe(1);
    await run(async () => {
      expect(await lock.isHeldByCurrentOwner()).toBe(false);
    });
    await lock.unlock();
    expect(await lock.getHoldCount()).toBe(0);
  });
});

describe('unlock() outside any run undoes the latest lock() of its own code', () => {
  it('last in, first out: the live one first, then it reports that an earlier one was lost', async () => {
    const { getLock, server } = fakeHoldfast();
    const lock = getLock('a');
    await lock.lock(1_000);
    const first = server.holder('a')?.owner;
    await vi.advanceTimersByTimeAsync(1_001);
    await lock.lock();
    const second = server.holder('a')?.owner;
    expect(second).not.toBe(first);
    await lock.unlock();
    expect(server.heldNames).toEqual([]);
    await expect(lock.unlock()).rejects.toMatchObject({
      code: 'LOCK_LOST',
      lossReason: 'expired',
    });
    await expect(lock.unlock()).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
  });

  it('code without a lock() of its own undoes the oldest: a lost one first, then the live one', async () => {
    const { getLock, server } = fakeHoldfast();
    const lock = getLock('a');
    await elsewhere(() => lock.lock(1_000));
    await vi.advanceTimersByTimeAsync(1_001);
    await elsewhere(() => lock.lock());
    const second = server.holder('a')?.owner;
    await expect(lock.unlock()).rejects.toMatchObject({ code: 'LOCK_LOST' });
    expect(server.holder('a')?.owner).toBe(second);
    await lock.unlock();
    expect(server.heldNames).toEqual([]);
  });

  it('after a loss that was told to its own code, the live one of another is renewed', async () => {
    const { getLock, server } = fakeHoldfast();
    const lock = getLock('a');
    await lock.lock(1_000);
    await vi.advanceTimersByTimeAsync(1_001);
    await elsewhere(() => lock.lock());
    await expect(lock.unlock()).rejects.toMatchObject({ code: 'LOCK_LOST' });
    await vi.advanceTimersByTimeAsync(100_000);
    expect(server.heldNames).toEqual(['a']);
    await elsewhere(() => lock.unlock());
    expect(server.heldNames).toEqual([]);
  });

  it('after a loss that was told to other code, the live one is not: it ends with its lease at the latest', async () => {
    const { getLock, server, told } = fakeHoldfast();
    const lock = getLock('a');
    await elsewhere(() => lock.lock(1_000));
    await vi.advanceTimersByTimeAsync(1_001);
    await elsewhere(() => lock.lock());
    await vi.advanceTimersByTimeAsync(25_000);
    expect(told('renewed').length).toBeGreaterThan(0);
    await expect(lock.unlock()).rejects.toMatchObject({ code: 'LOCK_LOST' });
    const renewals = told('renewed').length;
    await vi.advanceTimersByTimeAsync(30_000);
    expect(told('renewed')).toHaveLength(renewals);
    expect(server.heldNames).toEqual([]);
    await expect(lock.unlock()).rejects.toMatchObject({ code: 'LOCK_LOST' });
    await expect(lock.unlock()).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
  });

  it('a live acquire() or withLock() of that lock is still renewed', async () => {
    const { getLock, server } = fakeHoldfast();
    const lock = getLock('a');
    await lock.lock(1_000);
    await vi.advanceTimersByTimeAsync(1_001);
    const hold = await lock.acquire();
    await expect(lock.unlock()).rejects.toMatchObject({ code: 'LOCK_LOST' });
    await vi.advanceTimersByTimeAsync(100_000);
    expect(server.heldNames).toEqual(['a']);
    await hold.release();
  });

  it('a withLock() that re-entered a live lock() is still renewed; the rest ends with its lease after it', async () => {
    const { getLock, server } = fakeHoldfast();
    const lock = getLock('a');
    await elsewhere(() => lock.lock(1_000));
    await vi.advanceTimersByTimeAsync(1_001);
    await lock.withLock(async (hold) => {
      await lock.lock();
      await elsewhere(() => expect(lock.unlock()).rejects.toMatchObject({ code: 'LOCK_LOST' }));
      await vi.advanceTimersByTimeAsync(100_000);
      expect(hold.signal.aborted).toBe(false);
    });
    expect(server.holder('a')?.count).toBe(1);
    await vi.advanceTimersByTimeAsync(30_000);
    expect(server.heldNames).toEqual([]);
    await expect(lock.unlock()).rejects.toMatchObject({ code: 'LOCK_LOST' });
  });

  it('locks of other names are not undone', async () => {
    const { getLock, server } = fakeHoldfast();
    await getLock('a').lock();
    await getLock('b').lock();
    await getLock('b').unlock();
    expect(server.heldNames).toEqual(['a']);
    await getLock('a').unlock();
  });
});

describe('a nested call outside any scope, which would wait for itself', () => {
  it('triggers a warning after 5 s: an event each time, a process warning once per name', async () => {
    const { getLock, told, processWarnings } = fakeHoldfast();
    await getLock('a').lock();
    const nested = getLock('a').tryLock(5_500);
    await vi.advanceTimersByTimeAsync(4_999);
    expect(told('warning')).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(told('warning')).toMatchObject([{ lockName: 'a', ownerId: ownerOfMe(1) }]);
    expect(told('warning')[0]?.message).toMatch(/holdfast\.run.*lock\.withLock/);
    await vi.advanceTimersByTimeAsync(510);
    expect(await nested).toBe(false);

    const again = getLock('a').tryLock(5_500);
    await vi.advanceTimersByTimeAsync(5_510);
    expect(await again).toBe(false);
    expect(told('warning')).toHaveLength(2);
    expect(processWarnings).toHaveLength(1);
    await elsewhere(() => getLock('a').unlock());
  });

  it('triggers no warning when somebody else holds the lock', async () => {
    const { getLock, told, server } = fakeHoldfast();
    server.hold('a');
    const waiting = getLock('a').tryLock(20_000);
    await vi.advanceTimersByTimeAsync(20_010);
    expect(await waiting).toBe(false);
    expect(told('warning')).toEqual([]);
  });

  it('triggers no warning when the wait was shorter', async () => {
    const { getLock, told } = fakeHoldfast();
    await getLock('a').lock();
    const waiting = getLock('a').tryLock(4_900);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(await waiting).toBe(false);
    expect(told('warning')).toEqual([]);
    await elsewhere(() => getLock('a').unlock());
  });
});
