// From writing to reading, and never back: a downgrade keeps the lock, an upgrade is refused at once.
import { describe, expect, it } from 'vitest';
import type { Lock } from '../../../src/index.js';
import { readWriteInMemory } from '../../support/memory-read-write.js';
import { rejectionOf } from '../../support/clients.js';
import { gate } from '../../support/occupancy.js';

const refused = { code: 'LOCK_UPGRADE', lockName: 'a' };

describe('a downgrade', () => {
  it('in a run: the read lock is kept when the write lock goes, by the same owner, and lets readers in', async () => {
    const { readLock, writeLock, run, detach, held, expectPending } = await readWriteInMemory();
    await run(async () => {
      await writeLock.lock();
      await readLock.lock();
      const reads = detach(() => readLock.withLock(() => held()));
      const writes = detach(() => writeLock.withLock(() => held()));
      await expectPending(reads);
      expect(held()).toBe('W');
      await writeLock.unlock();
      expect(await reads).toBe('RR');
      expect(held()).toBe('R');
      await expectPending(writes);
      expect(await writeLock.isHeldByCurrentOwner()).toBe(false);
      expect(await readLock.getHoldCount()).toBe(1);
      await readLock.unlock();
      expect(await writes).toBe('W');
    });
    expect(held()).toBe('');
  });

  it('by holds: a read hold that was had inside a write hold outlives it', async () => {
    const { readLock, writeLock, run, held } = await readWriteInMemory();
    const write = await writeLock.acquire();
    const read = await write.run(() => readLock.acquire());
    expect(read.ownerId).toBe(write.ownerId);
    await write.release();
    expect(held()).toBe('R');
    expect(read.remaining()).toBeGreaterThan(0);
    expect(await writeLock.tryLock()).toBe(false);
    expect(await readLock.tryLock()).toBe(true);
    await readLock.unlock();
    await read.release();
    expect(held()).toBe('');
  });

  it('by withLock: branches that still read when the body of the write lock ends keep it', async () => {
    const { readLock, writeLock, held, settle } = await readWriteInMemory();
    const done = gate();
    let read: Promise<string> | undefined;
    await writeLock.withLock(async () => {
      read = readLock.withLock(async () => {
        await done.opened;
        return held();
      });
      await settle();
    });
    expect(held()).toBe('R');
    done.open();
    expect(await read).toBe('R');
    expect(held()).toBe('');
  });

  it('waits for the last one who writes', async () => {
    const { readLock, writeLock, run, held } = await readWriteInMemory();
    const write = await writeLock.acquire();
    const nested = await write.run(() => writeLock.acquire());
    const read = await write.run(() => nested.run(() => readLock.acquire()));
    await write.release();
    expect(held()).toBe('W');
    await nested.release();
    expect(held()).toBe('R');
    await read.release();
    expect(held()).toBe('');
  });

  it('lets siblings in that read, and those who write when all have read', async () => {
    const { readLock, writeLock, run, settle, expectPending } = await readWriteInMemory();
    await writeLock.withLock(async () => {
      const done = gate();
      const steps: string[] = [];
      const downgrades = run(async () => {
        await writeLock.lock();
        await readLock.lock();
        steps.push('writes');
        await settle();
        await writeLock.unlock();
        steps.push('reads');
        await done.opened;
        await readLock.unlock();
      });
      await settle();
      const reads = readLock.withLock(() => steps.push('sibling reads'));
      const writes = writeLock.withLock(() => steps.push('sibling writes'));
      await reads;
      await expectPending(writes);
      expect(steps).toEqual(['writes', 'reads', 'sibling reads']);
      done.open();
      await Promise.all([downgrades, writes]);
      expect(steps.at(-1)).toBe('sibling writes');
    });
  });

  it('lets no sibling in while a branch below still writes, nor one that is about to', async () => {
    const { readLock, writeLock, run, held, expectPending } = await readWriteInMemory();
    await writeLock.withLock(async () => {
      const isWriting = gate();
      const done = gate();
      let writes = false;
      const branch = run(async () => {
        await writeLock.lock();
        await readLock.lock();
        const below = writeLock.withLock(async () => {
          writes = true;
          isWriting.open();
          await done.opened;
          writes = false;
        });
        await writeLock.unlock(); // while the branch below is asking the server
        await below;
        await readLock.unlock();
      });
      await isWriting.opened;
      const sibling = readLock.withLock(() => {
        expect(writes).toBe(false);
      });
      await expectPending(sibling);
      expect(held()).toBe('W');
      done.open();
      await Promise.all([branch, sibling]);
    });
    expect(held()).toBe('');
  });

  it('does not overtake a call that counts the write lock up before', async () => {
    const { tap, theirs, readLock, writeLock, run, held, settle } = await readWriteInMemory();
    await run(async () => {
      await writeLock.lock();
      const read = await readLock.acquire();
      const answer = tap.holdAnswers('weightedHandOver');
      const calls = [read.extend(1_000), writeLock.lock(), writeLock.unlock()];
      await settle();
      answer();
      await Promise.all(calls);
      expect(held()).toBe('W');
      expect(await writeLock.getHoldCount()).toBe(1);
      await writeLock.unlock();
      expect(held()).toBe('R');
      await read.release();
    });
  });

  it('that was not answered is asked for again as soon as Redis can be reached', async () => {
    const { redis, readLock, writeLock, run, held } = await readWriteInMemory();
    await run(async () => {
      await writeLock.lock();
      await readLock.lock();
      redis.down();
      const unlocked = rejectionOf(writeLock.unlock());
      await redis.advance(10_500);
      expect(await unlocked).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
      expect(held()).toBe('W');
      await expect(writeLock.lock()).rejects.toMatchObject(refused); // it may have been let go
      redis.up();
      await redis.advance(2_000);
      expect(held()).toBe('R');
      await readLock.unlock();
    });
    expect(held()).toBe('');
  });

  it.each([
    ['is asked for when that call has ended', 'readLock', 'R'],
    ['is none when that call came to write', 'writeLock', 'W'],
  ] as const)(
    'that was not even sent, since another call of its run was asking, %s',
    async (_what, half, before) => {
      const lock = await readWriteInMemory();
      const { redis, readLock, writeLock, held } = lock;
      await lock.run(async () => {
        await writeLock.lock();
        await readLock.lock();
        redis.down();
        const below = lock[half].acquire();
        const unlocked = rejectionOf(writeLock.unlock());
        await redis.advance(10_500);
        expect(await unlocked).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
        redis.up();
        await redis.advance(2_000);
        const hold = await below;
        expect(held()).toBe(before);
        await hold.release();
        expect(held()).toBe('R');
        await readLock.unlock();
      });
      expect(held()).toBe('');
    },
  );
});

describe('an upgrade', () => {
  const calls: [string, (writeLock: Lock) => Promise<unknown>][] = [
    ['lock()', (writeLock) => writeLock.lock()],
    ['tryLock()', (writeLock) => writeLock.tryLock()],
    ['tryLock(wait)', (writeLock) => writeLock.tryLock(1_000)],
    ['acquire()', (writeLock) => writeLock.acquire()],
    ['tryAcquire()', (writeLock) => writeLock.tryAcquire()],
    ['withLock()', (writeLock) => writeLock.withLock(() => expect.fail('it was let in'))],
  ];

  it.each(calls)('by %s is refused at once, and nothing is sent', async (_call, upgrade) => {
    const { tap, readLock, writeLock, run, held } = await readWriteInMemory();
    await run(async () => {
      await readLock.lock();
      const sent = tap.sent.length;
      await expect(upgrade(writeLock)).rejects.toMatchObject(refused);
      await expect(upgrade(writeLock)).rejects.toThrow('release the read lock first');
      expect(tap.sent).toHaveLength(sent);
      expect(held()).toBe('R');
      await readLock.unlock();
    });
    expect(held()).toBe('');
  });

  it('is refused through all scopes around the caller', async () => {
    const { readLock, writeLock, run, detach, held } = await readWriteInMemory();
    await readLock.withLock(async (hold) => {
      await expect(run(() => writeLock.lock())).rejects.toMatchObject(refused);
      await expect(run(() => run(() => writeLock.withLock(() => 1)))).rejects.toMatchObject(
        refused,
      );
      await readLock.withLock(() => expect(writeLock.tryLock()).rejects.toMatchObject(refused));
      const elsewhere = detach(() => hold.run(() => writeLock.acquire()));
      await expect(elsewhere).rejects.toMatchObject(refused);
      expect(await detach(() => writeLock.tryLock())).toBe(false); // somebody else has it
    });
    expect(held()).toBe('');
  });

  it('of a reader inside the write lock is refused, too: its siblings may be reading', async () => {
    const { readLock, writeLock, held } = await readWriteInMemory();
    await writeLock.withLock(async () => {
      await readLock.withLock(() =>
        expect(writeLock.withLock(() => 1)).rejects.toMatchObject(refused),
      );
      expect(await writeLock.withLock(() => 1)).toBe(1);
    });
    expect(held()).toBe('');
  });

  it('of a run that reads and writes is none: it counts up', async () => {
    const { readLock, writeLock, run, held } = await readWriteInMemory();
    await run(async () => {
      await writeLock.lock();
      await readLock.lock();
      await writeLock.lock();
      expect([await writeLock.getHoldCount(), await readLock.getHoldCount()]).toEqual([2, 1]);
      await writeLock.unlock();
      expect(held()).toBe('W');
      await writeLock.unlock();
      await expect(writeLock.unlock()).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
      await expect(writeLock.lock()).rejects.toMatchObject(refused);
      await readLock.unlock();
    });
    expect(held()).toBe('');
  });

  it('while the write lock is being released is refused when that was sent', async () => {
    const { tap, theirs, readLock, writeLock, run, held, settle } = await readWriteInMemory();
    await run(async () => {
      await writeLock.lock();
      await readLock.lock();
      const answer = tap.holdAnswers('weightedHandOver');
      const unlocked = writeLock.unlock();
      const locked = expect(writeLock.lock()).rejects.toMatchObject(refused);
      await settle();
      answer();
      await Promise.all([unlocked, locked]);
      expect(held()).toBe('R');
      await readLock.unlock();
    });
  });

  it('of a branch that waited for its turn is refused if the one around it only reads by then', async () => {
    const { readLock, writeLock, run, held, settle } = await readWriteInMemory();
    await writeLock.withLock(async () => {
      const done = gate();
      const branch = run(async () => {
        await writeLock.lock();
        await readLock.lock();
        const below = readLock.withLock(() => done.opened);
        await settle();
        const writes = expect(writeLock.withLock(() => 1)).rejects.toMatchObject(refused);
        await settle();
        await writeLock.unlock();
        await settle();
        done.open();
        await Promise.all([below, writes]);
        await readLock.unlock();
      });
      await settle();
      await Promise.all([branch, readLock.withLock(() => done.opened)]);
      expect(held()).toBe('W');
    });
  });

  it('that began before its run was reading is refused as soon as it is', async () => {
    const { tap, theirs, readLock, writeLock, run, held, settle } = await readWriteInMemory();
    const writing = await theirs.writeLock().acquire();
    await run(async () => {
      const reads = readLock.lock();
      await settle();
      const writes = expect(writeLock.withLock(() => 1)).rejects.toMatchObject(refused);
      await settle();
      await writing.release();
      await reads;
      await writes;
      await readLock.unlock();
    });
    await settle();
    expect(held()).toBe('');
  });
});
