// Waiting inside a process: for a sibling's turn, with limits and signals, and in line when it may re-enter instead.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { fakeHoldfast, ownerOfMe } from '../../support/fake-holdfast.js';
import { expectPending, gate, settle } from '../../support/occupancy.js';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

describe('while a sibling is inside', () => {
  it('wait 0 returns false at once and sends nothing', async () => {
    const { getLock, run, server } = fakeHoldfast();
    const lock = getLock('a');
    const done = gate();
    await lock.withLock(async () => {
      const sibling = lock.withLock(() => done.opened);
      await settle();
      const { length } = server.commands;
      expect(await lock.tryAcquire()).toBeUndefined();
      await expect(lock.withLock({ wait: 0 }, () => 1)).rejects.toMatchObject({
        code: 'LOCK_TIMEOUT',
      });
      await run(async () => {
        expect(await lock.tryLock()).toBe(false);
      });
      expect(server.commands).toHaveLength(length);
      done.open();
      await sibling;
      expect(await lock.tryLock()).toBe(true);
      await lock.unlock();
    });
  });

  it('a wait that ends is a LockTimeoutError, and the next in line has the turn', async () => {
    const { getLock, server } = fakeHoldfast();
    const lock = getLock('a');
    const done = gate();
    await lock.withLock(async () => {
      const sibling = lock.withLock(() => done.opened);
      const short = lock.withLock({ wait: 500 }, () => 'short');
      const patient = lock.withLock(() => 'patient');
      const refused = expect(short).rejects.toMatchObject({
        code: 'LOCK_TIMEOUT',
        holder: ownerOfMe(1),
      });
      await vi.advanceTimersByTimeAsync(510);
      await refused;
      await expectPending(patient);
      done.open();
      expect(await patient).toBe('patient');
      await sibling;
    });
    expect(server.heldNames).toEqual([]);
  });

  it('an abort ends the wait with its reason, and leaves nothing behind', async () => {
    const { getLock, server, holdfast } = fakeHoldfast();
    const lock = getLock('a');
    const done = gate();
    await lock.withLock(async () => {
      const sibling = lock.withLock(() => done.opened);
      await settle();
      const aborter = new AbortController();
      const waiting = lock.withLock({ signal: aborter.signal }, () => 1);
      await expectPending(waiting);
      aborter.abort('enough');
      await expect(waiting).rejects.toMatchObject({ code: 'LOCK_ABORTED', cause: 'enough' });
      done.open();
      await sibling;
      await lock.withLock(() => 1);
    });
    expect(server.heldNames).toEqual([]);
    await holdfast.close();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('a waiting event names the holder', async () => {
    const { getLock, told } = fakeHoldfast();
    const lock = getLock('a');
    await lock.withLock((outer) =>
      Promise.all([lock.withLock(settle), lock.withLock(settle)]).then(() => {
        expect(told('waiting')).toMatchObject([{ lockName: 'a', holder: outer.ownerId }]);
      }),
    );
  });
});

describe('an ancestor that ends while one of its children waits', () => {
  it('makes the waiter start again, as a new owner once the sibling is out', async () => {
    const { getLock, run, server } = fakeHoldfast();
    const lock = getLock('a');
    const done = gate();
    const owners: string[] = [];
    await run(async () => {
      await lock.lock();
      const sibling = lock.withLock((hold) => {
        owners.push(hold.ownerId);
        return done.opened;
      });
      const waiting = lock.withLock((hold) => void owners.push(hold.ownerId));
      await settle();
      await lock.unlock();
      await expectPending(waiting);
      done.open();
      await Promise.all([sibling, waiting]);
    });
    expect(owners).toHaveLength(2);
    expect(owners[0]).not.toBe(owners[1]);
    expect(server.heldNames).toEqual([]);
  });

  it('makes a nested acquisition that comes too late start anew', async () => {
    const { getLock, run, server } = fakeHoldfast();
    const lock = getLock('a');
    await run(async () => {
      await lock.lock();
      await Promise.all([lock.unlock(), lock.lock()]);
      expect(server.holder('a')?.count).toBe(1);
      await lock.unlock();
    });
    expect(server.heldNames).toEqual([]);
  });

  it('makes a nested acquisition start anew if the last hold ends while a child is still inside', async () => {
    const { getLock, run, server } = fakeHoldfast();
    const lock = getLock('a');
    await run(async () => {
      await lock.lock();
      const done = gate();
      const child = lock.withLock(() => done.opened);
      await settle();
      const both = Promise.all([lock.unlock(), lock.lock()]);
      await settle();
      done.open();
      await Promise.all([child, both]);
      expect(server.holder('a')?.count).toBe(1);
      await lock.unlock();
    });
    expect(server.heldNames).toEqual([]);
  });
});

describe('a branch in line when its own run gets the lock', () => {
  it('re-enters instead of waiting for its own run', async () => {
    const { getLock, run, server } = fakeHoldfast();
    const lock = getLock('a');
    server.hold('a');
    await run(async () => {
      const locked = lock.lock();
      await settle();
      const branch = lock.withLock(() => server.holder('a')?.count);
      await settle();
      server.free('a');
      await locked;
      expect(await branch).toBe(2);
      await lock.unlock();
    });
    expect(server.heldNames).toEqual([]);
    await vi.advanceTimersByTimeAsync(30_000); // a subscription is kept a little while
    expect(server.listenerCount('a')).toBe(0);
  });

  it("and then waits for a sibling's turn does not delay those in line behind it", async () => {
    const { getLock, run, server, detach } = fakeHoldfast();
    const lock = getLock('a');
    server.hold('a');
    const done = gate();
    await run(async () => {
      const locked = lock.lock();
      await settle();
      const branches = [1, 2].map(() => lock.withLock(() => done.opened));
      const stranger = detach(() => lock.withLock(() => 'in'));
      const settled = Promise.allSettled(branches);
      await settle();
      server.free('a');
      await locked;
      await settle();
      server.free('a'); // somebody forced it
      await settle();
      await vi.advanceTimersByTimeAsync(1_000);
      expect(await stranger).toBe('in');
      done.open();
      await settled;
      await lock.unlock().catch(() => undefined);
    });
  });
});
