// What a caller that gives up learns of the holder.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { LockAbortedError } from '../../../src/index.js';
import { elsewhere, rejectionOf } from '../../support/clients.js';
import { fakeHoldfast } from '../../support/fake-holdfast.js';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

const LAST =
  /: the signal aborted, while waiting; last seen: held by somebody-else:1, its lease ends in \d+ ms/;

async function abortedAfter(
  ms: number,
  acquire: (signal: AbortSignal) => Promise<unknown>,
): Promise<LockAbortedError> {
  const aborter = new AbortController();
  const error = rejectionOf(acquire(aborter.signal));
  await vi.advanceTimersByTimeAsync(ms);
  aborter.abort();
  await vi.advanceTimersByTimeAsync(10);
  return (await error) as LockAbortedError;
}

it('the error of an aborted wait names the holder that was last seen', async () => {
  const { getLock, server } = fakeHoldfast();
  server.hold('a');
  const error = await abortedAfter(100, (signal) => getLock('a').acquire({ signal }));
  expect(error).toMatchObject({ code: 'LOCK_ABORTED', holder: 'somebody-else:1' });
  expect(error.holderTtlMs).toBeGreaterThan(0);
  expect(error.message).toMatch(LAST);
});

it('it names a holder of the same client', async () => {
  const { getLock } = fakeHoldfast();
  const { ownerId } = await getLock('a').acquire();
  const error = await abortedAfter(100, (signal) =>
    elsewhere(() => getLock('a').acquire({ signal })),
  );
  expect(error).toMatchObject({ holder: ownerId });
});

it('it names the holder of the member of a MultiLock', async () => {
  const { getLock, server, holdfast } = fakeHoldfast();
  server.hold('a');
  await holdfast.ping();
  const both = holdfast.getMultiLock(getLock('a'), getLock('b'));
  const error = await abortedAfter(100, (signal) => both.acquire({ signal }));
  expect(error).toMatchObject({ lockName: 'multi(a, b)', holder: 'somebody-else:1' });
  expect(error.message).toMatch(LAST);
});

it('it names nobody if nothing was sent', async () => {
  const { getLock, server } = fakeHoldfast();
  server.hold('a');
  const error = await rejectionOf(getLock('a').acquire({ signal: AbortSignal.abort() }));
  expect(error).toMatchObject({ holder: undefined, holderTtlMs: undefined });
  expect(String(error)).toMatch(/the signal aborted, nothing was sent$/);
});
