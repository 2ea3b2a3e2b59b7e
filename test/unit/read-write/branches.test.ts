// A read-write lock within a process: inside one hold readers overlap, and a writer is alone.
import { describe, expect, it } from 'vitest';
import { fakeReadWrite } from '../../support/fake-holdfast.js';
import { expectPending, gate, Occupancy, settle } from '../../support/occupancy.js';

describe('on the server', () => {
  it('parallel readers of one run overlap, each with its own owner', async () => {
    const { readLock, run, there } = fakeReadWrite();
    const section = new Occupancy();
    await run(() =>
      Promise.all(
        ['1', '2', '3'].map((who) => readLock.withLock(() => section.inside(who, settle))),
      ),
    );
    expect(section.most).toBe(3);
    expect(there.held).toBe('');
  });

  it('overlapping lock() calls of one run trigger a warning if one writes, not if all read', async () => {
    const { readLock, writeLock, run, told } = fakeReadWrite();
    await run(async () => {
      await Promise.all([readLock.lock(), readLock.lock()]);
      await readLock.unlock();
      await readLock.unlock();
    });
    expect(told('warning')).toEqual([]);
    await run(async () => {
      await Promise.all([writeLock.lock(), writeLock.lock()]);
      await writeLock.unlock();
      await writeLock.unlock();
    });
    expect(told('warning')).toHaveLength(1);
  });

  it('a writer is alone, and later callers wait behind it', async () => {
    const { readLock, writeLock, there } = fakeReadWrite();
    const done = gate();
    const first = readLock.withLock(() => done.opened);
    await settle();
    const writes = writeLock.withLock(() => there.held);
    await settle();
    const reads = readLock.withLock(() => there.held);
    await expectPending(writes);
    await expectPending(reads);
    done.open();
    expect(await writes).toBe('W');
    expect(await reads).toBe('R');
    await first;
    expect(there.held).toBe('');
  });
});

describe('inside a hold of the write lock', () => {
  it('branches that read overlap, and need no other owner on the server', async () => {
    const { readLock, writeLock, there } = fakeReadWrite();
    const section = new Occupancy();
    const owners = new Set<string>();
    await writeLock.withLock((outer) => {
      owners.add(outer.ownerId);
      return Promise.all(
        ['1', '2', '3'].map((who) =>
          readLock.withLock((hold) => {
            owners.add(hold.ownerId);
            return section.inside(who, settle);
          }),
        ),
      );
    });
    expect(section.most).toBe(3);
    expect(owners.size).toBe(1);
    expect(there.held).toBe('');
  });

  it('a branch that writes excludes its siblings, in the order in which they came', async () => {
    const { readLock, writeLock } = fakeReadWrite();
    const readers = new Occupancy();
    const all = new Occupancy();
    const order: string[] = [];
    await writeLock.withLock(() =>
      Promise.all(
        ['r1', 'r2', 'W3', 'r4', 'W5', 'r6', 'r7'].map((who) => {
          const lock = who.startsWith('W') ? writeLock : readLock;
          return lock.withLock(async () => {
            order.push(who);
            if (who.startsWith('W')) {
              expect(all.most).toBeGreaterThan(0);
              await all.inside(who, async () => {
                expect(readers.now).toBe(0);
                await settle();
                expect(readers.now).toBe(0);
              });
            } else await readers.inside(who, () => all.inside(who, settle));
          });
        }),
      ),
    );
    expect(order).toEqual(['r1', 'r2', 'W3', 'r4', 'W5', 'r6', 'r7']);
    expect(readers.most).toBe(2);
  });

  it("readers three deep overlap with their parents' siblings, a writer three deep excludes them", async () => {
    const { readLock, writeLock } = fakeReadWrite();
    const uncle = new Occupancy();
    const done = gate();
    const isIn = gate();
    await writeLock.withLock(() =>
      Promise.all([
        writeLock.withLock(() =>
          writeLock.withLock(async () => {
            isIn.open();
            await done.opened;
            expect(uncle.most).toBe(0);
          }),
        ),
        isIn.opened.then(() => readLock.withLock(() => uncle.inside('uncle', settle))),
        isIn.opened.then(settle).then(done.open),
      ]),
    );
    expect(uncle.most).toBe(1);
    const both = new Occupancy();
    await writeLock.withLock(() =>
      Promise.all([
        readLock.withLock(() =>
          readLock.withLock(() => readLock.withLock(() => both.inside('nephew', settle))),
        ),
        readLock.withLock(() => both.inside('uncle', settle)),
      ]),
    );
    expect(both.most).toBe(2);
  });

  it('a writer that stops waiting lets in those that waited behind it', async () => {
    const { readLock, writeLock, there } = fakeReadWrite();
    const done = gate();
    await writeLock.withLock(async () => {
      const reads = readLock.withLock(() => done.opened);
      await settle();
      const aborter = new AbortController();
      const writes = writeLock.withLock({ signal: aborter.signal }, () => 'wrote');
      await settle();
      const behind = readLock.withLock(() => 'read');
      await expectPending(behind);
      aborter.abort('enough');
      await expect(writes).rejects.toMatchObject({ code: 'LOCK_ABORTED', cause: 'enough' });
      expect(await behind).toBe('read');
      expect(await writeLock.tryAcquire()).toBeUndefined();
      const hold = await readLock.tryAcquire();
      expect(hold).toBeDefined();
      await hold?.release();
      done.open();
      await reads;
    });
    expect(there.held).toBe('');
  });

  it('a lost hold is reported to all inside, and to those that wait for a turn', async () => {
    const { readLock, writeLock, there } = fakeReadWrite();
    const lost = { code: 'LOCK_LOST', lossReason: 'deleted' };
    await expect(
      writeLock.withLock(async (outer) => {
        const done = gate();
        const reads = readLock.withLock(() => done.opened);
        await settle();
        const writes = writeLock.withLock(() => 'wrote');
        await expectPending(writes);
        there.delete();
        await expect(outer.extend(1)).rejects.toMatchObject(lost);
        await expect(writes).rejects.toMatchObject(lost);
        await expect(readLock.acquire()).rejects.toMatchObject(lost);
        await expect(writeLock.acquire()).rejects.toMatchObject(lost);
        done.open();
        await expect(reads).rejects.toMatchObject(lost);
      }),
    ).rejects.toMatchObject(lost);
  });
});

describe('inside a hold of the read lock', () => {
  it('branches that read overlap and share its owner', async () => {
    const { readLock, there } = fakeReadWrite();
    const section = new Occupancy();
    await readLock.withLock(() =>
      Promise.all(
        ['1', '2'].map((who) =>
          readLock.withLock(() => {
            expect(there.held).toBe('R');
            return section.inside(who, settle);
          }),
        ),
      ),
    );
    expect(section.most).toBe(2);
  });

  it('a nested reader enters even if a writer waits for the outer one', async () => {
    const { readLock, writeLock, detach, there } = fakeReadWrite();
    const order: string[] = [];
    await readLock.withLock(async () => {
      const writes = detach(() => writeLock.withLock(() => order.push('writer')));
      await settle();
      await readLock.withLock(() => order.push('nested'));
      void writes;
    });
    await settle();
    expect(order).toEqual(['nested', 'writer']);
    expect(there.held).toBe('');
  });
});
