// Calls that are probably mistakes: they trigger one warning, or an error that leads to the mistake.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Lock } from '../../../src/index.js';
import { elsewhere } from '../../support/clients.js';
import { fakeHoldfast, type FakeHoldfast } from '../../support/fake-holdfast.js';
import { settle } from '../../support/occupancy.js';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

describe('two overlapping calls of one run', () => {
  it('trigger a warning, once per name', async () => {
    const { getLock, run, told, processWarnings } = fakeHoldfast();
    for (let round = 0; round < 2; round++) {
      await run(async () => {
        const lock = getLock('a');
        await Promise.all([lock.lock(), lock.lock(), lock.tryLock()]);
        for (let i = 0; i < 3; i++) await lock.unlock();
      });
    }
    expect(told('warning')).toMatchObject([{ lockName: 'a' }]);
    expect(told('warning')[0]?.message).toMatch(/"a".*overlap.*withLock/);
    expect(processWarnings).toHaveLength(1);
    await run(async () => {
      await Promise.all([getLock('b').lock(), getLock('b').lock()]);
      await getLock('b').unlock();
      await getLock('b').unlock();
    });
    expect(told('warning').map(({ lockName }) => lockName)).toEqual(['a', 'b']);
  });

  it('of a MultiLock do so as well', async () => {
    const given = fakeHoldfast();
    await given.run(async () => {
      const lock = multiLock(given);
      await Promise.all([lock.lock(), lock.lock()]);
      await lock.unlock();
      await lock.unlock();
    });
    expect(given.told('warning')).toMatchObject([{ lockName: 'multi(x, y)' }]);
  });

  it('trigger a warning even if the first has long waited', async () => {
    const { getLock, run, server, told } = fakeHoldfast();
    server.hold('a');
    await run(async () => {
      const first = getLock('a').lock();
      await vi.advanceTimersByTimeAsync(3_000);
      expect(told('warning')).toEqual([]);
      expect(await getLock('a').tryLock()).toBe(false);
      expect(told('warning')).toHaveLength(1);
      server.free('a');
      await first;
      await getLock('a').unlock();
    });
  });

  it('trigger none if they come one after another, are for several locks or runs, or are withLock() calls', async () => {
    const { getLock, run, told } = fakeHoldfast();
    const lock = getLock('a');
    await run(async () => {
      await lock.lock();
      await lock.lock();
      await lock.unlock();
      await lock.unlock();
      await Promise.all([lock.lock(), getLock('b').lock()]);
      await lock.unlock();
      await getLock('b').unlock();
      await Promise.all([lock.withLock(settle), lock.withLock(settle)]);
      const branch = (): Promise<void> =>
        run(async () => {
          await lock.lock();
          await lock.unlock();
        });
      await Promise.all([branch(), branch()]);
    });
    const anonymous = [lock.lock(), lock.lock()];
    await anonymous[0];
    await elsewhere(() => lock.unlock());
    await anonymous[1];
    await lock.unlock();
    expect(told('warning')).toEqual([]);
  });
});

it('the process gets one warning for each kind of mistake with a name', async () => {
  const { getLock, run, processWarnings } = fakeHoldfast();
  for (let round = 0; round < 2; round++) {
    await run(() => getLock('a').lock()); // forgotten
    await getLock('a').lock(30);
    await vi.advanceTimersByTimeAsync(200);
  }
  expect(processWarnings).toHaveLength(2);
});

describe('unlock() with nothing to undo', () => {
  it.each(['in a run', 'outside any run'])(
    '%s reports that the lock() was not awaited',
    async (where) => {
      const given = fakeHoldfast();
      const work = async (): Promise<void> => {
        for (const lock of [given.getLock('a'), multiLock(given)]) {
          const locking = lock.lock();
          await expect(lock.unlock()).rejects.toMatchObject({
            code: 'LOCK_NOT_HELD',
            lockName: lock.name,
            message: expect.stringMatching(/lock\(\) .*not awaited/) as unknown,
          });
          await locking;
          await lock.unlock();
        }
      };
      await (where === 'in a run' ? given.run(work) : work());
      expect(given.server.heldNames).toEqual([]);
    },
  );

  it('does not report so of the lock() of another run, or of another kind of call', async () => {
    const { getLock, run, server } = fakeHoldfast();
    server.hold('a');
    const lock = getLock('a');
    const others = [run(() => lock.tryLock(1_000)), lock.tryAcquire({ wait: 1_000 })];
    const refused = { message: expect.not.stringContaining('awaited') as unknown };
    await expect(lock.unlock()).rejects.toMatchObject(refused);
    await expect(run(() => lock.unlock())).rejects.toMatchObject(refused);
    await vi.advanceTimersByTimeAsync(1_010);
    await Promise.all(others);
  });

  it.each(['in a run', 'outside any run'])(
    'inside withLock(), %s, reports that withLock() releases it',
    async (where) => {
      const given = fakeHoldfast();
      const { getLock, run, server } = given;
      const inside = async (lock: Lock): Promise<void> => {
        await lock.withLock(async () => {
          await expect(lock.unlock()).rejects.toMatchObject({
            code: 'LOCK_NOT_HELD',
            message: expect.stringMatching(/withLock\(\).*release/) as unknown,
          });
        });
      };
      const work = async (): Promise<void> => {
        await inside(getLock('a'));
        await inside(multiLock(given));
      };
      await (where === 'in a run' ? run(work) : work());
      expect(server.heldNames).toEqual([]);
    },
  );
});

function multiLock({ holdfast, getLock }: FakeHoldfast): Lock {
  return holdfast.getMultiLock(getLock('x'), getLock('y'));
}
