// What ioredis rejects with, in the terms of a driver.
import { ReplyError } from 'ioredis';
import { describe, expect, it } from 'vitest';
import {
  describe as inWords,
  failureKind,
  isUnknownScript,
} from '../../../../src/redis/failure.js';
import { asCommandFailure, asFailure } from '../../../../src/redis/ioredis/failures.js';
import { SentCommand } from '../../../../src/redis/ioredis/sent-command.js';

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

describe('a minified bundle, in which ioredis 5 has other names for its classes', () => {
  class i extends (ReplyError as ErrorConstructor) {}
  class RedisError extends Error {
    override get name(): string {
      return this.constructor.name;
    }
  }
  class a extends RedisError {}
  const command = { name: 'eval', args: ['secret'] };
  const ofAnotherCopy = (message: string): Error => Object.assign(new a(message), { command });

  it.each([
    ['WRONGPASS invalid username-password pair', 'denied'],
    ['NOPERM this user has no permissions', 'denied'],
    ['WRONGTYPE Operation against a key', 'conflict'],
    ['TRYAGAIN Multiple keys request', 'transient'],
    ['ERR unknown command', 'defect'],
  ])('a reply is one: %s', (words, kind) => {
    for (const error of [new i(words), ofAnotherCopy(words)]) {
      const failure = asCommandFailure(error, false);
      expect(failure).toBe(error);
      expect(failureKind(failure)).toBe(kind);
      expect(failure.name).toBe('ReplyError');
    }
  });

  it('no reply is none', () => {
    const aborted = ofAnotherCopy('Command aborted due to connection close');
    for (const error of [aborted, new a('Reached the max retries per request limit')])
      expect(failureKind(asFailure(error))).toBe('unanswered');
  });

  it('a refusal that was passed on often enough is one, and a connection that was lost meanwhile is none', () => {
    const last = (error: Error): Error =>
      asFailure(new Error(`Too many Cluster redirections. Last error: ${String(error)}`));
    expect(failureKind(last(new i('TRYAGAIN Multiple keys request')))).toBe('transient');
    expect(failureKind(last(new Error('Connection is closed.')))).toBe('unanswered');
    expect(failureKind(last(new a('Command aborted due to connection close')))).toBe('unanswered');
  });

  it('a command that a node refused has not run', () => {
    const refused = new SentCommand('get', ['key']);
    refused.promise.catch(() => undefined);
    refused.heedRefusals();
    refused.mayHaveRun = true;
    refused.reject(new i('MOVED 1 127.0.0.1:7001'));
    expect(refused.mayHaveRun).toBe(false);
  });
});
