// What happens to locks when their run ends, and to the rest of a run: timers, listeners, calls in flight.
import { EventEmitter } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { fakeHoldfast, type FakeHoldfast } from '../../support/fake-holdfast.js';
import { gate, Occupancy, settle } from '../../support/occupancy.js';

describe('a run that ends while it holds a lock', () => {
  it('releases it, with a warning: once for each hold, from the process once per name', async () => {
    const { getLock, run, server, told } = fakeHoldfast();
    await run(async () => {
      await getLock('a').lock();
      await getLock('b').lock();
    });
    expect(server.heldNames).toEqual([]);
    expect(told('warning').map(({ lockName }) => lockName)).toEqual(['a', 'b']);
    expect(told('warning')[0]?.message).toContain('"a", which is given up now: unlock it before');
  });

  it('does so after a nested lock(), and after an error of the callback, which is thrown to the caller', async () => {
    const { getLock, run, server, told } = fakeHoldfast();
    const failing = run(async () => {
      await getLock('a').lock();
      await getLock('a').lock();
      throw new Error('mine');
    });
    await expect(failing).rejects.toThrow('mine');
    expect(server.heldNames).toEqual([]);
    expect(told('warning').length).toBeGreaterThan(0);
  });

  it('aborts the signal of an acquire() hold, and later calls of the hold report its loss', async () => {
    const { getLock, run, server, told } = fakeHoldfast();
    const hold = await run(() => getLock('a').acquire());
    expect(told('warning')[0]?.message).toContain('release its hold before the run ends');
    expect(server.heldNames).toEqual([]);
    expect(hold.signal.aborted).toBe(true);
    expect(hold.remaining()).toBe(0);
    await expect(hold.extend(1_000)).rejects.toMatchObject({ code: 'LOCK_LOST' });
    await expect(hold.run(() => 1)).rejects.toMatchObject({ code: 'LOCK_LOST' });
  });

  it('does not release the locks of an outer run or a withLock() around it', async () => {
    const { getLock, run, server, told } = fakeHoldfast();
    await run(async () => {
      await getLock('a').lock();
      await getLock('b').withLock(async () => {
        await run(async () => {
          await getLock('a').lock();
          await getLock('b').lock();
        });
        expect(server.holder('a')?.count).toBe(1);
        expect(server.holder('b')?.count).toBe(1);
      });
      expect(told('warning')).toHaveLength(2);
      await getLock('a').unlock();
    });
    expect(told('warning')).toHaveLength(2);
    expect(server.heldNames).toEqual([]);
  });

  it('leaves the lock to a withLock() inside that still works', async () => {
    const { getLock, run, server } = fakeHoldfast();
    const inside = gate();
    let left!: Promise<void>;
    await run(async () => {
      await getLock('a').lock();
      left = getLock('a').withLock(() => inside.opened);
      await settle();
    });
    expect(server.holder('a')?.count).toBe(1);
    expect(await getLock('a').tryLock()).toBe(false);
    inside.open();
    await left;
    expect(server.heldNames).toEqual([]);
  });

  it('and returned at once without a lock triggers no warning', async () => {
    const { run, told } = fakeHoldfast();
    expect(await run(() => 42)).toBe(42);
    expect(told('warning')).toEqual([]);
  });
});

describe('a run that ends after it lost a lock', () => {
  const losses: Record<string, (given: FakeHoldfast) => Promise<unknown>> = {
    'whose lease is over': async ({ getLock, server }) => {
      await getLock('a').lock(100);
      await sleep(110);
      server.free('a');
    },
    'whose lease is over, held by acquire()': async ({ getLock, server }) => {
      await getLock('a').acquire({ lease: 100 });
      await sleep(110);
      server.free('a');
    },
    'that was forced out by this client': async ({ getLock }) => {
      await getLock('a').lock();
      await getLock('a').forceUnlock();
    },
    'that another client forced out, which this one learns by the release': async (given) => {
      await given.getLock('a').lock();
      await fakeHoldfast({ clientId: 'other', server: given.server }).getLock('a').forceUnlock();
    },
  };
  it.each(Object.entries(losses))('triggers no warning: %s', async (_, lose) => {
    const given = fakeHoldfast();
    await given.run(() => lose(given));
    expect(given.told('lost')).toHaveLength(1);
    expect(given.told('warning')).toEqual([]);
  });

  it('still triggers a warning of another lock that it forgot', async () => {
    const { getLock, run, told } = fakeHoldfast();
    await run(async () => {
      await getLock('a').lock();
      await getLock('a').forceUnlock();
      await getLock('b').lock();
    });
    expect(told('warning').map(({ lockName }) => lockName)).toEqual(['b']);
  });
});

describe('a lock() still in flight when its run ends', () => {
  it("belongs to the run around: that run's unlock() undoes it", async () => {
    const { getLock, run, server } = fakeHoldfast();
    server.hold('a');
    await run(async () => {
      let late!: Promise<void>;
      await run(async () => {
        late = getLock('a').lock();
        await settle();
      });
      server.free('a');
      await late;
      expect(await getLock('a').isHeldByCurrentOwner()).toBe(true);
      await getLock('a').unlock();
    });
    expect(server.heldNames).toEqual([]);
  });

  it('is anonymous when there is no run around', async () => {
    const { getLock, run, server } = fakeHoldfast();
    server.hold('a');
    let late!: Promise<void>;
    await run(async () => {
      late = getLock('a').lock();
      await settle();
    });
    server.free('a');
    await late;
    expect(server.heldNames).toEqual(['a']);
    await getLock('a').unlock();
    expect(server.heldNames).toEqual([]);
  });

  it('may be followed by work and unlock(), if none of them was awaited', async () => {
    const { getLock, run, server } = fakeHoldfast();
    server.hold('a');
    let late!: Promise<void>;
    await run(async () => {
      late = (async () => {
        await getLock('a').lock();
        await settle();
        await getLock('a').unlock();
      })();
      await settle();
    });
    server.free('a');
    await late;
    expect(server.heldNames).toEqual([]);
  });
});

describe('a timer set in a scope', () => {
  it('acts for the run that set it', async () => {
    const { getLock, run, server } = fakeHoldfast();
    await run(async () => {
      await getLock('a').lock();
      const fired = gate();
      setTimeout(() => void getLock('a').lock().then(fired.open), 1);
      await fired.opened;
      expect(server.holder('a')?.count).toBe(2);
      await getLock('a').unlock();
      await getLock('a').unlock();
    });
  });

  it('re-enters the withLock() in which it was set, and not after that has ended', async () => {
    const { getLock, server } = fakeHoldfast();
    const counts: (number | undefined)[] = [];
    const nested = (): Promise<void> =>
      getLock('a').withLock(() => void counts.push(server.holder('a')?.count));
    const fired = gate();
    await getLock('a').withLock(async () => {
      const inside = gate();
      setTimeout(() => void nested().then(inside.open), 1);
      setTimeout(() => void nested().then(fired.open), 30);
      await inside.opened;
    });
    await fired.opened;
    expect(counts).toEqual([2, 1]);
  });

  it('is anonymous when its run has ended: it shares nothing with other timers of that run', async () => {
    const { getLock, run, server } = fakeHoldfast();
    const section = new Occupancy();
    const late: Promise<void>[] = [];
    await run(() => {
      for (const who of ['1', '2']) {
        late.push(
          sleep(5).then(async () => {
            await getLock('a').lock();
            await section.inside(who, () => sleep(5));
            await getLock('a').unlock();
          }),
        );
      }
    });
    await Promise.all(late);
    expect(section.most).toBe(1);
    expect(server.heldNames).toEqual([]);
  });
});

describe('an event emitter', () => {
  it('runs its listeners in the scope of the emitting code, not of the code that added them', async () => {
    const { getLock, run, server } = fakeHoldfast();
    const emitter = new EventEmitter();
    const answers: Promise<boolean>[] = [];
    await run(async () => {
      await getLock('a').lock();
      emitter.on('job', () => answers.push(getLock('a').tryLock()));
      emitter.emit('job');
      expect(await answers[0]).toBe(true);
      await getLock('a').unlock();
      expect(server.heldNames).toEqual(['a']);
      await run(() => {
        emitter.emit('job');
        return answers[1];
      });
      expect(server.holder('a')?.count).toBe(1); // the inner run ended
      await getLock('a').unlock();
    });
    emitter.emit('job');
    expect(await answers[2]).toBe(true);
    expect(await getLock('a').isHeldByCurrentOwner()).toBe(true);
    await getLock('a').unlock();
    expect(server.heldNames).toEqual([]);
  });
});

describe('detach()', () => {
  it('leaves all scopes: calls inside are not nested in any', async () => {
    const { getLock, run, detach } = fakeHoldfast();
    await run(async () => {
      await getLock('a').lock();
      await getLock('b').withLock(async () => {
        expect(await detach(() => getLock('a').tryLock())).toBe(false);
        expect(await detach(() => getLock('b').tryLock())).toBe(false);
        expect(await getLock('a').tryLock()).toBe(true);
        await getLock('a').unlock();
      });
      await getLock('a').unlock();
    });
  });

  it('returns the result of its callback, and a lock() in it outlives the run', async () => {
    const { getLock, run, detach, server, told } = fakeHoldfast();
    await run(async () => {
      expect(detach(() => 42)).toBe(42);
      await detach(() => getLock('a').lock());
    });
    expect(server.heldNames).toEqual(['a']);
    expect(told('warning')).toEqual([]);
    await getLock('a').unlock();
  });
});
