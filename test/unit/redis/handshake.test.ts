// A new connection is greeted until it is known who is at the other end.
import { setImmediate as turnOfTheEventLoop } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { UnavailableError } from '../../../src/api/errors.js';
import { LostError, replyError } from '../../../src/redis/failure.js';
import { Handshake } from '../../../src/redis/handshake.js';
import { Silence } from '../../../src/redis/silence.js';

const SILENCE_LIMIT_MS = 10_000;
const BUSY = replyError('BUSY Redis is busy running a script.');

let answers: (() => Promise<void>)[];
let greetings: number;
const done = vi.fn();
const refused = vi.fn();
const tooSilent = vi.fn();
let silence: Silence;
let handshake: Handshake;

beforeEach(() => {
  vi.useFakeTimers();
  for (const heard of [done, refused, tooSilent]) heard.mockReset();
  answers = [];
  greetings = 0;
  silence = new Silence(SILENCE_LIMIT_MS, SILENCE_LIMIT_MS, tooSilent, { bytesRead: 0 });
  done.mockImplementation(() => {
    silence.handshakeEnded();
  });
  refused.mockImplementation(() => {
    silence.handshakeEnded();
  });
  const greet = (): Promise<void> => {
    greetings++;
    return answers.shift()?.() ?? new Promise(() => undefined);
  };
  handshake = new Handshake(silence, { greet, done, refused });
});

afterEach(() => {
  handshake.stop();
  silence.stop();
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

const welcome = (): Promise<void> => Promise.resolve();
const unanswered = (): Promise<void> => Promise.reject(new LostError());
const busy = (): Promise<void> => Promise.reject(BUSY);
const refuse = (): Promise<void> => Promise.reject(new UnavailableError('too old'));

it('is done when the server has answered', async () => {
  answers = [welcome];
  handshake.begin();
  await vi.advanceTimersByTimeAsync(0);
  expect(done).toHaveBeenCalledOnce();
});

it('greets again soon when the node that was asked is gone and the connection to the others stays', async () => {
  answers = [unanswered, unanswered, welcome];
  handshake.begin();
  await vi.advanceTimersByTimeAsync(200);
  expect(done).toHaveBeenCalledOnce();
  expect(greetings).toBe(3);
});

it.each([
  ['the server has answered', [busy, busy, welcome]],
  ['the server refuses for good', [busy, refuse]],
  ['the node that was asked is gone', [busy, unanswered]],
])('knows why the server could not be greeted, until %s', async (_, course) => {
  answers = [...course];
  handshake.begin();
  await vi.advanceTimersByTimeAsync(10);
  expect(handshake.hindrance).toBe(BUSY);
  await vi.advanceTimersByTimeAsync(150);
  expect(handshake.hindrance).toBeUndefined();
});

it('greets again later when the server refuses, which is told at once', async () => {
  answers = [refuse, welcome];
  handshake.begin();
  await vi.advanceTimersByTimeAsync(0);
  expect(refused).toHaveBeenCalledOnce();
  await vi.advanceTimersByTimeAsync(900);
  expect(greetings).toBe(1);
  await vi.advanceTimersByTimeAsync(200);
  expect(done).toHaveBeenCalledOnce();
});

it('gives a server that does not answer no longer than others, however often it is greeted', async () => {
  answers = [unanswered, unanswered];
  handshake.begin();
  await vi.advanceTimersByTimeAsync(SILENCE_LIMIT_MS + 1);
  expect(tooSilent).toHaveBeenCalledOnce();
});

it('gives a server that refused, and then does not answer, no longer either', async () => {
  answers = [refuse];
  handshake.begin();
  await vi.advanceTimersByTimeAsync(1_000 + SILENCE_LIMIT_MS + 1);
  expect(tooSilent).toHaveBeenCalledOnce();
});

it('takes no interest in what comes after the end of the connection', async () => {
  for (const answer of [welcome, unanswered, refuse]) {
    answers = [answer];
    handshake.begin();
    handshake.stop();
    await vi.advanceTimersByTimeAsync(2_000);
  }
  expect(greetings).toBe(3);
  expect([done, refused].map((heard) => heard.mock.calls.length)).toEqual([0, 0]);
});

it('does not greet again when who is told of the answer fails: the server has answered', async () => {
  const defect = new Error('a listener failed');
  const unhandled: unknown[] = [];
  const others = process.listeners('unhandledRejection');
  process.removeAllListeners('unhandledRejection');
  process.on('unhandledRejection', (reason) => unhandled.push(reason));
  try {
    done.mockImplementation(() => {
      silence.handshakeEnded();
      throw defect;
    });
    answers = [welcome, welcome];
    handshake.begin();
    await vi.advanceTimersByTimeAsync(1_000);
    await turnOfTheEventLoop();
  } finally {
    process.removeAllListeners('unhandledRejection');
    for (const other of others) process.on('unhandledRejection', other);
  }
  expect(greetings).toBe(1);
  expect(unhandled).toEqual([defect]); // it is not swallowed either
});
