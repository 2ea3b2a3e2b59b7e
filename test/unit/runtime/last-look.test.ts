// The end of a wait: "somebody else has it" is said of now, so after a long sleep the lock is looked at once more.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { WaitLimit } from '../../../src/runtime/wait-limit.js';
import { fakeHoldfast, ownerOfMe } from '../../support/fake-holdfast.js';
import { settle } from '../../support/occupancy.js';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

const never = new Promise<void>(() => undefined);

describe('a wait that ends after a long sleep', () => {
  it('looks once more, 800 ms before', async () => {
    const { getLock, server, holdfast } = fakeHoldfast();
    server.hold('a');
    const trying = getLock('a').tryLock(5_000);
    await settle();
    const { length } = server.commands;
    await vi.advanceTimersByTimeAsync(4_198);
    expect(server.commands).toHaveLength(length);
    await vi.advanceTimersByTimeAsync(2);
    expect(server.commands).toHaveLength(length + 1);
    await vi.advanceTimersByTimeAsync(802);
    expect(await trying).toBe(false);
    expect(server.commands).toHaveLength(length + 1);
    await holdfast.close();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('gets a lock that was free for long, of which no message came', async () => {
    const { getLock, server } = fakeHoldfast();
    server.hold('a', 'somebody-else:1', 600_000);
    const trying = getLock('a').tryLock(5_000);
    await vi.advanceTimersByTimeAsync(1_000);
    server.delete('a');
    await vi.advanceTimersByTimeAsync(3_205);
    expect(await trying).toBe(true);
    await getLock('a').unlock();
  });

  it('names who has it now, not who had it at first', async () => {
    const { getLock, server } = fakeHoldfast();
    server.hold('a', 'first:1', 600_000);
    const refused = expect(getLock('a').acquire({ wait: 5_000 })).rejects.toMatchObject({
      code: 'LOCK_TIMEOUT',
      holder: 'second:1',
    });
    await vi.advanceTimersByTimeAsync(1_000);
    server.hold('a', 'second:1', 600_000);
    await vi.advanceTimersByTimeAsync(5_000);
    await refused;
  });

  it.each(['never comes', 'fails'])('is no timeout when its answer %s', async (what) => {
    const { getLock, server } = fakeHoldfast();
    server.hold('a', 'somebody-else:1', 600_000);
    const refused = expect(getLock('a').acquire({ wait: 5_000 })).rejects.toMatchObject({
      code: 'REDIS_UNAVAILABLE',
    });
    await vi.advanceTimersByTimeAsync(1_000);
    if (what === 'fails') server.fate = () => 'lost command';
    else server.travel = () => never;
    await vi.advanceTimersByTimeAsync(4_010);
    await refused;
  });

  it('does not look again when it has asked lately', async () => {
    const { getLock, server } = fakeHoldfast();
    server.hold('a', 'somebody-else:1', 600_000);
    const trying = getLock('a').tryLock(5_000);
    await vi.advanceTimersByTimeAsync(4_150);
    const { length } = server.commands;
    server.free('a'); // wakes it; somebody else is faster
    server.hold('a', 'faster:1', 600_000);
    await vi.advanceTimersByTimeAsync(40);
    expect(server.commands).toHaveLength(length + 1);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(await trying).toBe(false);
    expect(server.commands).toHaveLength(length + 1);
  });

  it('looks once more after a try that was on its way for too long to be young at the end', async () => {
    const { getLock, server } = fakeHoldfast();
    server.hold('a', 'somebody-else:1', 600_000);
    const lock = getLock('a');
    const patient = lock.acquire();
    await settle();
    const refused = expect(lock.acquire({ wait: 5_000 })).rejects.toMatchObject({
      code: 'LOCK_TIMEOUT',
      holder: 'faster:1',
    });
    await vi.advanceTimersByTimeAsync(4_080);
    server.travel = () => new Promise((resolve) => setTimeout(resolve, 75));
    server.free('a'); // who is first tries, too late
    server.hold('a', 'faster:1', 600_000);
    await vi.advanceTimersByTimeAsync(930);
    await refused;
    server.free('a');
    await vi.advanceTimersByTimeAsync(1_000);
    const released = (await patient).release();
    await vi.advanceTimersByTimeAsync(1_000);
    await released;
  });

  it('does not take a turn from those of this client who are before it: they look for all', async () => {
    const { getLock, server } = fakeHoldfast();
    server.hold('a', 'somebody-else:1', 600_000);
    const lock = getLock('a');
    const patient = lock.acquire();
    await settle();
    const others = Array.from({ length: 20 }, () => lock.tryLock(5_000));
    await settle();
    const { length } = server.commands;
    await vi.advanceTimersByTimeAsync(5_010);
    expect(await Promise.all(others)).toEqual(others.map(() => false));
    expect(server.commands.length - length).toBeLessThanOrEqual(2);
    const late = lock.acquire({ wait: 5_000 });
    const refused = expect(late).rejects.toMatchObject({ holder: ownerOfMe(1) });
    await settle();
    server.delete('a');
    await vi.advanceTimersByTimeAsync(5_010);
    const hold = await patient; // who came first has it
    await refused;
    await hold.release();
  });

  it('a wait of 900 ms needs no second look', async () => {
    const { getLock, server } = fakeHoldfast();
    server.hold('a');
    const trying = getLock('a').tryLock(900);
    await settle();
    const { length } = server.commands;
    await vi.advanceTimersByTimeAsync(1_010);
    expect(await trying).toBe(false);
    expect(server.commands).toHaveLength(length);
  });

  it('a wait for ever sets no timer for it', async () => {
    const { getLock, server } = fakeHoldfast();
    server.hold('a', 'somebody-else:1', 600_000);
    const aborter = new AbortController();
    const waiting = expect(getLock('a').acquire({ signal: aborter.signal })).rejects.toThrow();
    await vi.advanceTimersByTimeAsync(2_000);
    const { length } = server.commands;
    await vi.advanceTimersByTimeAsync(60_000);
    expect(server.commands.length - length).toBeLessThanOrEqual(6); // its regular looks
    aborter.abort();
    await waiting;
  });
});

describe('a valid grant of this very client is as good as an answer', () => {
  it('to a caller that waits in line', async () => {
    const { getLock, server } = fakeHoldfast({ lockWatchdogTimeout: 600_000 });
    const hold = await getLock('a').acquire();
    const trying = getLock('a').tryLock(5_000);
    await settle();
    server.travel = () => never;
    await vi.advanceTimersByTimeAsync(5_010);
    expect(await trying).toBe(false);
    expect(hold.remaining()).toBeGreaterThan(0);
  });

  it('to a caller that waits for a sibling inside one holder', async () => {
    const { getLock, server } = fakeHoldfast({ lockWatchdogTimeout: 600_000 });
    const lock = getLock('a');
    await lock.withLock(async (outer) => {
      const sibling = await lock.acquire();
      const trying = lock.acquire({ wait: 5_000 });
      const refused = expect(trying).rejects.toMatchObject({ holder: outer.ownerId });
      await vi.advanceTimersByTimeAsync(5_010);
      await refused;
      await sibling.release();
    });
    expect(server.heldNames).toEqual([]);
  });

  it('and one that is over is not', async () => {
    const { getLock, server } = fakeHoldfast({ lockWatchdogTimeout: 600_000 });
    await getLock('a').acquire({ lease: 3_000 });
    const refused = expect(getLock('a').acquire({ wait: 5_000 })).rejects.toMatchObject({
      code: 'REDIS_UNAVAILABLE',
    });
    await settle();
    server.travel = () => never;
    await vi.advanceTimersByTimeAsync(5_010);
    await refused;
  });
});

describe('a timeout while a caller of the same client has the lock', () => {
  it('says so, and that several locks are taken by getMultiLock(): callers over x and y wait for each other', async () => {
    const { getLock } = fakeHoldfast();
    const over = (mine: string, other: string, waitMs: number): Promise<unknown> =>
      getLock(mine).withLock(async () => {
        await settle();
        await getLock(other).withLock({ wait: waitMs }, settle);
      });
    const refused = expect(over('x', 'y', 5_000)).rejects.toMatchObject({
      code: 'LOCK_TIMEOUT',
      message: expect.stringMatching(
        /another caller of this client has it: .*getMultiLock\(\)/,
      ) as unknown,
    });
    const other = over('y', 'x', 60_000);
    await settle();
    await vi.advanceTimersByTimeAsync(5_100);
    await refused;
    await other;
  });

  it('does not say so of the lock of another client', async () => {
    const { getLock, server } = fakeHoldfast();
    server.hold('a', 'meanwhile:1');
    const error = getLock('a')
      .acquire({ wait: 50 })
      .catch((reason: unknown) => reason);
    await vi.advanceTimersByTimeAsync(60);
    expect(await error).toMatchObject({ code: 'LOCK_TIMEOUT' });
    expect(String(await error)).not.toContain('this client');
  });
});

describe('the look before the end of a patience', () => {
  it('is called 800 ms before, once', async () => {
    const waitLimit = new WaitLimit({ limitMs: 5_000 });
    const look = vi.fn();
    waitLimit.lookBeforeEnd(look);
    const over = expect(waitLimit.within(never)).rejects.toMatchObject({ ending: 'timeout' });
    await vi.advanceTimersByTimeAsync(4_198);
    expect(look).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(2);
    expect(look).toHaveBeenCalledOnce();
    await vi.advanceTimersByTimeAsync(802);
    await over;
    expect(look).toHaveBeenCalledOnce();
    waitLimit.dispose();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('does not lengthen a wait that has less than that left', async () => {
    const waitLimit = new WaitLimit({ limitMs: 500 });
    const look = vi.fn();
    waitLimit.lookBeforeEnd(look);
    const over = expect(waitLimit.within(never)).rejects.toMatchObject({ ending: 'timeout' });
    await vi.advanceTimersByTimeAsync(502);
    await over;
    expect(look).toHaveBeenCalledOnce();
  });

  it.each([
    ['before it', 4_000, 200],
    ['between it and the end', 4_500, 500],
  ])(
    'has a moment for its answer when the loop was blocked from %s until long after',
    async (_, atMs, untilTimerMs) => {
      const waitLimit = new WaitLimit({ limitMs: 5_000 });
      const looks: number[] = [];
      const begunMs = performance.now();
      waitLimit.lookBeforeEnd(() => looks.push(performance.now() - begunMs) === 0);
      const over = expect(waitLimit.within(never)).rejects.toMatchObject({ ending: 'timeout' });
      await vi.advanceTimersByTimeAsync(atMs);
      block(60_000);
      await vi.advanceTimersByTimeAsync(untilTimerMs);
      expect(looks.at(-1)).toBeGreaterThanOrEqual(atMs + 60_000);
      expect(waitLimit.endsAtMs - begunMs - looks.at(-1)!).toBeCloseTo(100, 0);
      await vi.advanceTimersByTimeAsync(102);
      await over;
    },
  );
});

/** Time goes by, and no timer is called. */
function block(ms: number): void {
  const now = performance.now.bind(performance);
  vi.spyOn(performance, 'now').mockImplementation(() => now() + ms);
}
