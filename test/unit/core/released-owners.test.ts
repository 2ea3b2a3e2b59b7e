// Released owners, when a server that has missed the release may take over: the client releases them there as well.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { HeldLock } from '../../../src/api/description.js';
import { Session } from '../../../src/core/session.js';
import { Grant } from '../../../src/core/grant.js';
import { deadlineOf } from '../../../src/core/protocol.js';
import { Listeners } from '../../../src/core/events.js';
import { now, PROCESS_CLOCK } from '../../../src/runtime/clock.js';
import { alwaysReady } from '../../support/fake-holdfast.js';

const LEASE_MS = 30_000;

const ignore = (): void => undefined;
const release = vi.fn<(ownerId: string) => Promise<boolean>>();

beforeEach(() => {
  vi.useFakeTimers();
  release.mockReset().mockResolvedValue(true);
});

afterEach(() => {
  vi.useRealTimers();
});

function newSession(hasSentinels: boolean): Session {
  const options = { clientId: 'me', lockWatchdogTimeoutMs: LEASE_MS, commandTimeoutMs: 1_000 };
  return new Session(options, { ...alwaysReady, hasSentinels }, new Listeners());
}

/** Takes a lock and releases it. */
async function pair(session: Session, ownerId: string, leaseMs = LEASE_MS): Promise<void> {
  const reenter = (): Promise<'kept'> => Promise.resolve('kept');
  const lock = {
    kind: 'Lock',
    name: 'a',
    id: 'a',
    watch: ignore,
    unwatch: ignore,
    reenter,
    release,
    releaseIn: () => Promise.resolve(true),
  };
  const grant = new Grant(session, lock, ownerId, deadlineOf(now(PROCESS_CLOCK), leaseMs));
  const described = {} as HeldLock; // not asked for
  const hold = { isWatched: true, atLeastMs: 0, holdId: 'me#1', described, lost: ignore };
  grant.add(hold);
  await new Promise<void>((resolve) => {
    grant.release(hold, false, () => {
      resolve();
    });
  });
}

/** The owners that a new connection releases, to another server or the same one. */
async function releasedAt(session: Session, isAnother: boolean): Promise<string[]> {
  release.mockClear();
  session.cleanup.connected(isAnother);
  await vi.advanceTimersByTimeAsync(0);
  return release.mock.calls.flat();
}

it('an owner is released once more at each other server, until its lease would have ended', async () => {
  const session = newSession(true);
  await pair(session, 'me:1');
  await pair(session, 'me:2', 2 * LEASE_MS);
  expect(await releasedAt(session, true)).toEqual(['me:1', 'me:2']);
  expect(await releasedAt(session, true)).toEqual(['me:1', 'me:2']);
  await vi.advanceTimersByTimeAsync(LEASE_MS);
  expect(await releasedAt(session, true)).toEqual(['me:2']);
  await vi.advanceTimersByTimeAsync(LEASE_MS);
  expect(await releasedAt(session, true)).toEqual([]);
  expect(vi.getTimerCount()).toBe(0);
});

it('of many owners only the newest thousand are released again', async () => {
  const session = newSession(true);
  for (let number = 1; number <= 1_500; number++) await pair(session, `me:${number}`);
  const released = new Set(await releasedAt(session, true));
  expect(released.size).toBe(1_000);
  expect(released).not.toContain('me:500');
  expect(released).toContain('me:501');
  expect(released).toContain('me:1500');
});

it('an owner is not released again at the same server', async () => {
  const session = newSession(true);
  await pair(session, 'me:1');
  expect(await releasedAt(session, false)).toEqual([]);
});

it('no owner is remembered where no Sentinel names the server', async () => {
  const session = newSession(false);
  await pair(session, 'me:1');
  expect(await releasedAt(session, true)).toEqual([]);
});
