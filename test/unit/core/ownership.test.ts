// One owner on the server: once its release was sent, which may arrive late, it is never used again.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { LockBackend } from '../../../src/core/backend.js';
import { Session } from '../../../src/core/session.js';
import { now } from '../../../src/runtime/clock.js';
import { UnavailableError } from '../../../src/api/errors.js';
import { Listeners } from '../../../src/core/listeners.js';
import { Ownership } from '../../../src/core/ownership.js';
import { validity } from '../../../src/core/validity.js';
import { WaitLimit } from '../../../src/runtime/wait-limit.js';
import { alwaysReady } from '../../support/fake-holdfast.js';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

it('is not re-entered behind a release that stays unanswered', async () => {
  const reenter = vi.fn(() => Promise.resolve('kept'));
  const release = vi.fn(() => new Promise<boolean>(() => undefined));
  const ignore = (): void => undefined;
  const lock = { name: 'a', id: 'a', watch: ignore, unwatch: ignore, reenter, release };
  const options = { clientId: 'me', lockWatchdogTimeoutMs: 30_000, commandTimeoutMs: 1_000 };
  const session = new Session(options, alwaysReady, new Listeners());
  const backend = lock as unknown as LockBackend;
  const ownership = new Ownership(session, backend, 'me:1', validity(now(), 30_000));
  const hold = { isWatched: true, lost: ignore };
  ownership.add(hold);

  const released = expect(ownership.remove(hold, false)).rejects.toBeInstanceOf(UnavailableError);
  expect(release).toHaveBeenCalledOnce();
  expect(ownership.isReleased).toBe(true); // from the moment in which it was sent
  const begin = vi.fn(() => hold);
  const reentered = ownership.reenter(30_000, new WaitLimit({ limitMs: Infinity }), begin);
  await vi.advanceTimersByTimeAsync(1_100);

  await released;
  expect(await reentered).toBeUndefined();
  expect(reenter).not.toHaveBeenCalled();
  expect(begin).not.toHaveBeenCalled();
});
