// The silence of a connection: told when an answer is overdue, and not before what came meanwhile was read.
import { AsyncLocalStorage } from 'node:async_hooks';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Silence } from '../../../src/redis/silence.js';

const LIMIT_MS = 1_000;
const onTooLong = vi.fn();
let silence: Silence;
let server: { bytesRead: number };

beforeEach(() => {
  vi.useFakeTimers();
  vi.clearAllMocks();
  server = { bytesRead: 0 };
  silence = new Silence(LIMIT_MS, 3 * LIMIT_MS, onTooLong, server);
});

afterEach(() => {
  silence.stop();
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

it('is told once nothing was answered for the limit', () => {
  silence.asked();
  vi.advanceTimersByTime(LIMIT_MS);
  expect(onTooLong).not.toHaveBeenCalled();
  vi.advanceTimersByTime(2);
  expect(onTooLong).toHaveBeenCalledOnce();
});

it('an answer puts it off', () => {
  silence.asked();
  silence.asked();
  vi.advanceTimersByTime(LIMIT_MS - 1);
  silence.answered();
  vi.advanceTimersByTime(LIMIT_MS - 1);
  expect(onTooLong).not.toHaveBeenCalled();
  vi.advanceTimersByTime(4);
  expect(onTooLong).toHaveBeenCalledOnce();
});

it('what an answer in the last moment leaves unanswered is still watched', () => {
  silence.asked();
  silence.asked();
  vi.advanceTimersByTime(LIMIT_MS); // overdue: what is unread is read first
  silence.answered();
  vi.advanceTimersByTime(2);
  expect(onTooLong).not.toHaveBeenCalled();
  vi.advanceTimersByTime(LIMIT_MS + 10);
  expect(onTooLong).toHaveBeenCalledOnce();
});

it('without anything unanswered there is nothing to tell, and no timer goes on', () => {
  silence.asked();
  silence.answered();
  vi.advanceTimersByTime(3 * LIMIT_MS);
  expect(onTooLong).not.toHaveBeenCalled();
  expect(vi.getTimerCount()).toBe(0);
});

it('a handshake that does not end is told, too', () => {
  silence.awaitHandshake();
  vi.advanceTimersByTime(LIMIT_MS + 1);
  expect(onTooLong).toHaveBeenCalledOnce();
  silence.awaitHandshake();
  silence.handshakeEnded();
  vi.advanceTimersByTime(LIMIT_MS);
  expect(onTooLong).toHaveBeenCalledOnce();
});

it('a handshake whose end waits to be read when the limit is over has ended', () => {
  silence.awaitHandshake();
  vi.advanceTimersByTime(LIMIT_MS); // the event loop was blocked for so long
  silence.handshakeEnded();
  vi.advanceTimersByTime(LIMIT_MS);
  expect(onTooLong).not.toHaveBeenCalled();
});

it('a handshake of which one step waits to be read when the limit is over has as long for the next one', () => {
  silence.awaitHandshake();
  vi.advanceTimersByTime(LIMIT_MS); // the event loop was blocked for so long
  server.bytesRead += 5;
  vi.advanceTimersByTime(LIMIT_MS);
  expect(onTooLong).not.toHaveBeenCalled();
  vi.advanceTimersByTime(2);
  expect(onTooLong).toHaveBeenCalledOnce();
});

it('the limit grows while nothing is answered in time, up to the longest, and is as before once answers come quickly', () => {
  const tellsAfter = (ms: number): void => {
    onTooLong.mockClear();
    silence.asked();
    vi.advanceTimersByTime(ms);
    expect(onTooLong).not.toHaveBeenCalled();
    vi.advanceTimersByTime(4);
    expect(onTooLong).toHaveBeenCalledOnce();
    silence.stop(); // the connection is dropped, and what was unanswered rejected
    silence.answered();
  };
  for (const limits of [1, 2, 3, 3]) tellsAfter(limits * LIMIT_MS);
  silence.asked();
  vi.advanceTimersByTime(2 * LIMIT_MS);
  silence.answered();
  tellsAfter(3 * LIMIT_MS);
  silence.asked();
  vi.advanceTimersByTime(LIMIT_MS / 4);
  silence.answered();
  tellsAfter(LIMIT_MS);
});

it('is told outside the context of whoever sent the command', async () => {
  vi.useRealTimers(); // faked ones know no contexts
  const storage = new AsyncLocalStorage<string>();
  const heardIn = new Promise<string | undefined>((resolve) => {
    const heard = (): void => {
      resolve(storage.getStore());
    };
    silence = new Silence(5, 5, heard, server);
  });
  storage.run('a caller', () => {
    silence.asked();
  });
  await expect(heardIn).resolves.toBeUndefined();
  silence.stop();
  vi.useFakeTimers();
});
