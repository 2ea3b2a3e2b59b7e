// Retrying until there is an answer: which commands are sent again, which are not, and that a repeat is marked as one.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { retry, Undecided } from '../../../src/core/retry.js';
import { quorumError } from '../../../src/locks/redlock/election.js';
import { LostError, UnwantedError } from '../../../src/redis/failure.js';
import { WaitLimit } from '../../../src/runtime/wait-limit.js';
import { alwaysReady } from '../../support/fake-holdfast.js';

const send = vi.fn<(isRepeat: boolean) => Promise<string>>();

beforeEach(() => {
  vi.useFakeTimers();
  vi.resetAllMocks();
});

afterEach(() => {
  vi.useRealTimers();
});

function reply(message: string): Error {
  return Object.assign(new Error(message), { name: 'ReplyError' });
}

function ask(limitMs = Infinity): Promise<string> {
  const asking = retry(alwaysReady, new WaitLimit({ limitMs }), { name: 'orders' }, send);
  asking.catch(() => undefined);
  return asking;
}

it('an immediate answer takes one command', async () => {
  send.mockResolvedValueOnce('answer');
  expect(await ask()).toBe('answer');
  expect(send.mock.calls).toEqual([[false, undefined]]);
});

it('a command is sent again after a lost connection, as a repeat, with growing pauses', async () => {
  send.mockRejectedValueOnce(new LostError());
  send.mockRejectedValueOnce(new LostError());
  send.mockResolvedValueOnce('answer');
  const asking = ask();
  await vi.advanceTimersByTimeAsync(19);
  expect(send).toHaveBeenCalledTimes(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(send).toHaveBeenCalledTimes(2);
  await vi.advanceTimersByTimeAsync(40);
  expect(await asking).toBe('answer');
  expect(send.mock.calls.map(([isRepeat]) => isRepeat)).toEqual([false, true, true]);
});

it('a command that is refused for now is sent again, not as a repeat: it did not run', async () => {
  send.mockRejectedValueOnce(reply('LOADING Redis is loading the dataset in memory'));
  send.mockResolvedValueOnce('answer');
  const asking = ask();
  await vi.advanceTimersByTimeAsync(20);
  expect(await asking).toBe('answer');
  expect(send.mock.calls.map(([isRepeat]) => isRepeat)).toEqual([false, false]);
});

it.each([
  ['none of the masters can have done it', false],
  ['one of the masters may have done it', true],
])(
  'a command that the masters do not decide is sent again, as a repeat if need be: %s',
  async (_, mayHaveRun) => {
    send.mockRejectedValueOnce(
      new Undecided(quorumError('orders', 'not released', 2, []), mayHaveRun),
    );
    send.mockResolvedValueOnce('answer');
    const asking = ask();
    await vi.advanceTimersByTimeAsync(40);
    expect(await asking).toBe('answer');
    expect(send.mock.calls.map(([isRepeat]) => isRepeat)).toEqual([false, mayHaveRun]);
  },
);

it.each([
  ['NOPERM this user has no permissions', 'REDIS_UNAVAILABLE'],
  ['ERR unknown command', 'REDIS_UNAVAILABLE'],
  ['WRONGTYPE Operation against a key holding the wrong kind of value', 'KEY_CONFLICT'],
  ['KEYCONFLICT the hash at this key is not a lock', 'KEY_CONFLICT'],
])('%s fails the call at once, with the lock and the cause', async (message, code) => {
  send.mockRejectedValue(reply(message));
  const expected = { code, lockName: 'orders', cause: { message } };
  await expect(ask()).rejects.toMatchObject(expected);
  expect(send).toHaveBeenCalledOnce();
});

it('a conflict names the key in the way and its type', async () => {
  send.mockRejectedValue(
    reply('WRONGTYPE Operation against a key holding the wrong kind of value'),
  );
  const keyInTheWay = { key: 'app:orders', expected: 'a lock', type: 'string' };
  const lock = { name: 'orders', keyInTheWay: () => Promise.resolve(keyInTheWay) };
  const asking = retry(alwaysReady, new WaitLimit({ limitMs: Infinity }), lock, send);
  await expect(asking).rejects.toMatchObject({
    message:
      'lock "orders": the key "app:orders" is in the way: it is a string, and not a lock; choose another name or keyPrefix',
    key: 'app:orders',
    keyType: 'string',
  });
});

it.each([
  ['fails', () => Promise.reject(reply('NOPERM this user has no permissions'))],
  ['is not answered', () => new Promise<never>(() => undefined)],
])('a conflict is reported without the key when the query for it %s', async (_, keyInTheWay) => {
  send.mockRejectedValue(
    reply('WRONGTYPE Operation against a key holding the wrong kind of value'),
  );
  const lock = { name: 'orders', keyInTheWay };
  const waitLimit = new WaitLimit({ limitMs: 100 });
  const told = expect(retry(alwaysReady, waitLimit, lock, send)).rejects.toMatchObject({
    code: 'KEY_CONFLICT',
    key: undefined,
  });
  await vi.advanceTimersByTimeAsync(102);
  await told;
  waitLimit.dispose();
  expect(vi.getTimerCount()).toBe(0);
});

it('a command that was dropped unsent when the time was over is not reported as a failure of Redis', async () => {
  send.mockRejectedValue(new UnwantedError());
  const over = expect(ask(50)).rejects.toMatchObject({ ending: 'timeout', lastError: undefined });
  await vi.advanceTimersByTimeAsync(51);
  await over;
  expect(send.mock.calls.length).toBeLessThan(5); // with pauses, and so without a busy loop

  send.mockReset();
  send.mockRejectedValueOnce(new LostError()).mockRejectedValue(new UnwantedError());
  const told = { ending: 'timeout', lastError: new LostError() };
  const lost = expect(ask(50)).rejects.toMatchObject(told);
  await vi.advanceTimersByTimeAsync(51);
  await lost;
});

it('the retries end with the wait, even during a pause or a command, and report the last failure', async () => {
  const lastError = new LostError();
  send.mockRejectedValueOnce(lastError);
  send.mockReturnValueOnce(new Promise(() => undefined));
  send.mockRejectedValueOnce(lastError);
  send.mockReturnValueOnce(new Promise(() => undefined));
  for (const [limitMs, told] of [
    [10, lastError],
    [100, undefined],
    [100, lastError],
  ] as const) {
    const over = expect(ask(limitMs)).rejects.toMatchObject({ ending: 'timeout', lastError: told });
    await vi.advanceTimersByTimeAsync(limitMs + 1);
    await over;
  }
});
