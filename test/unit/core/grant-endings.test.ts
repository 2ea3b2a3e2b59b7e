// How a grant ends where its last command, or the question whether it is there, is answered late, otherwise than expected, or never.
import { afterEach, beforeEach, describe, expect, it, vi, type Mock } from 'vitest';
import { LockLostError } from '../../../src/api/errors.js';
import {
  deadlineOf,
  type GrantedHold,
  type GrantedLock,
  type KeepReply,
} from '../../../src/core/protocol.js';
import { Grant } from '../../../src/core/grant.js';
import { Listeners } from '../../../src/core/events.js';
import { Session } from '../../../src/core/session.js';
import { Contests } from '../../../src/locks/plain.js';
import { LostError, replyError } from '../../../src/redis/failure.js';
import { now, PROCESS_CLOCK } from '../../../src/runtime/clock.js';
import { WaitLimit } from '../../../src/runtime/wait-limit.js';
import { alwaysReady } from '../../support/fake-holdfast.js';

const LEASE_MS = 30_000;
const COMMAND_TIMEOUT_MS = 1_000;

const ignore = (): void => undefined;
const never = <T>(): Promise<T> => new Promise<T>(ignore);

const reenter = vi.fn<() => Promise<KeepReply>>();
const release = vi.fn<() => Promise<boolean>>();
const holdCount = vi.fn<() => Promise<number>>();

beforeEach(() => {
  vi.useFakeTimers();
  reenter.mockReset().mockResolvedValue('kept');
  release.mockReset().mockResolvedValue(true);
  holdCount.mockReset().mockResolvedValue(1);
});

afterEach(() => {
  vi.useRealTimers();
});

interface Granted {
  readonly grant: Grant;
  readonly hold: GrantedHold;
  readonly session: Session;
  /** All `lost` events so far. */
  readonly lost: unknown[];
}

function granted(more: Partial<GrantedLock> = {}): Granted {
  const options = {
    clientId: 'me',
    lockWatchdogTimeoutMs: LEASE_MS,
    commandTimeoutMs: COMMAND_TIMEOUT_MS,
  };
  const listeners = new Listeners();
  const lost: unknown[] = [];
  listeners.on('lost', (event) => lost.push(event));
  const session = new Session(options, alwaysReady, listeners);
  const parts = { name: 'a', id: 'a', watch: ignore, unwatch: ignore, reenter, release, holdCount };
  const grant = new Grant(
    session,
    { ...parts, ...more },
    'me:1',
    deadlineOf(now(PROCESS_CLOCK), LEASE_MS),
  );
  const hold = { isWatched: true, lost: vi.fn() };
  grant.add(hold);
  return { grant, hold, session, lost };
}

/** It is held by one who got it from another of the same client, whose release waits for a proof. */
function passedOn(): Granted & {
  readonly proof: Promise<void>;
  readonly heir: Omit<GrantedHold, 'lost'> & { readonly lost: Mock };
} {
  const heir = {
    isWatched: true,
    lost: vi.fn(),
    inherit: () => {
      made.grant.add(heir);
    },
  };
  const made = granted({ localLine: { heir, length: 1 } });
  const { proof } = made.grant.passOn(made.hold)!;
  return { proof, heir, ...made };
}

function releaseOf({ grant }: Granted, hold: GrantedHold): Promise<void> {
  return new Promise((resolve, reject) => {
    grant.release(hold, false, (error) => {
      if (error) reject(error);
      else resolve();
    });
  });
}

function outcomeOf(promise: Promise<void>): Promise<unknown> {
  return promise.then(
    () => 'released',
    (error: unknown) => error,
  );
}

describe('a grant of which the server has nothing any more', () => {
  it('is lost, though the question how it was lost stays unanswered', async () => {
    release.mockResolvedValueOnce(false);
    reenter.mockReturnValueOnce(never());
    const made = granted();
    const outcome = outcomeOf(releaseOf(made, made.hold));
    await vi.advanceTimersByTimeAsync(COMMAND_TIMEOUT_MS + 100);
    expect(await outcome).toMatchObject({ code: 'LOCK_LOST', lossReason: 'deleted' });
    expect(made.lost).toHaveLength(1);
  });

  it('is lost, though the question how it was lost is denied', async () => {
    release.mockResolvedValueOnce(false);
    reenter.mockRejectedValueOnce(replyError('NOPERM no permissions to run the get command'));
    const made = granted();
    expect(await outcomeOf(releaseOf(made, made.hold))).toBeInstanceOf(LockLostError);
    expect(made.lost).toHaveLength(1);
  });

  it('is lost for all who had it, where that was found out by the one who passed it on', async () => {
    holdCount.mockResolvedValueOnce(0);
    reenter.mockReturnValueOnce(never());
    const { proof, heir, lost } = passedOn();
    const outcome = outcomeOf(proof);
    await vi.advanceTimersByTimeAsync(COMMAND_TIMEOUT_MS + 100);
    expect(await outcome).toBeInstanceOf(LockLostError);
    expect(heir.lost).toHaveBeenCalledOnce();
    expect(lost).toHaveLength(1);
  });
});

it('a grant in place of which there is something else is lost as taken, also for the one who passed it on', async () => {
  const wrongType = replyError('WRONGTYPE Operation against a key holding the wrong kind of value');
  holdCount.mockRejectedValueOnce(wrongType);
  reenter.mockRejectedValueOnce(wrongType);
  const { proof, heir } = passedOn();
  expect(await outcomeOf(proof)).toMatchObject({ code: 'LOCK_LOST', lossReason: 'taken' });
  expect(heir.lost).toHaveBeenCalledOnce();
});

it('a grant whose end passed while a nested call was under way is not entered', async () => {
  let answer: (reply: KeepReply) => void = ignore;
  reenter.mockReturnValueOnce(new Promise((resolve) => (answer = resolve)));
  const made = granted();
  const begin = vi.fn(() => made.hold);
  const nested = made.grant.reenter(LEASE_MS, new WaitLimit({ limitMs: Infinity }), begin);
  const released = releaseOf(made, made.hold).catch(ignore); // its release waits for its turn
  vi.setSystemTime(Date.now() + LEASE_MS);
  answer('kept');
  expect(await nested).toBeUndefined();
  expect(begin).not.toHaveBeenCalled();
  await released;
});

it('a grant whose end has passed is not taken for held by its client, though its release is to be sent', () => {
  const contests = new Contests();
  const made = granted();
  contests.granted('a', made.grant);
  expect(contests.heldHere('a')).toBe(made.grant);
  reenter.mockReturnValueOnce(never());
  made.grant.extend(LEASE_MS).catch(ignore); // has the turn
  void outcomeOf(releaseOf(made, made.hold));
  vi.setSystemTime(Date.now() + LEASE_MS);
  expect(contests.heldHere('a')).toBeUndefined();
});

describe('a release that is under way when its client is closed', () => {
  beforeEach(() => {
    vi.useRealTimers(); // closing waits for a turn of the event loop
  });

  it('succeeds, though the client has released the grant meanwhile', async () => {
    release
      .mockRejectedValueOnce(replyError('LOADING Redis is loading the dataset in memory'))
      .mockResolvedValueOnce(true)
      .mockResolvedValueOnce(false);
    reenter.mockResolvedValue('deleted');
    const made = granted();
    const outcome = outcomeOf(releaseOf(made, made.hold));
    await new Promise(setImmediate);
    const closed = made.session.close();
    expect(await outcome).toBe('released');
    await closed;
    expect(made.lost).toEqual([]);
  });

  it('is not taken for a loss by those who passed the grant on', async () => {
    holdCount.mockReturnValueOnce(never());
    release
      .mockRejectedValueOnce(new LostError()) // it ran, and the reply was lost
      .mockResolvedValue(false);
    const made = passedOn();
    const outcomes = Promise.all([outcomeOf(made.proof), outcomeOf(releaseOf(made, made.heir))]);
    await new Promise(setImmediate);
    await made.session.close();
    expect(await outcomes).toEqual(['released', 'released']);
  });
});

it('a MultiLock that is lost since another client is closed settles the releases that passed a member on', async () => {
  holdCount.mockReturnValueOnce(never());
  const { proof, grant } = passedOn();
  const lockName = 'a and b';
  grant.loseAsMember(new LockLostError('closed', { lockName, lossReason: 'closed' }));
  expect(await outcomeOf(proof)).toBeInstanceOf(LockLostError);
});
