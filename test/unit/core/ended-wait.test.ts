// What a wait that is over says of an acquisition whose latest answer came too late.
import { expect, it } from 'vitest';
import type { AcquirableLock } from '../../../src/core/protocol.js';
import { endedWait } from '../../../src/core/acquisition.js';
import { UnsentError, UnwantedError } from '../../../src/redis/failure.js';
import { WaitEnded, WaitLimit } from '../../../src/runtime/wait-limit.js';
import { fakeHoldfast } from '../../support/fake-holdfast.js';

const WAIT_MS = 500;
const LEASE_MS = 30;

/** The error of a wait in which a grant came too late, and after which this went wrong. */
function endedWith(trouble: Error): Error {
  const waitLimit = new WaitLimit({ limitMs: WAIT_MS });
  waitLimit.dispose();
  return endedWait(new WaitEnded('timeout', trouble), {
    session: fakeHoldfast().session,
    lock: { name: 'orders', id: 'orders' } as AcquirableLock,
    request: { waitMs: WAIT_MS, leaseMs: LEASE_MS, isWatched: false },
    waitLimit,
    findings: undefined,
    isTooLate: true,
    isReentering: false,
  });
}

it('a try that was not sent for want of a connection is told, though the server can be reached: one node of a cluster is gone', () => {
  const trouble = new UnsentError('not connected');
  const error = endedWith(trouble);
  expect(error).toMatchObject({ code: 'REDIS_UNAVAILABLE', cause: trouble });
  expect(error.message).toContain('did not answer within 500 ms (last error: not connected)');
});

it('a try that nobody wants any more is no trouble: the answer came too late', () => {
  const error = endedWith(new UnwantedError());
  expect(error.cause).toBeUndefined();
  expect(error.message).toContain('Redis took longer to answer than the lease of 30 ms');
});
