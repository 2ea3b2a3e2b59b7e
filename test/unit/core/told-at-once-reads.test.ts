// A key that could not be read is read again: until then nobody would be told of its next change.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { fakeHoldfast } from '../../support/fake-holdfast.js';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

it('a holder whose key could not be read at first is told all the same', async () => {
  const fake = fakeHoldfast();
  const { server, holdfast } = fake;
  let failuresLeft = 3;
  server.fate = (command) => (command === 'look a' && failuresLeft-- > 0 ? 'loading' : 'answered');
  const hold = await fake.getLock('a').acquire();
  await vi.advanceTimersByTimeAsync(4_000);
  server.delete('a');
  await vi.advanceTimersByTimeAsync(50);
  expect(failuresLeft).toBeLessThan(0);
  expect(hold.signal.aborted).toBe(true);
  expect(fake.told('error')).toEqual([]);
  await holdfast.close();
});

it('a holder is told of a change that comes before the answer to a reading which knows nothing of it', async () => {
  const { server, holdfast, getLock } = fakeHoldfast();
  const hold = await getLock('a').acquire();
  await vi.advanceTimersByTimeAsync(1_000);
  const delaysMs = [0, 200]; // of the first message, and of the answer to the reading that follows
  server.travel = (to) => {
    const delayMs = to === 'client' ? (delaysMs.shift() ?? 0) : 0;
    return delayMs === 0 ? Promise.resolve() : new Promise((go) => setTimeout(go, delayMs));
  };
  server.execute('HSET', 'a', 'stranger', '1');
  await vi.advanceTimersByTimeAsync(100);
  expect(delaysMs).toEqual([]);
  server.delete('a');
  await vi.advanceTimersByTimeAsync(99);
  expect(hold.signal.aborted).toBe(false);
  await vi.advanceTimersByTimeAsync(51);
  expect(hold.signal.aborted).toBe(true);
  await holdfast.close();
});
