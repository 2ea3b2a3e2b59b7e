// One grant: once its release was sent, which may arrive late, its owner is never used again; and which renewals count.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { extensionLimit } from '../../../src/locks/redlock/renewal.js';
import {
  deadlineOf,
  type GrantedHold,
  type GrantedLock,
  type Renewal,
  type Renewer,
} from '../../../src/core/protocol.js';
import { Grant } from '../../../src/core/grant.js';
import { Watchdog } from '../../../src/core/watchdog.js';
import { Session } from '../../../src/core/session.js';
import { now, PROCESS_CLOCK } from '../../../src/runtime/clock.js';
import { LockLostError, UnavailableError } from '../../../src/api/errors.js';
import { Listeners } from '../../../src/core/events.js';
import { WaitLimit } from '../../../src/runtime/wait-limit.js';
import { alwaysReady } from '../../support/fake-holdfast.js';

const LEASE_MS = 30_000;

const reenter = vi.fn(() => Promise.resolve('kept' as const));
const release = vi.fn(() => Promise.resolve(true));
const holdCount = vi.fn(() => Promise.resolve(1));
const ignore = (): void => undefined;
const lock: GrantedLock = {
  name: 'a',
  id: 'a',
  watch: ignore,
  unwatch: ignore,
  reenter,
  release,
  holdCount,
};

beforeEach(() => {
  vi.useFakeTimers();
  vi.clearAllMocks();
});

afterEach(() => {
  vi.useRealTimers();
});

function granted(
  isWatched = true,
  of = lock,
): {
  grant: Grant;
  hold: GrantedHold;
  session: Session;
  listeners: Listeners;
} {
  const options = { clientId: 'me', lockWatchdogTimeoutMs: LEASE_MS, commandTimeoutMs: 1_000 };
  const listeners = new Listeners();
  const session = new Session(options, alwaysReady, listeners);
  const grant = new Grant(session, of, 'me:1', deadlineOf(now(PROCESS_CLOCK), LEASE_MS));
  const hold = { isWatched, lost: vi.fn() };
  grant.add(hold);
  return { grant, hold, session, listeners };
}

function releaseOf(grant: Grant, hold: GrantedHold): Promise<void> {
  return new Promise((resolve, reject) => {
    grant.release(hold, false, (error) => {
      if (error) reject(error);
      else resolve();
    });
  });
}

/** One that was sent and answered just now. */
function renewal(leaseMs: number): Renewal {
  const sentAt = now(PROCESS_CLOCK);
  return { sentAt, leaseMs, deadline: deadlineOf(sentAt, leaseMs), answeredAt: sentAt };
}

it('is not re-entered behind a release that stays unanswered', async () => {
  const { grant, hold } = granted();
  release.mockImplementationOnce(() => new Promise(() => undefined));
  const released = expect(releaseOf(grant, hold)).rejects.toBeInstanceOf(UnavailableError);
  expect(release).toHaveBeenCalledOnce();
  expect(grant.isReleased).toBe(true); // from the moment in which it was sent
  const begin = vi.fn(() => hold);
  const reentered = grant.reenter(LEASE_MS, new WaitLimit({ limitMs: Infinity }), begin);
  await vi.advanceTimersByTimeAsync(1_100);

  await released;
  expect(await reentered).toBeUndefined();
  expect(reenter).not.toHaveBeenCalled();
  expect(begin).not.toHaveBeenCalled();
});

it('without holds is not lost at its deadline, since nobody relies on it: its release tells', async () => {
  const { grant, hold, session, listeners } = granted();
  const lost = vi.fn();
  listeners.on('lost', lost);
  let answer: (reply: 'kept') => void = ignore;
  reenter.mockReturnValueOnce(new Promise((resolve) => (answer = resolve)));
  const extended = grant.extend(LEASE_MS).catch(ignore); // has the turn
  const released = releaseOf(grant, hold).catch(ignore);
  expect(grant.holdCount).toBe(0);
  vi.setSystemTime(Date.now() + LEASE_MS);
  expect(grant.loss).toBeUndefined();
  answer('kept');
  await Promise.all([extended, released]);
  expect(release).toHaveBeenCalledOnce();
  expect(grant.isReleased).toBe(true);
  expect(lost).not.toHaveBeenCalled();
  expect(session.grants.size).toBe(0);
});

it('with a limit of extensions may be looked at as often as you like', () => {
  const { grant } = granted();
  grant.renewalLimit = extensionLimit(1, LEASE_MS, grant.ageMs(), PROCESS_CLOCK);
  for (let count = 0; count < 10; count++) {
    vi.advanceTimersByTime(LEASE_MS / 60);
    grant.renewing(0);
    grant.renewed('kept', renewal(0));
  }
  expect(grant.isWatched).toBe(true);
  grant.renewing(LEASE_MS);
  grant.renewed('kept', renewal(LEASE_MS));
  vi.advanceTimersByTime(LEASE_MS / 3);
  expect(grant.isWatched).toBe(false);
});

it('of a fixed lease is never extended', () => {
  const { grant } = granted(false);
  grant.renewalLimit = extensionLimit(2, LEASE_MS, grant.ageMs(), PROCESS_CLOCK);
  vi.advanceTimersByTime(LEASE_MS / 2);
  expect(grant.renewalLimit.isDue).toBe(true);
  expect(grant.isWatched).toBe(false);
});

it('of 5,000 fixed leases that end one by one each is lost in time, and they are not all looked at each time', () => {
  const { session } = granted();
  const watchdog = new Watchdog({
    schedule: session.schedule,
    leaseMs: LEASE_MS,
    failed: ignore,
  });
  const renewer: Renewer<undefined> = {
    kind: 'hold',
    batchKey: () => '',
    renew: (batch) => Promise.resolve(batch.map(() => 'kept')),
  };
  const watchedLock: GrantedLock = {
    ...lock,
    watch: (grant) => {
      watchdog.watch(grant, undefined, renewer);
    },
    unwatch: (grant) => {
      watchdog.unwatch(grant);
    },
  };
  const looks = vi.spyOn(Grant.prototype, 'checkDeadline');
  const lost = Array.from({ length: 5_000 }, (_, index) => {
    const grant = new Grant(
      session,
      watchedLock,
      `me:${index + 2}`,
      deadlineOf(now(PROCESS_CLOCK), 1_000 + 2 * index),
    );
    const hold = { isWatched: false, lost: vi.fn() };
    grant.add(hold);
    return hold.lost;
  });
  looks.mockClear();
  vi.advanceTimersByTime(6_000);
  // A deadline comes 1 % of the lease and 2 ms before its end.
  const endedCount = lost.filter((told) => told.mock.calls.length === 1).length;
  expect(endedCount).toBe(Math.floor((6_002 / 0.99 - 1_000) / 2) + 1);
  expect(looks.mock.calls.length).toBeLessThan(10 * endedCount);
  vi.advanceTimersByTime(6_000);
  expect(lost.every((told) => told.mock.calls.length === 1)).toBe(true);
  expect(looks.mock.calls.length).toBeLessThan(10 * lost.length);
});

it('whose end passes while others of its round are told of theirs is lost right after that', () => {
  const { grant } = granted();
  const lost = vi.spyOn(grant, 'lose');
  vi.advanceTimersByTime(LEASE_MS - 400);
  const at = now(PROCESS_CLOCK); // the round begins, 98 ms before the grant's end
  vi.advanceTimersByTime(400); // so long do the listeners of the others take
  grant.checkEnd(at);
  expect(lost).not.toHaveBeenCalled();
  vi.advanceTimersByTime(2);
  expect(lost).toHaveBeenCalledOnce();
});

/** It is held by one who got it from another of the same client, whose release waits for a proof. */
function passedOn(length = 1): { proof: Promise<void> } & ReturnType<typeof granted> {
  const heir = {
    isWatched: true,
    lost: ignore,
    inherit: () => {
      made.grant.add(heir);
    },
  };
  const made = granted(true, { ...lock, localLine: { heir, length } });
  const { proof } = made.grant.passOn(made.hold)!;
  return { proof, ...made };
}

it('that was passed on, and that one look does not find though it is there, is looked at again', async () => {
  holdCount.mockResolvedValueOnce(0);
  const { grant, proof } = passedOn();
  await proof;
  expect(reenter).toHaveBeenCalledOnce();
  expect(holdCount).toHaveBeenCalledTimes(2);
  expect(grant.isHeld).toBe(true);
});

it('that was passed on is asked about at once unless somebody will be left in line at its end', () => {
  passedOn(16);
  expect(holdCount).toHaveBeenCalledOnce();
  passedOn(17); // 15 more to whom it is passed on, and one who is left
  expect(holdCount).toHaveBeenCalledOnce();
});

it.each([
  ['is released', true, undefined],
  ['was gone', false, LockLostError],
])(
  'that was passed on and that a closing client finds %s settles the release before',
  async (_, isReleased, error) => {
    holdCount.mockReturnValueOnce(new Promise(ignore));
    release.mockResolvedValueOnce(isReleased);
    const { proof, session } = passedOn();
    const settled = proof.then(
      () => undefined,
      (reason: unknown) => reason,
    );
    vi.useRealTimers();
    await session.close();
    expect(release).toHaveBeenCalledOnce();
    const outcome = await settled;
    expect(outcome?.constructor).toBe(error);
  },
);
