// Acquisitions whose answer comes after their lease has ended: how often and how soon they are retried, and what the caller's error says.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { fakeHoldfast, type FakeHoldfast } from '../../support/fake-holdfast.js';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

const TOO_LATE = {
  code: 'REDIS_UNAVAILABLE',
  lockName: 'a',
  message: 'lock "a" not acquired: Redis took longer to answer than the lease of 30 ms',
};

/** A connected client with round trips of these lengths, in order; the last one repeats. */
async function over(...roundTripsMs: number[]): Promise<FakeHoldfast> {
  const fake = fakeHoldfast();
  await fake.holdfast.ping();
  let travelled = 0;
  fake.server.travel = () => {
    const index = Math.min(travelled++ >> 1, roundTripsMs.length - 1);
    return travelling(roundTripsMs[index]!)();
  };
  return fake;
}

/** The way there or back of a round trip of this length. */
function travelling(roundTripMs: number): () => Promise<void> {
  return () => new Promise((resolve) => setTimeout(resolve, roundTripMs / 2));
}

/** How many acquisitions reached the server. */
function triesIn({ server }: FakeHoldfast): number {
  return server.commands.filter((command) => command.startsWith('acquire')).length;
}

describe('a lease that is shorter than each round trip', () => {
  it('ends a wait without a limit after three tries', async () => {
    const fake = await over(100);
    const told = expect(fake.getLock('a').acquire({ lease: 30 })).rejects.toMatchObject(TOO_LATE);
    await vi.advanceTimersByTimeAsync(10_000);
    await told;
    expect(triesIn(fake)).toBe(3);
    expect(fake.server.heldNames).toEqual([]);
    await fake.holdfast.close();
    await vi.advanceTimersByTimeAsync(100);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('leaves the lock to other clients between the tries, longer each time', async () => {
    const { getLock, server } = await over(100);
    const sentAtMs: number[] = [];
    server.fate = (command) => {
      if (command.startsWith('acquire')) sentAtMs.push(performance.now() - 50);
      return 'answered';
    };
    const beganAtMs = performance.now();
    const told = expect(getLock('a').acquire({ lease: 30 })).rejects.toMatchObject(TOO_LATE);
    await vi.advanceTimersByTimeAsync(10_000);
    await told;
    expect(sentAtMs.map((ms) => ms - beganAtMs)).toEqual([0, 120, 260]);
  });

  it('is named in the error of a wait that ends between two tries', async () => {
    const fake = await over(100);
    const acquired = fake.getLock('a').acquire({ lease: 30, wait: 110 });
    const told = expect(acquired).rejects.toMatchObject(TOO_LATE);
    await vi.advanceTimersByTimeAsync(115);
    await told;
    expect(triesIn(fake)).toBe(1);
  });

  it('is named in the error of a wait that ends during a later try', async () => {
    const fake = await over(100);
    const acquired = fake.getLock('a').acquire({ lease: 30, wait: 200 });
    const told = expect(acquired).rejects.toMatchObject(TOO_LATE);
    await vi.advanceTimersByTimeAsync(225); // this try is answered after 220 ms
    await told;
    await vi.advanceTimersByTimeAsync(1_000);
    expect(triesIn(fake)).toBe(2);
    expect(fake.server.heldNames).toEqual([]);
  });

  it('is named in the error of a single attempt', async () => {
    const fake = await over(100);
    const acquired = fake.getLock('a').acquire({ lease: 30, wait: 0 });
    const told = expect(acquired).rejects.toMatchObject(TOO_LATE);
    await vi.advanceTimersByTimeAsync(1_000);
    await told;
    expect(triesIn(fake)).toBe(1);
  });

  it('delays neither an abort nor a close', async () => {
    const { getLock, holdfast } = await over(100);
    const abort = new AbortController();
    const { signal } = abort;
    const aborted = expect(getLock('a').acquire({ lease: 30, signal })).rejects.toMatchObject({
      code: 'LOCK_ABORTED',
    });
    const closed = expect(getLock('b').acquire({ lease: 30 })).rejects.toMatchObject({
      code: 'CLIENT_CLOSED',
    });
    await vi.advanceTimersByTimeAsync(110);
    abort.abort();
    await aborted;
    const closing = holdfast.close();
    await closed;
    await vi.advanceTimersByTimeAsync(10_000);
    await closing;
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('a wait continues', () => {
  // The second round trip removes what the late answer granted.
  it.each([
    ['one late answer', [100, 2]],
    ['two of them', [100, 2, 100, 2]],
  ])('after %s', async (_, roundTripsMs) => {
    const fake = await over(...roundTripsMs);
    const acquired = fake.getLock('a').acquire({ lease: 30 });
    await vi.advanceTimersByTimeAsync(1_000);
    expect((await acquired).lockName).toBe('a');
    expect(triesIn(fake)).toBe(1 + roundTripsMs.length / 2);
  });

  it('when an answer in time comes between late ones', async () => {
    const fake = await over(100, 2, 100, 2);
    const { server } = fake;
    const acquired = fake.getLock('a').acquire({ lease: 30 });
    await vi.advanceTimersByTimeAsync(205);
    server.hold('a', 'somebody-else:1', 600_000);
    await vi.advanceTimersByTimeAsync(1_000);
    server.travel = travelling(100);
    server.free('a');
    await vi.advanceTimersByTimeAsync(105);
    server.travel = travelling(2);
    await vi.advanceTimersByTimeAsync(100);
    expect((await acquired).lockName).toBe('a');
  });
});

it('a late refusal does not show that answers come in time', async () => {
  const fake = await over(100);
  const { server } = fake;
  const told = expect(fake.getLock('a').acquire({ lease: 30 })).rejects.toMatchObject(TOO_LATE);
  await vi.advanceTimersByTimeAsync(255);
  server.hold('a', 'somebody-else:1', 600_000);
  await vi.advanceTimersByTimeAsync(1_000);
  const before = triesIn(fake);
  server.free('a');
  await vi.advanceTimersByTimeAsync(1_000);
  await told;
  expect(triesIn(fake)).toBe(before + 1);
});

it('a timeout names the holder that was seen after a late answer', async () => {
  const { getLock, server } = await over(100, 2);
  const acquired = getLock('a').acquire({ lease: 30, wait: 500 });
  const told = expect(acquired).rejects.toMatchObject({
    code: 'LOCK_TIMEOUT',
    holder: 'somebody-else:1',
  });
  await vi.advanceTimersByTimeAsync(110);
  server.hold('a');
  await vi.advanceTimersByTimeAsync(500);
  await told;
});

it('the error names the failure of a try that was lost after a late answer: one node of a cluster may be gone', async () => {
  const { getLock, server } = await over(100);
  const acquired = getLock('a').acquire({ lease: 30, wait: 500 });
  const told = expect(acquired).rejects.toMatchObject({
    code: 'REDIS_UNAVAILABLE',
    message: expect.stringContaining(
      'did not answer within 500 ms (last error: the connection was lost)',
    ) as string,
  });
  await vi.advanceTimersByTimeAsync(110);
  server.fate = (command) => (command.startsWith('acquire') ? 'lost command' : 'answered');
  await vi.advanceTimersByTimeAsync(500);
  await told;
});

it('a lock that an unanswered try may have acquired is taken back, even if the next try was refused', async () => {
  const { getLock, server } = fakeHoldfast();
  server.fate = (command) => (command.startsWith('acquire') ? 'lost reply' : 'answered');
  const told = expect(getLock('a').acquire()).rejects.toThrow('NOPERM');
  await vi.advanceTimersByTimeAsync(10);
  expect(server.heldNames).toEqual(['a']);
  server.fate = (command) => (command.startsWith('acquire') ? 'denied' : 'answered');
  await vi.advanceTimersByTimeAsync(1_000);
  await told;
  expect(server.heldNames).toEqual([]);
});
