// From writing to reading, and never back: a downgrade keeps the lock, an upgrade is refused at once.
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { Lock } from '../../../src/index.js';
import { fakeReadWrite } from '../../support/fake-holdfast.js';
import { expectPending, gate, settle } from '../../support/occupancy.js';

const refused = { code: 'LOCK_UPGRADE', lockName: 'a' };

describe('a downgrade', () => {
  it('in a run keeps the read lock of the same owner when the write lock is released, and lets readers in', async () => {
    const { readLock, writeLock, run, detach, there, server } = fakeReadWrite();
    await run(async () => {
      await writeLock.lock();
      await readLock.lock();
      const reads = detach(() => readLock.withLock(() => there.held));
      const writes = detach(() => writeLock.withLock(() => there.held));
      await expectPending(reads);
      expect(there.held).toBe('W');
      await writeLock.unlock();
      expect(await reads).toBe('RR');
      expect(there.held).toBe('R');
      await expectPending(writes);
      expect(await writeLock.isHeldByCurrentOwner()).toBe(false);
      expect(await readLock.getHoldCount()).toBe(1);
      await readLock.unlock();
      expect(await writes).toBe('W');
    });
    expect(there.held).toBe('');
    expect(server.commands.filter((command) => command.startsWith('keep'))).toEqual([
      'keep a me:1 W',
      'keep a me:1 R',
    ]);
  });

  it('by holds keeps a read hold that was acquired inside a write hold', async () => {
    const { readLock, writeLock, there } = fakeReadWrite();
    const write = await writeLock.acquire();
    const read = await write.run(() => readLock.acquire());
    expect(read.ownerId).toBe(write.ownerId);
    await write.release();
    expect(there.held).toBe('R');
    expect(read.remaining()).toBeGreaterThan(0);
    expect(await writeLock.tryLock()).toBe(false);
    expect(await readLock.tryLock()).toBe(true);
    await readLock.unlock();
    await read.release();
    expect(there.held).toBe('');
  });

  it('by withLock() keeps the lock for branches that still read when the body of the write lock ends', async () => {
    const { readLock, writeLock, there } = fakeReadWrite();
    const done = gate();
    let read: Promise<string> | undefined;
    await writeLock.withLock(async () => {
      read = readLock.withLock(async () => {
        await done.opened;
        return there.held;
      });
      await settle();
    });
    expect(there.held).toBe('R');
    done.open();
    expect(await read).toBe('R');
    expect(there.held).toBe('');
  });

  it('waits for the last writer', async () => {
    const { readLock, writeLock, there } = fakeReadWrite();
    const write = await writeLock.acquire();
    const nested = await write.run(() => writeLock.acquire());
    const read = await write.run(() => nested.run(() => readLock.acquire()));
    await write.release();
    expect(there.held).toBe('W');
    await nested.release();
    expect(there.held).toBe('R');
    await read.release();
    expect(there.held).toBe('');
  });

  it('lets in siblings that read, and writers when all have read', async () => {
    const { readLock, writeLock, run } = fakeReadWrite();
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

  it('lets no sibling in while a branch below still writes, or is about to', async () => {
    const { readLock, writeLock, run, server, there } = fakeReadWrite();
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
      expect(there.held).toBe('W');
      done.open();
      await Promise.all([branch, sibling]);
    });
    expect(server.commands.at(-1)).toBe('release a me:1');
  });

  it('does not overtake an earlier call that counts the write lock up', async () => {
    const { readLock, writeLock, run, server, there } = fakeReadWrite();
    await run(async () => {
      await writeLock.lock();
      const read = await readLock.acquire();
      const under = gate();
      server.travel = () => under.opened;
      const calls = [read.extend(1_000), writeLock.lock(), writeLock.unlock()];
      await settle();
      server.travel = () => Promise.resolve();
      under.open();
      await Promise.all(calls);
      expect(there.held).toBe('W');
      expect(await writeLock.getHoldCount()).toBe(1);
      await writeLock.unlock();
      expect(there.held).toBe('R');
      await read.release();
    });
  });

  it('without an answer is repeated as soon as Redis is reachable', async () => {
    const { readLock, writeLock, run, server, there } = fakeReadWrite({ commandTimeout: 50 });
    const unanswered = (command: string): boolean =>
      command.startsWith('keep') && command.endsWith('R');
    await run(async () => {
      await writeLock.lock();
      await readLock.lock();
      server.fate = (command) => (unanswered(command) ? 'lost command' : 'answered');
      await expect(writeLock.unlock()).rejects.toMatchObject({ code: 'REDIS_UNAVAILABLE' });
      expect(there.held).toBe('W');
      await expect(writeLock.lock()).rejects.toMatchObject(refused); // it may have been released
      server.fate = () => 'answered';
      await expect.poll(() => there.held, { timeout: 3_000 }).toBe('R');
      await readLock.unlock();
    });
    expect(there.held).toBe('');
  });

  it('that was not sent, since another call of its run was under way, is sent when that call has ended', async () => {
    const { readLock, writeLock, run, server, there } = fakeReadWrite({ commandTimeout: 50 });
    await run(async () => {
      await writeLock.lock();
      await readLock.lock();
      server.fate = (command) => (command.startsWith('keep') ? 'lost command' : 'answered');
      const below = readLock.acquire({ wait: 200 });
      const ended = expect(below).rejects.toThrow('not acquired');
      await settle();
      await expect(writeLock.unlock()).rejects.toMatchObject({ code: 'REDIS_UNAVAILABLE' });
      await ended;
      server.fate = () => 'answered';
      await expect.poll(() => there.held, { timeout: 3_000 }).toBe('R');
      await expect(writeLock.lock()).rejects.toMatchObject(refused);
      await readLock.unlock();
    });
    expect(there.held).toBe('');
  });

  it('that was not sent is cancelled when the call that was under way came to write', async () => {
    const { readLock, writeLock, run, server, there } = fakeReadWrite({ commandTimeout: 50 });
    await run(async () => {
      await writeLock.lock();
      await readLock.lock();
      server.fate = (command) => (command.startsWith('keep') ? 'lost command' : 'answered');
      const writes = writeLock.acquire();
      await settle();
      await expect(writeLock.unlock()).rejects.toMatchObject({ code: 'REDIS_UNAVAILABLE' });
      server.fate = () => 'answered';
      const write = await writes;
      await sleep(1_500); // in which a pending downgrade would be sent
      expect(there.held).toBe('W');
      await write.release();
      expect(there.held).toBe('R');
      await readLock.unlock();
    });
    expect(there.held).toBe('');
  });
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
    const { readLock, writeLock, run, server, there } = fakeReadWrite();
    await run(async () => {
      await readLock.lock();
      const sent = server.commands.length;
      await expect(upgrade(writeLock)).rejects.toMatchObject(refused);
      await expect(upgrade(writeLock)).rejects.toThrow('release the read lock first');
      expect(server.commands).toHaveLength(sent);
      expect(there.held).toBe('R');
      await readLock.unlock();
    });
    expect(there.held).toBe('');
  });

  it('is refused through all scopes around the caller', async () => {
    const { readLock, writeLock, run, detach, there } = fakeReadWrite();
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
    expect(there.held).toBe('');
  });

  it('of a reader inside the write lock is refused as well: its siblings may be reading', async () => {
    const { readLock, writeLock, there } = fakeReadWrite();
    await writeLock.withLock(async () => {
      await readLock.withLock(() =>
        expect(writeLock.withLock(() => 1)).rejects.toMatchObject(refused),
      );
      expect(await writeLock.withLock(() => 1)).toBe(1);
    });
    expect(there.held).toBe('');
  });

  it('of a run that reads and writes is not one: it counts up', async () => {
    const { readLock, writeLock, run, there } = fakeReadWrite();
    await run(async () => {
      await writeLock.lock();
      await readLock.lock();
      await writeLock.lock();
      expect([await writeLock.getHoldCount(), await readLock.getHoldCount()]).toEqual([2, 1]);
      await writeLock.unlock();
      expect(there.held).toBe('W');
      await writeLock.unlock();
      await expect(writeLock.unlock()).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
      await expect(writeLock.lock()).rejects.toMatchObject(refused);
      await readLock.unlock();
    });
    expect(there.held).toBe('');
  });

  it('while the write lock is being released is refused once the release is sent', async () => {
    const { readLock, writeLock, run, server, there } = fakeReadWrite();
    await run(async () => {
      await writeLock.lock();
      await readLock.lock();
      const under = gate();
      server.travel = () => under.opened;
      const unlocked = writeLock.unlock();
      const locked = expect(writeLock.lock()).rejects.toMatchObject(refused);
      await settle();
      server.travel = () => Promise.resolve();
      under.open();
      await Promise.all([unlocked, locked]);
      expect(there.held).toBe('R');
      await readLock.unlock();
    });
  });

  it('of a branch that waited for its turn is refused if the hold around it only reads by then', async () => {
    const { readLock, writeLock, run, there } = fakeReadWrite();
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
      expect(there.held).toBe('W');
    });
  });

  it('that began before its run was reading is refused as soon as it is', async () => {
    const { readLock, writeLock, run, there, server } = fakeReadWrite();
    const other = await fakeReadWrite({ server }).writeLock.acquire();
    await run(async () => {
      const reads = readLock.lock();
      await settle();
      const writes = expect(writeLock.withLock(() => 1)).rejects.toMatchObject(refused);
      await settle();
      await other.release();
      await reads;
      await writes;
      await readLock.unlock();
    });
    await settle();
    expect(there.held).toBe('');
  });
});
