// A lock that another client of the same process holds: the wait and the error say so, and a nested wait is told as within one client.
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import { elsewhere } from '../../support/clients.js';
import { fakeHoldfast, type FakeHoldfast, sourceOf } from '../../support/fake-holdfast.js';

const NESTED = /another Holdfast of this process holds it around the call .*one Holdfast for both/;

let one: FakeHoldfast;
let two: FakeHoldfast;

beforeEach(() => {
  vi.useFakeTimers();
  one = fakeHoldfast({ clientId: 'one' });
  two = fakeHoldfast({ clientId: 'two', server: one.server });
});

afterEach(async () => {
  await Promise.all([one.holdfast.close(), two.holdfast.close()]);
  vi.useRealTimers();
});

afterAll(() => {
  vi.resetModules();
});

/** Waits by the second client, inside what the first holds. */
async function waitInside(): Promise<void> {
  const nested = two.getLock('a').acquire({ wait: 6_000 });
  const outcome = expect(nested).rejects.toThrow(NESTED);
  await vi.advanceTimersByTimeAsync(6_010);
  await outcome;
}

const ways: Record<string, () => Promise<unknown>> = {
  'withLock()': () => one.getLock('a').withLock(waitInside),
  'hold.run()': async () => (await one.getLock('a').acquire()).run(waitInside),
  'acquire() in a run': () =>
    one.run(async () => {
      const hold = await one.getLock('a').acquire();
      await waitInside();
      await hold.release();
    }),
  'lock() in a run': () =>
    two.run(async () => {
      await one.getLock('a').lock();
      await waitInside();
      await one.getLock('a').unlock();
    }),
  'lock() outside any run': async () => {
    await one.getLock('a').lock();
    await waitInside();
    await one.getLock('a').unlock();
  },
  'withLock() of a MultiLock': () => {
    const { holdfast, getLock } = one;
    return holdfast.getMultiLock(getLock('b'), getLock('a')).withLock(waitInside);
  },
};

describe('a call nested in a hold of another client, which would wait for itself', () => {
  it.for(Object.keys(ways))('is told after 5 s, and in its error: %s', async (way) => {
    await ways[way]?.();
    expect(two.told('warning')).toMatchObject([
      { lockName: 'a', message: expect.stringMatching(NESTED) as unknown },
    ]);
    expect(two.told('warning')[0]?.ownerId).toMatch(/^one-/);
    expect(one.told('warning')).toEqual([]);
  });

  it('may be nested in an acquire() outside any run, which is told after 30 s', async () => {
    const hold = await one.getLock('a').acquire();
    const waiting = two.getLock('a').acquire();
    await vi.advanceTimersByTimeAsync(45_000);
    expect(two.told('warning')).toMatchObject([{ lockName: 'a', ownerId: hold.ownerId }]);
    expect(two.told('warning')[0]?.message).toMatch(
      /for 30 s while another Holdfast of this process holds it .*one Holdfast for both/,
    );
    await hold.release();
    await (await waiting).release();
  });

  it('is seen over two copies of the package', async () => {
    vi.resetModules();
    const copy = await import('../../../src/holdfast.js');
    const other = new copy.Holdfast({ redis: sourceOf(one.server) });
    const warnings: string[] = [];
    other.on('warning', ({ message }) => warnings.push(message));
    await one.getLock('a').withLock(async () => {
      const nested = expect(other.getLock('a').acquire({ wait: 6_000 })).rejects.toThrow(NESTED);
      await vi.advanceTimersByTimeAsync(6_010);
      await nested;
    });
    expect(warnings).toEqual([expect.stringMatching(NESTED)]);
    await other.close();
  });
});

describe('a call that another client of this process keeps waiting', () => {
  const SAID =
    /held by one-\S+, .*; another Holdfast of this process has it: if this call is nested/;

  it('says so in its error, and warns of nothing while it is not nested', async () => {
    const hold = await one.getLock('a').acquire();
    await two.getLock('b').withLock(async () => {
      const waiting = expect(two.getLock('a').acquire({ wait: 20_000 })).rejects.toThrow(SAID);
      await vi.advanceTimersByTimeAsync(20_010);
      await waiting;
    });
    expect(two.told('warning')).toEqual([]);
    await hold.release();
  });

  it('says so for a permit, without the advice to re-enter, which no permit can be', async () => {
    const permits = await one.holdfast.getSemaphore('s', { permits: 1 }).acquire();
    const call = two.holdfast.getSemaphore('s', { permits: 1 }).acquire({ wait: 500 });
    const waiting = expect(call).rejects.toThrow(
      /; another Holdfast of this process has it: if this call is nested in that hold, it waits for itself$/,
    );
    await vi.advanceTimersByTimeAsync(510);
    await waiting;
    await permits.release();
  });

  it('says so for the member of a MultiLock', async () => {
    const hold = await one.getLock('a').acquire();
    const both = two.holdfast.getMultiLock(two.getLock('a'), two.getLock('b'));
    const waiting = expect(both.acquire({ wait: 500 })).rejects.toThrow(
      /its member "a" is held by one-\S+; another Holdfast of this process has it/,
    );
    await vi.advanceTimersByTimeAsync(510);
    await waiting;
    await hold.release();
  });

  it('is not told of a parallel branch that is not inside the hold', async () => {
    await one.run(async () => {
      const holding = one.getLock('a').withLock(() => vi.advanceTimersByTimeAsync(10_000));
      const waiting = two.getLock('a').acquire();
      await holding;
      await (await waiting).release();
    });
    expect(two.told('warning')).toEqual([]);
  });

  it.for<[string, (client: Holdfast) => Promise<void>]>([
    ['is closed', (client) => client.close()],
    ['is of another process', () => Promise.resolve()],
  ])('does not say so of a client that %s', async ([what, end]) => {
    const hold =
      what === 'is closed' && (await one.getLock('a').acquire({ lockAtLeastFor: 9_000 }));
    if (!hold) one.server.hold('a');
    await end(one.holdfast);
    const waiting = elsewhere(() => two.getLock('a').acquire({ wait: 500 }));
    const said = expect(waiting).rejects.toThrow(/^(?!.*this process)lock "a" not acquired/);
    await vi.advanceTimersByTimeAsync(510);
    await said;
  });
});
