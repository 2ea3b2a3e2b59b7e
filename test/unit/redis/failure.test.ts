// What a failed command means, by the error of the client library.
import { describe, expect, it } from 'vitest';
import {
  failureKind,
  type FailureKind,
  describe as inWords,
  isCrossSlot,
  isUnknownScript,
  LostError,
  mayConcernSome,
  replyError,
  UnsentError,
} from '../../../src/redis/failure.js';

const replies: Record<Exclude<FailureKind, 'unsent' | 'unanswered' | 'strange'>, string[]> = {
  transient: [
    'LOADING Redis is loading the dataset in memory',
    "READONLY You can't write against a read only replica.",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    'CLUSTERDOWN The cluster is down',
    'TRYAGAIN Multiple keys request during rehashing of slot',
    'BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.',
    "OOM command not allowed when used memory > 'maxmemory'.",
    'MISCONF Redis is configured to save RDB snapshots, but it is currently unable to persist on disk.',
    'NOREPLICAS Not enough good replicas to write.',
    'MOVED 3999 127.0.0.1:6381',
    'ASK 3999 127.0.0.1:6381',
    'ERR max number of clients reached',
    // From a slot that is migrating: as Redis 6.2 and 7 word it.
    'ERR Error running script (call to f_1a2b): @user_script:12: @user_script: 12: Lua script attempted to access a non local key in a cluster node',
    'ERR Script attempted to access a non local key in a cluster node script: 1a2b, on @user_script:12.',
  ],
  denied: [
    'WRONGPASS invalid username-password pair or user is disabled.',
    'NOAUTH Authentication required.',
    "NOPERM this user has no permissions to run the 'evalsha' command",
    'ERR invalid password',
    // Inside a script: Redis 6.2, 7.0, 7.2 and newer.
    "ERR Error running script (call to f_1a2b): @user_script:12: @user_script: 12: The user executing the script can't run this command or subcommand",
    "@user_script: 12: The user executing the script can't run this command or subcommand",
    "ERR The user executing the script can't run this command or subcommand script: 1a2b, on @user_script:12.",
    "ERR ACL failure in script: User app has no permissions to run the 'pexpire' command script: 1a2b, on @user_script:12.",
  ],
  conflict: [
    'WRONGTYPE Operation against a key holding the wrong kind of value',
    'KEYCONFLICT the hash at this key is not a lock',
    // As Redis 6.2 words an error inside a script.
    'ERR Error running script (call to f_1a2b): @user_script:12: WRONGTYPE Operation against a key holding the wrong kind of value',
  ],
  defect: [
    'ERR unknown command',
    "CROSSSLOT Keys in request don't hash to the same slot",
    'NOSCRIPT No matching script. Please use EVAL.',
    'ERR something about a WRONGTYPElike word',
  ],
};

const cases = Object.entries(replies).flatMap(([kind, messages]) =>
  messages.map((message) => ({ kind, message })),
);

describe('an error reply', () => {
  it.each(cases)('$message: $kind', ({ kind, message }) => {
    expect(failureKind(replyError(message))).toBe(kind);
  });
});

describe('a refusal of keys in several slots', () => {
  it.each([
    "CROSSSLOT Keys in request don't hash to the same slot",
    "CROSSSLOT Keys in request don't hash to the same slot (context='evalsha', code='4')",
    // Of proxies.
    "ERR 'EVALSHA' command keys must in same slot",
    'ERR eval/evalsha command keys must be in same slot',
    'ERR Cross-slot queries are not supported for this command',
  ])('is recognised by its words: %s', (words) => {
    expect(isCrossSlot(replyError(words))).toBe(true);
  });

  it.each([
    replyError('NOPERM No permissions to access a key'),
    replyError('KEYCONFLICT the hash at same slot is not a lock'),
    new LostError(),
  ])('is not one: %s', (error) => {
    expect(isCrossSlot(error)).toBe(false);
  });
});

describe('a refusal of a command for many locks', () => {
  it.each([
    "CROSSSLOT Keys in request don't hash to the same slot",
    'NOPERM No permissions to access a key',
    'WRONGTYPE Operation against a key holding the wrong kind of value',
  ])('may be due to some of them: %s', (words) => {
    expect(mayConcernSome(replyError(words))).toBe(true);
  });

  it.each([
    replyError('LOADING Redis is loading the dataset in memory'),
    replyError("READONLY You can't write against a read only replica."),
    replyError('BUSY Redis is busy running a script.'),
    replyError('MOVED 3999 127.0.0.1:6381'),
    new UnsentError('not connected'),
    new LostError(),
    new Error('NOPERM is what a message may say that is no reply'),
  ])('is due to none of them: %s', (error) => {
    expect(mayConcernSome(error)).toBe(false);
  });
});

it('a command that was not sent is distinguished from one without an answer', () => {
  expect(failureKind(new UnsentError('not connected'))).toBe('unsent');
});

describe('no reply', () => {
  it.each([
    new LostError(),
    Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }),
    new Error('WRONGTYPE is what a message may say that is no reply'),
    'a string',
    undefined,
  ])('%s: unanswered', (error) => {
    expect(failureKind(error)).toBe('unanswered');
  });
});

it.each([
  ['NOSCRIPT No matching script. Please use EVAL.', true],
  ['ERR of a script that says NOSCRIPT', false],
])('an unknown script: "%s": %s', (message, isUnknown) => {
  expect(isUnknownScript(new Error(message))).toBe(isUnknown);
});

describe('an error message', () => {
  it.each([
    {
      error: new Error('connect ECONNREFUSED 127.0.0.1:1'),
      words: 'connect ECONNREFUSED 127.0.0.1:1',
    },
    // All addresses of a host were refused: Node gives the aggregate no message.
    {
      error: new AggregateError([new Error('connect ECONNREFUSED ::1:1')]),
      words: 'connect ECONNREFUSED ::1:1',
    },
    { error: Object.assign(new Error(''), { code: 'ECONNRESET' }), words: 'ECONNRESET' },
    { error: new RangeError(''), words: 'RangeError' },
    { error: new LostError(), words: 'the connection was lost' },
  ])('$words', ({ error, words }) => {
    expect(inWords(error)).toBe(words);
  });
});

it.each([
  'ERR ACL failure in script script: 0123456789abcdef0123456789abcdef01234567, on @user_script:49.',
  'ERR ACL failure in script script: on @user_script:49.', // Valkey 9.1
])('omits where in a script an error happened: %s', (message) => {
  expect(inWords(replyError(message))).toBe('ERR ACL failure in script');
});
