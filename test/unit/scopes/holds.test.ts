// A hold is a capability: any code may release it, and the callback of hold.run() is inside it.
import { AsyncResource } from 'node:async_hooks';
import { describe, expect, it } from 'vitest';
import { fakeHoldfast } from '../../support/fake-holdfast.js';
import { Occupancy, settle } from '../../support/occupancy.js';

describe('a hold passed to another asynchronous context', () => {
  it('is released from outside the run that acquired it', async () => {
    const { getLock, run, detach, server, told } = fakeHoldfast();
    await run(async () => {
      const hold = await getLock('a').acquire();
      await detach(() => hold.release());
      expect(server.heldNames).toEqual([]);
    });
    expect(told('warning')).toEqual([]);
  });

  it('is released from within another run, which did not hold it', async () => {
    const { getLock, run, server } = fakeHoldfast();
    const hold = await getLock('a').acquire();
    await run(async () => {
      expect(await getLock('a').isHeldByCurrentOwner()).toBe(false);
      await hold.release();
    });
    expect(server.heldNames).toEqual([]);
  });

  it('makes a foreign context its holder by hold.run()', async () => {
    const { getLock, server } = fakeHoldfast();
    const foreign = new AsyncResource('foreign');
    const hold = await getLock('a').acquire();
    await foreign.runInAsyncScope(async () => {
      expect(await getLock('a').tryAcquire()).toBeUndefined();
      await hold.run(() =>
        getLock('a').withLock((nested) => {
          expect(nested.ownerId).toBe(hold.ownerId);
          expect(server.holder('a')?.count).toBe(2);
        }),
      );
    });
    await hold.release();
    expect(server.heldNames).toEqual([]);
  });
});

describe('hold.run(fn)', () => {
  it('makes the hold the nearest holder: nested calls of all kinds re-enter it', async () => {
    const { getLock, run, server } = fakeHoldfast();
    const lock = getLock('a');
    const hold = await lock.acquire();
    await hold.run(async () => {
      expect(await lock.isHeldByCurrentOwner()).toBe(true);
      await lock.withLock(() => {
        expect(server.holder('a')?.count).toBe(2);
      });
      await lock.lock();
      await lock.unlock();
      await run(async () => {
        expect(await lock.tryLock()).toBe(true);
        await lock.unlock();
      });
      const nested = await lock.acquire();
      await nested.release();
    });
    expect(server.holder('a')?.count).toBe(1);
    await hold.release();
  });

  it('does not release, and returns or throws what the callback does', async () => {
    const { getLock, server } = fakeHoldfast();
    const hold = await getLock('a').acquire();
    expect(await hold.run(() => 42)).toBe(42);
    await expect(hold.run(() => Promise.reject(new Error('mine')))).rejects.toThrow('mine');
    expect(server.heldNames).toEqual(['a']);
    await hold.release();
  });

  it('twice at the same time: calls nested in both exclude each other', async () => {
    const { getLock } = fakeHoldfast();
    const section = new Occupancy();
    const hold = await getLock('a').acquire();
    const branch = (who: string): Promise<void> =>
      hold.run(() => getLock('a').withLock(() => section.inside(who, settle)));
    await Promise.all([branch('1'), branch('2'), branch('3')]);
    expect(section.most).toBe(1);
    await hold.release();
  });

  it('of a released hold throws', async () => {
    const { getLock } = fakeHoldfast();
    const hold = await getLock('a').acquire();
    await hold.release();
    await expect(hold.run(() => 1)).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
  });

  it('of a withLock() hold, from outside its body, re-enters it', async () => {
    const { getLock, detach, server } = fakeHoldfast();
    await getLock('a').withLock(async (hold) => {
      await detach(async () => {
        expect(await getLock('a').tryLock()).toBe(false);
        await hold.run(() =>
          getLock('a').withLock(() => {
            expect(server.holder('a')?.count).toBe(2);
          }),
        );
      });
    });
    expect(server.heldNames).toEqual([]);
  });

  it('whose hold is released within: later calls are a new owner', async () => {
    const { getLock, server } = fakeHoldfast();
    const hold = await getLock('a').acquire();
    await hold.run(async () => {
      await hold.release();
      await getLock('a').withLock((later) => {
        expect(later.ownerId).not.toBe(hold.ownerId);
        expect(server.holder('a')?.count).toBe(1);
      });
    });
    expect(server.heldNames).toEqual([]);
  });
});

describe('a release', () => {
  it('that is repeated is harmless, and sends nothing', async () => {
    const { getLock, server } = fakeHoldfast();
    const hold = await getLock('a').acquire();
    await Promise.all([hold.release(), hold.release()]);
    await hold.release();
    expect(server.commands.filter((command) => command.startsWith('release'))).toHaveLength(1);
  });

  it('of a nested hold after its outer one frees the lock with the last', async () => {
    const { getLock, run, server } = fakeHoldfast();
    await run(async () => {
      const outer = await getLock('a').acquire();
      const nested = await run(async () => {
        const hold = await getLock('a').acquire();
        await outer.release();
        expect(server.holder('a')?.count).toBe(1);
        await hold.release();
        return hold;
      });
      expect(nested.remaining()).toBe(0);
      expect(server.heldNames).toEqual([]);
    });
  });

  it('of several holds of one owner works in parallel', async () => {
    const { getLock, run, server, told } = fakeHoldfast();
    await run(async () => {
      const holds = await Promise.all([1, 2, 3, 4].map(() => getLock('a').acquire()));
      await Promise.all(holds.map((hold) => hold.release()));
      expect(server.heldNames).toEqual([]);
      expect(told('lost')).toEqual([]);
    });
  });

  it('happens by `await using`', async () => {
    const { getLock, server } = fakeHoldfast();
    {
      await using hold = await getLock('a').acquire();
      expect(server.holder('a')?.owner).toBe(hold.ownerId);
    }
    expect(server.heldNames).toEqual([]);
  });
});

it('withLock() releases after an error in its callback and throws it, even three deep', async () => {
  const { getLock, server } = fakeHoldfast();
  const lock = getLock('a');
  const failing = lock.withLock(() =>
    lock.withLock(() =>
      lock.withLock(() => {
        throw new Error('mine');
      }),
    ),
  );
  await expect(failing).rejects.toThrow('mine');
  expect(server.heldNames).toEqual([]);
});

it('an error in one of two parallel branches lets the other one finish, and both release', async () => {
  const { getLock, server } = fakeHoldfast();
  const lock = getLock('a');
  const section = new Occupancy();
  const results = await lock.withLock(() =>
    Promise.allSettled([
      lock.withLock(() => section.inside('1', () => Promise.reject(new Error('mine')))),
      lock.withLock(() => section.inside('2', settle)),
    ]),
  );
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'fulfilled']);
  expect(section.most).toBe(1);
  expect(server.heldNames).toEqual([]);
});
