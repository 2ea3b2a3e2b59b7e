// Parallel branches never overlap: neither in one scope, nor inside a holder, at any depth.
import { describe, expect, it } from 'vitest';
import { fakeHoldfast } from '../../support/fake-holdfast.js';
import { gate, Occupancy, settle } from '../../support/occupancy.js';

const NAMES = ['1', '2', '3'] as const;

it('withLock() calls in one scope, under Promise.all, run one at a time', async () => {
  const { getLock, run } = fakeHoldfast();
  const section = new Occupancy();
  await run(() =>
    Promise.all(NAMES.map((who) => getLock('a').withLock(() => section.inside(who, settle)))),
  );
  expect(section).toMatchObject({ most: 1, order: NAMES });
});

it('withLock() calls outside all scopes, under Promise.all, run one at a time', async () => {
  const { getLock } = fakeHoldfast();
  const section = new Occupancy();
  await Promise.all(NAMES.map((who) => getLock('a').withLock(() => section.inside(who, settle))));
  expect(section).toMatchObject({ most: 1, order: NAMES });
});

it('children of one holder exclude each other, first come first served', async () => {
  const { getLock } = fakeHoldfast();
  const section = new Occupancy();
  await getLock('a').withLock(() =>
    Promise.all(NAMES.map((who) => getLock('a').withLock(() => section.inside(who, settle)))),
  );
  expect(section).toMatchObject({ most: 1, order: NAMES });
});

it('children of a run that holds the lock exclude each other', async () => {
  const { getLock, run } = fakeHoldfast();
  const section = new Occupancy();
  await run(async () => {
    await getLock('a').lock();
    await Promise.all(NAMES.map((who) => getLock('a').withLock(() => section.inside(who, settle))));
    await getLock('a').unlock();
  });
  expect(section.most).toBe(1);
});

it('three deep: grandchildren exclude each other and the siblings of their parents', async () => {
  const { getLock, server } = fakeHoldfast();
  const section = new Occupancy();
  const lock = getLock('a');
  await lock.withLock(() =>
    Promise.all(
      NAMES.map((child) =>
        lock.withLock(() =>
          Promise.all(
            NAMES.map((who) => lock.withLock(() => section.inside(`${child}${who}`, settle))),
          ),
        ),
      ),
    ),
  );
  expect(section.most).toBe(1);
  expect(section.order).toHaveLength(9);
  expect(server.heldNames).toEqual([]);
});

it('runs inside a holder, with lock() and unlock() each, go one at a time', async () => {
  const { getLock, run } = fakeHoldfast();
  const section = new Occupancy();
  const branch = (who: string): Promise<void> =>
    run(async () => {
      await getLock('a').lock();
      await section.inside(who, settle);
      await getLock('a').unlock();
    });
  await getLock('a').withLock(() => Promise.all(NAMES.map(branch)));
  expect(section).toMatchObject({ most: 1, order: NAMES });
});

it('anonymous lock() calls in the body of a withLock() outside any run exclude each other', async () => {
  const { getLock, server } = fakeHoldfast();
  const section = new Occupancy();
  await getLock('a').withLock(() =>
    Promise.all(
      NAMES.map(async (who) => {
        await getLock('a').lock();
        await section.inside(who, settle);
        await getLock('a').unlock();
      }),
    ),
  );
  expect(section.most).toBe(1);
  expect(server.heldNames).toEqual([]);
});

describe('a lock() in a withLock() in a run', () => {
  it('does not let a parallel withLock() of that run in', async () => {
    const { getLock, run, server } = fakeHoldfast();
    const lock = getLock('a');
    const section = new Occupancy();
    await run(() =>
      Promise.all([
        lock.withLock(async () => {
          await lock.lock();
          await section.inside('first', settle);
          await lock.unlock();
        }),
        lock.withLock(() => section.inside('second', settle)),
        settle().then(() => lock.withLock(() => section.inside('third', settle))),
      ]),
    );
    expect(section.most).toBe(1);
    expect(section.order).toHaveLength(3);
    expect(server.heldNames).toEqual([]);
  });

  it('does not let in a parallel withLock() that begins while it is held', async () => {
    const { getLock, run } = fakeHoldfast();
    const lock = getLock('a');
    const section = new Occupancy();
    const isLocked = gate();
    await run(() =>
      Promise.all([
        lock.withLock(async () => {
          await lock.lock();
          isLocked.open();
          await section.inside('first', settle);
          await lock.unlock();
        }),
        isLocked.opened.then(() => lock.withLock(() => section.inside('second', settle))),
      ]),
    );
    expect(section).toMatchObject({ most: 1, order: ['first', 'second'] });
  });

  it('is re-entered by later calls in that body, one at a time', async () => {
    const { getLock, run } = fakeHoldfast();
    const lock = getLock('a');
    const section = new Occupancy();
    await run(() =>
      lock.withLock(async () => {
        await lock.lock();
        await Promise.all(NAMES.map((who) => lock.withLock(() => section.inside(who, settle))));
        await lock.unlock();
      }),
    );
    expect(section).toMatchObject({ most: 1, order: NAMES });
  });

  it('that outlives the withLock() lets a waiting branch in: the run is its ancestor', async () => {
    const { getLock, run, server } = fakeHoldfast();
    const lock = getLock('a');
    await run(async () => {
      const isLocked = gate();
      await Promise.all([
        lock.withLock(async () => {
          await lock.lock();
          isLocked.open();
          await settle();
        }),
        isLocked.opened.then(() => lock.withLock(settle)),
      ]);
      await lock.unlock();
    });
    expect(server.heldNames).toEqual([]);
  });
});

it("a child that outlives its parent keeps the parent's siblings out", async () => {
  const { getLock, run, server } = fakeHoldfast();
  const lock = getLock('a');
  const section = new Occupancy();
  const isInside = gate();
  await lock.withLock(async () => {
    let child!: Promise<void>;
    await Promise.all([
      run(async () => {
        await lock.lock();
        child = lock.withLock(() => {
          isInside.open();
          return section.inside('child', settle);
        });
        await isInside.opened;
        await lock.unlock();
      }),
      isInside.opened.then(() => lock.withLock(() => section.inside('sibling', settle))),
    ]);
    await child;
  });
  expect(section).toMatchObject({ most: 1, order: ['child', 'sibling'] });
  expect(server.heldNames).toEqual([]);
});

describe('a lock() of the run and a withLock() in it that start at the same time', () => {
  it.each(['lock() first', 'withLock first'])('both acquire the lock: %s', async (order) => {
    const { getLock, run, server } = fakeHoldfast();
    const lock = getLock('a');
    await run(async () => {
      const calls = [() => lock.lock(), () => lock.withLock(settle)];
      if (order === 'withLock first') calls.reverse();
      await Promise.all(calls.map((call) => call()));
      await lock.unlock();
    });
    expect(server.heldNames).toEqual([]);
  });
});

describe('two parallel lock() calls of one run are one owner', () => {
  it('when the lock is free', async () => {
    const { getLock, run, server } = fakeHoldfast();
    await run(async () => {
      await Promise.all([getLock('a').lock(), getLock('a').lock()]);
      expect(server.holder('a')?.count).toBe(2);
      await Promise.all([getLock('a').unlock(), getLock('a').unlock()]);
    });
    expect(server.heldNames).toEqual([]);
  });

  it('when both had to wait in line', async () => {
    const { getLock, run, server } = fakeHoldfast();
    server.hold('a');
    await run(async () => {
      const both = Promise.all([getLock('a').lock(), getLock('a').lock()]);
      await settle();
      server.free('a');
      await both;
      expect(server.holder('a')?.count).toBe(2);
      await getLock('a').unlock();
      await getLock('a').unlock();
    });
    expect(server.heldNames).toEqual([]);
  });

  it('when a first attempt fails and two more are behind it', async () => {
    const { getLock, run, server } = fakeHoldfast();
    const lock = getLock('a');
    const done = gate();
    await run(async () => {
      const branch = lock.withLock(() => done.opened);
      await settle();
      const first = lock.tryLock();
      const behind = [lock.acquire(), lock.acquire()];
      expect(await first).toBe(false);
      await settle();
      done.open();
      await branch;
      const holds = await Promise.all(behind);
      expect(server.holder('a')?.count).toBe(2);
      await Promise.all(holds.map((hold) => hold.release()));
    });
    expect(server.heldNames).toEqual([]);
  });

  it("when an ancestor's other child had the turn", async () => {
    const { getLock, run, server } = fakeHoldfast();
    const lock = getLock('a');
    const inside = gate();
    await lock.withLock(() =>
      Promise.all([
        lock.withLock(() => inside.opened),
        run(async () => {
          const both = Promise.all([lock.lock(), lock.lock()]);
          await settle();
          inside.open();
          await both;
          expect(server.holder('a')?.count).toBe(3);
          await lock.unlock();
          await lock.unlock();
        }),
      ]),
    );
    expect(server.heldNames).toEqual([]);
  });

  it.each(['free', 'held by the run around'])(
    'and so are two tryLock() calls when the lock is %s',
    async (state) => {
      const { getLock, run, server } = fakeHoldfast();
      const lock = getLock('a');
      await run(async () => {
        if (state !== 'free') await lock.lock();
        await run(async () => {
          expect(await Promise.all([lock.tryLock(), lock.tryLock()])).toEqual([true, true]);
          await Promise.all([lock.unlock(), lock.unlock()]);
        });
        if (state !== 'free') await lock.unlock();
      });
      expect(server.heldNames).toEqual([]);
    },
  );
});
