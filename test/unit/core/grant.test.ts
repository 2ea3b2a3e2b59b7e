// How a grant ends when the answer to its last command is late, unexpected or missing.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Hold, Lock } from '../../../src/index.js';
import { rejectionOf } from '../../support/clients.js';
import { fakeHoldfast, type FakeHoldfast, type Fate } from '../../support/fake-holdfast.js';
import { gate, settle } from '../../support/occupancy.js';

const LEASE_MS = 30_000;
const COMMAND_TIMEOUT_MS = 1_000;

let client: FakeHoldfast;
let lock: Lock;

beforeEach(async () => {
  vi.useFakeTimers();
  client = fakeHoldfast({ lockWatchdogTimeout: LEASE_MS, commandTimeout: COMMAND_TIMEOUT_MS });
  lock = client.getLock('a');
  await client.holdfast.ping();
});

afterEach(() => {
  vi.useRealTimers();
});

async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}

describe('a grant that is gone from the server', () => {
  it.each<Fate>(['lost command', 'denied'])(
    'is lost, even if the query for the reason fails: %s',
    async (fate) => {
      const hold = await lock.acquire();
      client.server.delete('a');
      client.server.fate = (command) => (command.startsWith('reenter') ? fate : 'answered');
      const error = rejectionOf(hold.release());
      await pass(COMMAND_TIMEOUT_MS + 100);
      expect(await error).toMatchObject({ code: 'LOCK_LOST', lossReason: 'deleted' });
      expect(client.told('lost')).toHaveLength(1);
    },
  );

  it.each(['released', 'handed over'])(
    'is lost as taken when something else has its key at the time it is %s',
    async (how) => {
      const hold = await lock.acquire();
      const waiting = how === 'handed over' ? lock.acquire() : undefined;
      await settle();
      client.server.occupy('a');
      const taken = { code: 'LOCK_LOST', lossReason: 'taken' };
      await expect(hold.release()).rejects.toMatchObject(taken);
      if (waiting) expect((await waiting).signal.reason).toMatchObject(taken);
    },
  );
});

describe('a grant whose last hold ends while another command is under way', () => {
  let hold: Hold;
  let answer: () => void;

  beforeEach(async () => {
    hold = await lock.acquire();
    const { opened, open } = gate();
    client.server.travel = () => opened;
    answer = open;
  });

  it('is not lost at its deadline, since nobody relies on it: its release reports the outcome', async () => {
    const extended = hold.extend(LEASE_MS);
    const released = hold.release();
    vi.setSystemTime(Date.now() + LEASE_MS - 100);
    answer();
    await Promise.all([extended.catch(() => undefined), released]);
    expect(client.told('lost')).toEqual([]);
    expect(client.server.heldNames).toEqual([]);
  });

  it('is not entered by a nested call that is answered after its end: that call acquires anew', async () => {
    const nested = hold.run(() => lock.acquire()).catch((error: unknown) => error);
    const released = hold.release().catch(() => undefined);
    vi.setSystemTime(Date.now() + LEASE_MS);
    client.server.hold('a', 'me-gone:1', 1);
    answer();
    await pass(100);
    await released;
    const other = await nested;
    if (other instanceof Error) expect(other).toMatchObject({ code: 'LOCK_LOST' });
    else expect((other as Hold).ownerId).not.toBe(hold.ownerId);
  });
});

it('a grant whose release stays unanswered is not re-entered', async () => {
  const hold = await lock.acquire();
  client.server.fate = (command) => (command.startsWith('release') ? 'lost command' : 'answered');
  const error = rejectionOf(hold.release());
  await settle();
  const nested = rejectionOf(hold.run(() => lock.acquire({ wait: 500 })));
  await pass(COMMAND_TIMEOUT_MS + 100);
  expect(await error).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
  expect(await nested).toBeInstanceOf(Error);
  expect(client.server.commands.filter((command) => command.startsWith('reenter'))).toEqual([]);
});

it('a release that is under way when its client is closed succeeds, even if close() has released the lock meanwhile', async () => {
  const hold = await lock.acquire();
  client.server.fate = (command) => (command.startsWith('release') ? 'loading' : 'answered');
  const released = hold.release();
  await settle();
  client.server.fate = () => 'answered';
  const closing = client.holdfast.close();
  await pass(COMMAND_TIMEOUT_MS);
  await Promise.all([released, closing]);
  expect(client.told('lost')).toEqual([]);
  expect(client.server.heldNames).toEqual([]);
});

it('300 fixed leases that end one by one are each lost in time, and not before', async () => {
  const holds = await Promise.all(
    Array.from({ length: 300 }, (_, index) =>
      client.getLock(`many:${index}`).acquire({ lease: 1_000 + 30 * index }),
    ),
  );
  for (const elapsedMs of [1_500, 3_500, 3_500]) {
    await pass(elapsedMs);
    const live = holds.map(({ signal }) => !signal.aborted);
    expect(live).toEqual(holds.map((hold) => hold.remaining() > 0));
  }
  await pass(3_000);
  expect(client.told('lost')).toHaveLength(holds.length);
});
