// Searching outwards: which holder an acquisition re-enters, and what it counts up.
import { describe, expect, it } from 'vitest';
import { fakeHoldfast } from '../../support/fake-holdfast.js';

describe('an acquisition searches outwards', () => {
  it('withLock() inside withLock() of the same lock re-enters it: the count grows, the owner stays', async () => {
    const { getLock, server } = fakeHoldfast();
    await getLock('a').withLock(async (outer) => {
      await getLock('a').withLock((inner) => {
        expect(inner.ownerId).toBe(outer.ownerId);
        expect(server.holder('a')).toEqual({ owner: outer.ownerId, count: 2 });
      });
      expect(server.holder('a')?.count).toBe(1);
    });
    expect(server.heldNames).toEqual([]);
  });

  it('with any lock object of the name: a kept one, and a new one', async () => {
    const { getLock, run, server } = fakeHoldfast();
    const kept = getLock('a');
    await run(async () => {
      await kept.lock();
      await getLock('a').lock();
      expect(server.holder('a')?.count).toBe(2);
      await kept.unlock();
      await getLock('a').unlock();
    });
    expect(server.heldNames).toEqual([]);
  });

  it('three deep, over scopes that hold other locks or none', async () => {
    const { getLock, run, server } = fakeHoldfast();
    await getLock('a').withLock(() =>
      run(() =>
        getLock('b').withLock(() =>
          run(async () => {
            await getLock('a').lock();
            expect(server.holder('a')?.count).toBe(2);
            expect(server.holder('b')?.count).toBe(1);
            await getLock('a').unlock();
          }),
        ),
      ),
    );
    expect(server.heldNames).toEqual([]);
  });

  it('but not inwards: the holds of an inner scope do not belong to the outer scope', async () => {
    const { getLock, run, server } = fakeHoldfast();
    await run(async () => {
      await run(async () => {
        await getLock('a').lock();
        await getLock('a').unlock();
      });
      expect(await getLock('a').isHeldByCurrentOwner()).toBe(false);
      await expect(getLock('a').unlock()).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
    });
    expect(server.heldNames).toEqual([]);
  });

  it('and becomes a new owner on the server if no outer scope holds the lock', async () => {
    const { getLock, server } = fakeHoldfast();
    const owners: string[] = [];
    for (const name of ['a', 'b', 'a']) {
      await getLock(name).withLock((hold) => void owners.push(hold.ownerId));
    }
    expect(new Set(owners).size).toBe(3);
    expect(server.heldNames).toEqual([]);
  });

  it('a lock of another client has another holder, even in the same scope', async () => {
    const one = fakeHoldfast({ clientId: 'one' });
    const two = fakeHoldfast({ clientId: 'two', server: one.server });
    await one.run(async () => {
      await one.getLock('a').lock();
      expect(await two.getLock('a').tryLock()).toBe(false);
      await one.getLock('a').unlock();
    });
  });
});

describe('the acting scope', () => {
  it('of lock() is the innermost run, even from inside a withLock()', async () => {
    const { getLock, run, server } = fakeHoldfast();
    await run(async () => {
      await getLock('b').withLock(() => getLock('a').lock());
      expect(server.holder('a')?.count).toBe(1); // still the run's
      await getLock('a').unlock();
    });
    expect(server.heldNames).toEqual([]);
  });

  it('of withLock() is the one it opens: unlock() inside does not undo it', async () => {
    const { getLock, run, server } = fakeHoldfast();
    await run(() =>
      getLock('a').withLock(async () => {
        await expect(getLock('a').unlock()).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
        expect(server.holder('a')?.count).toBe(1);
      }),
    );
  });

  it('of several lock() calls of one run counts up, and as many unlock() calls free the lock', async () => {
    const { getLock, run, server } = fakeHoldfast();
    await run(async () => {
      const lock = getLock('a');
      for (const count of [1, 2, 3]) {
        await lock.lock();
        expect(server.holder('a')?.count).toBe(count);
        expect(await lock.getHoldCount()).toBe(count);
      }
      for (const count of [2, 1]) {
        await lock.unlock();
        expect(server.holder('a')?.count).toBe(count);
      }
      await lock.unlock();
      expect(server.holder('a')).toBeUndefined();
      await expect(lock.unlock()).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
    });
  });

  it('of a lock() inside withLock(), which may outlive it, is the run', async () => {
    const { getLock, run, server } = fakeHoldfast();
    await run(async () => {
      const lock = getLock('a');
      await lock.withLock(() => lock.lock());
      expect(server.holder('a')?.count).toBe(1);
      expect(await lock.isHeldByCurrentOwner()).toBe(true);
      await lock.withLock(() => {
        expect(server.holder('a')?.count).toBe(2);
      });
      await lock.unlock();
    });
    expect(server.heldNames).toEqual([]);
  });

  it('of acquire() in a run is the run: nested calls re-enter it', async () => {
    const { getLock, run, server } = fakeHoldfast();
    await run(async () => {
      const hold = await getLock('a').acquire();
      await getLock('a').lock();
      await getLock('a').withLock(() => {
        expect(server.holder('a')).toEqual({ owner: hold.ownerId, count: 3 });
      });
      await run(async () => {
        expect(await getLock('a').tryLock()).toBe(true);
        await getLock('a').unlock();
      });
      await getLock('a').unlock();
      await hold.release();
    });
    expect(server.heldNames).toEqual([]);
  });

  it('a nested call without an answer reports that, not that its own holder has the lock', async () => {
    const { getLock, server } = fakeHoldfast({ commandTimeout: 100 });
    const lock = getLock('a');
    await lock.withLock(async () => {
      server.fate = (command) => (command.startsWith('reenter') ? 'lost command' : 'answered');
      for (const options of [{ wait: 50 }, { wait: 0, signal: AbortSignal.timeout(60_000) }]) {
        const nested = options.wait > 0 ? lock.acquire(options) : lock.tryAcquire(options);
        await expect(nested).rejects.toMatchObject({ code: 'REDIS_UNAVAILABLE' });
      }
      server.fate = () => 'answered';
    });
    expect(server.heldNames).toEqual([]);
  });

  it('two acquire() calls of one run are one owner with two holds', async () => {
    const { getLock, run, server } = fakeHoldfast();
    await run(async () => {
      const one = await getLock('a').acquire();
      const two = await getLock('a').acquire();
      expect(two.ownerId).toBe(one.ownerId);
      await one.release();
      expect(one.remaining()).toBe(0);
      expect(two.remaining()).toBeGreaterThan(0);
      await two.release();
    });
    expect(server.heldNames).toEqual([]);
  });
});

it('run(), withLock() and lock() nested three deep over two locks all re-enter, and leave nothing', async () => {
  const { getLock, run, server } = fakeHoldfast();
  const a = getLock('a');
  const b = getLock('b');
  await run(async () => {
    await a.lock();
    await b.withLock(async () => {
      await a.withLock(async () => {
        await run(async () => {
          await b.lock();
          await a.lock();
          expect(server.holder('a')?.count).toBe(3);
          expect(server.holder('b')?.count).toBe(2);
          await b.withLock(async () => {
            await a.withLock(() => {
              expect(server.holder('a')?.count).toBe(4);
              expect(server.holder('b')?.count).toBe(3);
            });
          });
          await a.unlock();
          await b.unlock();
        });
        await b.lock(); // of the outer run
        expect(server.holder('b')?.count).toBe(2);
        await b.unlock();
      });
    });
    await a.unlock();
  });
  expect(server.heldNames).toEqual([]);
});
