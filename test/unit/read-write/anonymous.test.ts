// A read-write lock outside any run: each call is an owner of its own, and unlock() undoes what its own half locked.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { elsewhere } from '../../support/clients.js';
import { fakeReadWrite } from '../../support/fake-holdfast.js';
import { expectPending, settle } from '../../support/occupancy.js';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

const notHeld = { code: 'LOCK_NOT_HELD', lockName: 'a' };

describe('outside any run', () => {
  it('several lock() calls read at the same time, and as many unlock() calls free the lock', async () => {
    const { readLock, writeLock, there } = fakeReadWrite();
    await readLock.lock();
    await readLock.lock();
    expect(there.held).toBe('RR');
    expect(await writeLock.tryLock()).toBe(false);
    await readLock.unlock();
    expect(there.held).toBe('R');
    await readLock.unlock();
    expect(there.held).toBe('');
    await expect(readLock.unlock()).rejects.toMatchObject(notHeld);
  });

  it('unlock() of one half does not undo what the other locked', async () => {
    const { readLock, writeLock, run, there } = fakeReadWrite();
    await readLock.lock();
    await expect(writeLock.unlock()).rejects.toMatchObject(notHeld);
    await readLock.unlock();
    await writeLock.lock();
    await expect(readLock.unlock()).rejects.toMatchObject(notHeld);
    await writeLock.unlock();
    await run(async () => {
      await writeLock.lock();
      await expect(readLock.unlock()).rejects.toMatchObject(notHeld);
      await readLock.lock();
      await writeLock.unlock();
      await expect(writeLock.unlock()).rejects.toMatchObject(notHeld);
      await readLock.unlock();
    });
    expect(there.held).toBe('');
  });

  it('unlock() of other code undoes the read lock that ends first, so that no reader has less than it asked for', async () => {
    const { readLock, there } = fakeReadWrite();
    await readLock.lock();
    await readLock.lock(20_000);
    await readLock.lock(10_000);
    await readLock.lock();
    const left: string[] = [];
    for (let unlocks = 0; unlocks < 4; unlocks++) {
      await elsewhere(() => readLock.unlock());
      left.push(there.owners.join(' '));
    }
    expect(left).toEqual(['me:1 me:2 me:4', 'me:1 me:4', 'me:4', '']);
  });

  it('unlock() undoes the latest read lock of its own code', async () => {
    const { readLock, there } = fakeReadWrite();
    await readLock.lock();
    await elsewhere(() => readLock.lock(10_000));
    await readLock.lock(20_000);
    await readLock.unlock();
    expect(there.owners).toEqual(['me:1', 'me:2']);
    await readLock.unlock();
    expect(there.owners).toEqual(['me:2']);
    await expect(readLock.unlock()).rejects.toMatchObject(notHeld);
    await elsewhere(() => readLock.unlock());
  });

  it('a lost read lock is reported by the next unlock() of a read lock, not of the write lock', async () => {
    const { readLock, writeLock, there } = fakeReadWrite();
    await readLock.lock(5_000);
    await vi.advanceTimersByTimeAsync(6_000);
    there.delete();
    await writeLock.lock();
    await writeLock.unlock();
    await expect(readLock.unlock()).rejects.toMatchObject({ code: 'LOCK_LOST' });
    await expect(readLock.unlock()).rejects.toMatchObject(notHeld);
  });

  it('a nested call that waits for itself triggers a warning after 5 s, whichever half it wants', async () => {
    const { readLock, writeLock, told } = fakeReadWrite();
    await readLock.lock();
    const writes = writeLock.lock();
    const reads = readLock.lock(); // behind the writer
    await expectPending(reads);
    await vi.advanceTimersByTimeAsync(5_100);
    expect(told('warning')).toMatchObject([
      { lockName: 'a', message: expect.stringContaining('holdfast.run') as unknown },
      { lockName: 'a', message: expect.stringContaining('LockUpgradeError') as unknown },
    ]);
    await elsewhere(() => readLock.unlock());
    await writes;
    await writeLock.unlock();
    await reads;
    await readLock.unlock();
  });

  it("a read wait that ends names what is in the way; this client's own readers are not", async () => {
    const { readLock, writeLock, there, server } = fakeReadWrite();
    await readLock.lock();
    const writes = writeLock.lock();
    await settle();
    const behind = expect(readLock.acquire({ wait: 2_000 })).rejects.toMatchObject({
      code: 'REDIS_UNAVAILABLE',
    });
    await settle();
    server.travel = () => new Promise(() => undefined);
    await vi.advanceTimersByTimeAsync(2_200);
    await behind;
    server.travel = () => Promise.resolve();
    there.delete();
    void writes;
  });
});

describe('unlock() of the wrong half', () => {
  it('reports which half is not held, in a run and outside', async () => {
    const { readLock, writeLock, run } = fakeReadWrite();
    const notOf = (half: string): object => ({
      ...notHeld,
      message: expect.stringContaining(`lock() or tryLock() of the ${half} lock`) as unknown,
    });
    await readLock.lock();
    await expect(writeLock.unlock()).rejects.toMatchObject(notOf('write'));
    await readLock.unlock();
    await run(async () => {
      await readLock.lock();
      await expect(writeLock.unlock()).rejects.toMatchObject(notOf('write'));
      await readLock.unlock();
    });
    const around = expect.stringContaining('held around this call') as unknown;
    await writeLock.withLock(async () => {
      await expect(readLock.unlock()).rejects.toMatchObject(notOf('read'));
      await run(async () => {
        await expect(writeLock.unlock()).rejects.toMatchObject({ ...notHeld, message: around });
      });
    });
  });
});

describe('the state of a half', () => {
  it('is that of the readers, or of the writer', async () => {
    const { readLock, writeLock } = fakeReadWrite();
    const look = async (): Promise<unknown> => [
      await readLock.isLocked(),
      await writeLock.isLocked(),
      await readLock.getHoldCount(),
      await writeLock.getHoldCount(),
      (readLock.toJSON() as { state: string }).state,
      (writeLock.toJSON() as { state: string }).state,
    ];
    const held = 'held by this client';
    await readLock.withLock(async () => {
      expect(await look()).toEqual([true, false, 1, 0, held, `not ${held}`]);
    });
    await writeLock.withLock(async () => {
      expect(await look()).toEqual([false, true, 0, 1, `not ${held}`, held]);
      await readLock.withLock(async () => {
        expect(await look()).toEqual([false, true, 1, 1, held, held]);
      });
    });
  });

  it('changes by forceUnlock(), which removes all readers or the writer, and notifies those of this client at once', async () => {
    const { readLock, writeLock, there, server } = fakeReadWrite();
    const holds = [await readLock.acquire(), await readLock.acquire()];
    await fakeReadWrite({ server }).readLock.lock(); // of another client
    expect(await writeLock.forceUnlock()).toBe(false);
    expect(await readLock.forceUnlock()).toBe(true);
    expect(holds.map(({ signal }) => signal.reason as unknown)).toMatchObject([
      { lossReason: 'forced' },
      { lossReason: 'forced' },
    ]);
    expect(there.held).toBe('');
    const write = await writeLock.acquire();
    expect(await readLock.forceUnlock()).toBe(false);
    expect(await writeLock.forceUnlock()).toBe(true);
    expect(write.signal.aborted).toBe(true);
  });
});
