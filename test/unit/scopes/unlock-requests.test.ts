// Outside any run, requests that share a lock and inherit each other's asynchronous context: no unlock() frees the lock of another one.
import { AsyncResource } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Lock } from '../../../src/api/lock.js';
import { elsewhere } from '../../support/clients.js';
import { fakeHoldfast, type FakeHoldfast } from '../../support/fake-holdfast.js';
import { gate, Occupancy, settle } from '../../support/occupancy.js';

const NOT_HELD = { code: 'LOCK_NOT_HELD' };
const LOST = { code: 'LOCK_LOST' };

let client: FakeHoldfast;
let lock: Lock;

beforeEach(() => {
  client = fakeHoldfast();
  lock = client.getLock('a');
});

/** How long a step takes: nothing is awaited, only promises are, or a timer. */
type Delay = () => Promise<void> | undefined;
const DELAYS: Record<string, Delay> = {
  none: () => undefined,
  promises: async () => {
    for (let step = 0; step < 20; step++) await Promise.resolve();
  },
  timer: () => sleep(4),
};
const delays = Object.values(DELAYS);

/** Every way to pick one of `choices` for each of `count` places. */
function picks<T>(choices: readonly T[], count: number): T[][] {
  if (count === 0) return [[]];
  return picks(choices, count - 1).flatMap((rest) => choices.map((choice) => [...rest, choice]));
}

async function codeOf(call: Promise<unknown>): Promise<string> {
  return await call.then(
    () => 'ok',
    (error: unknown) => (error as { code: string }).code,
  );
}

describe('finally { unlock() } behind a tryLock(), with delays before, between and after', () => {
  /** The first request holds the lock until the others have ended; then one more comes. */
  async function play(name: string, steps: Delay[]): Promise<[most: number, outcomes: string[]]> {
    const [before, between, after] = steps as [Delay, Delay, Delay];
    const section = new Occupancy();
    const shared = client.getLock(name);
    const outcomes: string[] = [];
    const request = async (who: string, work: () => Promise<unknown>): Promise<void> => {
      let isLocked = false;
      try {
        if (who !== 'first') await before();
        isLocked = await shared.tryLock();
        if (isLocked) await section.inside(who, work);
        if (isLocked) await between();
      } finally {
        await after();
        outcomes.push(`${who}: ${String(isLocked)}, ${await codeOf(shared.unlock())}`);
      }
    };
    const othersEnded = gate();
    const first = request('first', () => othersEnded.opened);
    await Promise.all([
      sleep(8).then(() => request('delayed', settle)),
      request('at once', settle),
      sleep(16).then(() => request('later', settle)),
    ]);
    othersEnded.open();
    await first;
    await request('last', settle);
    return [section.most, outcomes.sort()];
  }

  it('only a request that got the lock frees it', async () => {
    const all = picks(delays, 3);
    const played = await Promise.all(
      all.map((steps, index) => elsewhere(() => play(`requests:${String(index)}`, steps))),
    );
    const busy = 'false, LOCK_NOT_HELD';
    expect(played).toEqual(
      all.map(() => [
        1,
        [
          `at once: ${busy}`,
          `delayed: ${busy}`,
          'first: true, ok',
          'last: true, ok',
          `later: ${busy}`,
        ],
      ]),
    );
    expect(client.server.heldNames).toEqual([]);
  });
});

describe('Promise.race of lock() with a timer', () => {
  it.each([0, 10])(
    'a request that comes %d ms later and gives up frees nothing, and later its own lock',
    async (laterMs) => {
      const unlocks: string[] = [];
      const givenUp = gate();
      const first = async (): Promise<void> => {
        await lock.lock();
        await givenUp.opened;
        unlocks.push(`first ${await codeOf(lock.unlock())}`);
      };
      const impatient = async (): Promise<void> => {
        const locking = lock.lock();
        await Promise.race([locking, sleep(5)]);
        await expect(lock.unlock()).rejects.toThrow('still under way');
        expect(await lock.isHeldByCurrentOwner()).toBe(false);
        unlocks.push('impatient gives up');
        givenUp.open();
        await locking;
        unlocks.push(`impatient ${await codeOf(lock.unlock())}`);
      };
      const started = laterMs === 0 ? [first(), impatient()] : [first(), sleep(10).then(impatient)];
      await Promise.all(started);
      expect(unlocks).toEqual(['impatient gives up', 'first ok', 'impatient ok']);
      expect(client.server.heldNames).toEqual([]);
    },
  );
});

describe('a second unlock()', () => {
  it.each(Object.entries(DELAYS))(
    'frees no lock that another request took since (%s)',
    async (_, delay) => {
      await elsewhere(async () => {
        await lock.lock();
        await lock.unlock();
        await delay();
        await elsewhere(() => lock.lock());
        await delay();
        await expect(lock.unlock()).rejects.toMatchObject({
          ...NOT_HELD,
          message: expect.stringContaining('unlocked already') as unknown,
        });
      });
      expect(client.server.heldNames).toEqual(['a']);
      await elsewhere(() => lock.unlock());
    },
  );

  it('frees no read lock of a request beside it', async () => {
    const readLock = client.holdfast.getReadWriteLock('rw').readLock();
    const { opened, open } = gate();
    const slow = async (): Promise<void> => {
      await readLock.lock();
      await opened;
      await readLock.unlock();
    };
    const hasty = async (): Promise<void> => {
      await readLock.lock();
      await readLock.unlock();
      await expect(readLock.unlock()).rejects.toMatchObject(NOT_HELD);
    };
    const reading = slow();
    await hasty();
    open();
    await reading;
    expect(client.server.access('rw')).toBe('');
  });

  it('undoes the lock around a helper that has undone its own', async () => {
    const readLock = client.holdfast.getReadWriteLock('rw').readLock();
    const helper = async (): Promise<void> => {
      await readLock.lock();
      await readLock.unlock();
    };
    await readLock.lock();
    await helper();
    expect(await readLock.getHoldCount()).toBe(1);
    await readLock.unlock();
    expect(client.server.access('rw')).toBe('');
    await expect(readLock.unlock()).rejects.toMatchObject(NOT_HELD);
  });

  it('while the first is under way is refused; of two read locks each undoes one', async () => {
    await lock.lock();
    const [first, second] = [lock.unlock(), lock.unlock()];
    await expect(second).rejects.toMatchObject(NOT_HELD);
    await first;
    const readLock = client.holdfast.getReadWriteLock('rw').readLock();
    await readLock.lock();
    await readLock.lock();
    await Promise.all([readLock.unlock(), readLock.unlock()]);
    expect(client.server.access('rw')).toBe('');
  });

  it('frees nothing after other code has undone the lock', async () => {
    const { opened, open } = gate();
    const job = elsewhere(async () => {
      await lock.lock();
      await opened;
      await expect(lock.unlock()).rejects.toMatchObject(NOT_HELD);
    });
    await settle();
    await elsewhere(() => lock.unlock());
    await elsewhere(() => lock.lock());
    open();
    await job;
    expect(client.server.heldNames).toEqual(['a']);
    await elsewhere(() => lock.unlock());
  });
});

describe('an unlock() that is refused though its lock is held', () => {
  /** What the error says: the lock stays held, and what to write instead. */
  const EXPLAINED =
    /stays held until its client closes.*tryLock\(wait\).*acquire\(\).*withLock\(\).*run\(\).*detach\(\)/;

  it.each(Object.entries(DELAYS))(
    "is that of the outer lock() after a helper's failed try in the same context (%s)",
    async (_, delay) => {
      await elsewhere(async () => {
        await lock.lock();
        await delay();
        const helper = async (): Promise<boolean> => {
          const isLocked = await lock.tryLock();
          await delay();
          return isLocked;
        };
        expect(await helper()).toBe(false);
        await delay();
        await expect(lock.unlock()).rejects.toThrow(EXPLAINED);
        expect(await lock.isHeldByCurrentOwner()).toBe(false);
        expect(await lock.getHoldCount()).toBe(0);
      });
      expect(client.server.heldNames).toEqual(['a']);
      await elsewhere(() => lock.unlock());
    },
  );

  it('is not that of the outer lock() when the helper detaches its try, or awaits something first', async () => {
    for (const helper of [
      () => client.detach(() => lock.tryLock()),
      async () => {
        await settle();
        return await lock.tryLock();
      },
    ]) {
      await lock.lock();
      expect(await helper()).toBe(false);
      await lock.unlock();
    }
    expect(client.server.heldNames).toEqual([]);
  });

  it.each(Object.entries(DELAYS))(
    'is that of code that awaits Promise.all of several tries (%s)',
    async (_, delay) => {
      await elsewhere(async () => {
        const tries = Promise.all([lock.tryLock(), lock.tryLock()]);
        await delay();
        expect(await tries).toEqual([true, false]);
        await delay();
        await expect(lock.unlock()).rejects.toThrow(EXPLAINED);
      });
      expect(client.server.heldNames).toEqual(['a']);
      await elsewhere(() => lock.unlock());
    },
  );

  it.each(Object.entries(DELAYS))(
    'is that of code whose helper repeats tryLock(), but only under contention (%s)',
    async (_, delay) => {
      const untilLocked = async (): Promise<void> => {
        while (!(await lock.tryLock())) {
          await elsewhere(() => lock.unlock());
          await delay();
        }
      };
      await elsewhere(() => lock.lock());
      await elsewhere(async () => {
        await untilLocked();
        await delay();
        await expect(lock.unlock()).rejects.toThrow(EXPLAINED);
      });
      expect(client.server.heldNames).toEqual(['a']);
      await elsewhere(() => lock.unlock());
      await elsewhere(async () => {
        await untilLocked();
        await lock.unlock();
      });
      expect(client.server.heldNames).toEqual([]);
    },
  );
});

describe('the loss of a lock', () => {
  it('is told to the caller whose lock it was, and not to another one, whose lock it frees', async () => {
    const { opened, open } = gate();
    const first = elsewhere(async () => {
      await lock.lock();
      await opened;
      await expect(lock.unlock()).rejects.toMatchObject(LOST);
      await expect(lock.unlock()).rejects.toMatchObject(NOT_HELD);
    });
    await settle();
    await lock.forceUnlock();
    await elsewhere(async () => {
      await lock.lock();
      expect(await lock.isHeldByCurrentOwner()).toBe(true);
      await lock.unlock();
    });
    expect(client.server.heldNames).toEqual([]);
    open();
    await first;
  });

  it('is told to code without a call of its own, which frees nobody’s lock', async () => {
    await elsewhere(() => lock.lock());
    await lock.forceUnlock();
    await elsewhere(() => lock.lock());
    expect(await elsewhere(() => lock.isHeldByCurrentOwner())).toBe(false);
    await elsewhere(() => expect(lock.unlock()).rejects.toMatchObject(LOST));
    expect(client.server.heldNames).toEqual(['a']);
    await elsewhere(() => lock.unlock());
    expect(client.server.heldNames).toEqual([]);
  });

  it('is told once: to code without a call of its own, or to the caller', async () => {
    const { opened, open } = gate();
    const first = elsewhere(async () => {
      await lock.lock();
      await opened;
      await expect(lock.unlock()).rejects.toMatchObject(NOT_HELD);
    });
    await settle();
    await lock.forceUnlock();
    await elsewhere(() => expect(lock.unlock()).rejects.toMatchObject(LOST));
    open();
    await first;
  });
});

describe('events of one socket', () => {
  it('a failed try of one event does not count in the next, nor does a lock that was undone', async () => {
    const socket = new AsyncResource('socket'); // before Node.js 24 the store of one event stays for the next
    await elsewhere(() => lock.lock());
    await socket.runInAsyncScope(async () => {
      expect(await lock.tryLock()).toBe(false);
      await expect(lock.unlock()).rejects.toMatchObject(NOT_HELD);
    });
    await socket.runInAsyncScope(() => lock.unlock()); // without a call of its own: the oldest
    await socket.runInAsyncScope(async () => {
      await lock.lock();
      await lock.unlock();
      await expect(lock.unlock()).rejects.toMatchObject(NOT_HELD);
    });
    await elsewhere(() => lock.lock());
    await socket.runInAsyncScope(() => lock.unlock());
    expect(client.server.heldNames).toEqual([]);
  });
});

describe('an unlock() whose release fails', () => {
  const denyReleases = ({ server }: FakeHoldfast): void => {
    server.fate = (command) => (command.startsWith('release') ? 'denied' : 'answered');
  };
  const permit = ({ server }: FakeHoldfast): void => {
    server.fate = () => 'answered';
  };

  it('may be repeated, and frees no lock that another request took since', async () => {
    await elsewhere(async () => {
      await lock.lock(200);
      denyReleases(client);
      await expect(lock.unlock()).rejects.toMatchObject({
        code: 'REDIS_UNAVAILABLE',
        message: expect.stringMatching(/or unlock\(\) in the code that called lock\(\)/) as unknown,
      });
      await expect(lock.unlock()).rejects.toMatchObject({ code: 'REDIS_UNAVAILABLE' });
      await expect(elsewhere(() => lock.unlock())).rejects.toMatchObject(NOT_HELD);
      permit(client);
      expect(await lock.isHeldByCurrentOwner()).toBe(true);
      await lock.unlock();
      expect(client.server.heldNames).toEqual([]);
      await elsewhere(() => lock.lock());
      await expect(lock.unlock()).rejects.toMatchObject(NOT_HELD);
    });
    expect(client.server.heldNames).toEqual(['a']);
    await elsewhere(() => lock.unlock());
  });

  it('of a MultiLock may be repeated, though some members were freed', async () => {
    const other = fakeHoldfast({ clientId: 'other' });
    const multi = client.holdfast.getMultiLock(client.getLock('a'), other.getLock('b'));
    await multi.lock();
    denyReleases(other);
    await expect(multi.unlock()).rejects.toMatchObject({ code: 'REDIS_UNAVAILABLE' });
    expect(other.server.heldNames).toEqual(['b']);
    permit(other);
    await multi.unlock();
    expect([client.server.heldNames, other.server.heldNames]).toEqual([[], []]);
    await expect(multi.unlock()).rejects.toMatchObject(NOT_HELD);
  });
});
