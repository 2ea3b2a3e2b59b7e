// What ioredis rejects with, in the terms of a driver.
import { describe, expect, it } from 'vitest';
import {
  describe as inWords,
  failureKind,
  isUnknownScript,
} from '../../../../src/redis/failure.js';
import { asCommandFailure, asFailure } from '../../../../src/redis/ioredis/failures.js';

describe('a refusal that a cluster’s client passed on often enough', () => {
  it.each([
    ['TRYAGAIN Multiple keys request during rehashing of slot', 'transient', false],
    ['NOSCRIPT No matching script.', 'defect', true],
  ])('%s', (words, kind, isUnknown) => {
    const error = new Error(`Too many Cluster redirections. Last error: ReplyError: ${words}`);
    const failure = asFailure(error);
    expect(failureKind(failure)).toBe(kind);
    expect(isUnknownScript(failure)).toBe(isUnknown);
    expect(failure.cause).toBe(error);
  });
});

describe('no reply, and advice on options that are not the user’s', () => {
  it.each([
    'Connection is closed.',
    'Command aborted due to connection close',
    'Reached the max retries per request limit (which is 0). Refer to "maxRetriesPerRequest" option for details.',
    "Stream isn't writeable and enableOfflineQueue options is false",
  ])('%s', (message) => {
    const failure = asFailure(new Error(message));
    expect(failureKind(failure)).toBe('unanswered');
    expect(inWords(failure)).toBe('the connection was lost');
  });
});

it('a reply stays what it is, without the arguments of its command', () => {
  const reply = Object.assign(new Error('WRONGPASS invalid username-password pair'), {
    name: 'ReplyError',
    command: { name: 'auth', args: ['user', 'secret'] },
  });
  expect(asFailure(reply)).toBe(reply);
  expect(JSON.stringify(reply)).not.toContain('secret');
});

describe('a command', () => {
  const closed = new Error('Connection is closed.');
  const ended = new Error("Stream isn't writeable and enableOfflineQueue options is false");
  const reply = Object.assign(new Error('NOPERM no'), { name: 'ReplyError' });

  it.each([
    ['was not written', closed, false, 'unsent'],
    ['was written', closed, true, 'unanswered'],
    ['is of another copy of ioredis', closed, undefined, 'unanswered'],
    ['is of another copy, and found its socket ended', ended, undefined, 'unsent'],
    ['was refused', reply, false, 'denied'],
    ['waited for a connection that failed', new Error('connect ETIMEDOUT'), false, 'unsent'],
  ])('that %s', (_, error, mayHaveRun, kind) => {
    expect(failureKind(asCommandFailure(error, mayHaveRun))).toBe(kind);
  });

  it('that was not sent says why, where that is known', () => {
    expect(asCommandFailure(closed, false).message).toBe('not connected');
    const why = asCommandFailure(new Error('connect ETIMEDOUT'), false);
    expect(why.message).toBe('not connected: connect ETIMEDOUT');
  });
});
