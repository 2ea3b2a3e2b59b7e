// stats().tracking: whether the server tells this client of changes of the keys of its locks.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Hold } from '../../../src/index.js';
import { fakeHoldfast, type FakeHoldfast, FakeServer } from '../../support/fake-holdfast.js';

const WATCHDOG_MS = 30_000;

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

function pass(ms: number): Promise<unknown> {
  return vi.advanceTimersByTimeAsync(ms);
}

async function held(server: FakeServer): Promise<FakeHoldfast & { hold: Hold }> {
  const fake = fakeHoldfast({ server });
  const hold = await fake.getLock('a').acquire();
  await pass(1_000);
  return { ...fake, hold };
}

describe('stats() says whether the server tells of changes', () => {
  it('unused without a long hold, unproven until the first renewal, which the server tells of, and unused again', async () => {
    const fake = fakeHoldfast();
    const { holdfast } = fake;
    expect(holdfast.stats().tracking).toEqual({ state: 'unused' });
    const hold = await fake.getLock('a').acquire();
    expect(holdfast.stats().tracking).toEqual({ state: 'unused' });
    await pass(1_000);
    expect(holdfast.stats().tracking).toEqual({ state: 'unproven' });
    await pass(WATCHDOG_MS / 3);
    expect(holdfast.stats().tracking).toEqual({ state: 'proven' });
    await hold.release();
    await pass(31_000);
    expect(holdfast.stats().tracking).toEqual({ state: 'unused' });
    await holdfast.close();
  });

  it('failed, with the words of the server', async () => {
    const server = new (class extends FakeServer {
      protected override client(): never {
        return { err: 'NOPERM not you' } as never;
      }
    })();
    const { hold, holdfast } = await held(server);
    expect(holdfast.stats().tracking).toEqual({ state: 'failed', reason: 'NOPERM not you' });
    await hold.release();
    await holdfast.close();
    expect(holdfast.stats().tracking).toEqual({ state: 'unused' });
  });

  it('unproven as long as the server accepts everything and says nothing', async () => {
    const server = new (class extends FakeServer {
      protected override invalidate(): void {
        // says nothing
      }
    })();
    const { hold, holdfast } = await held(server);
    await pass(WATCHDOG_MS);
    expect(holdfast.stats().tracking).toEqual({ state: 'unproven' });
    await hold.release();
    await holdfast.close();
  });
});
