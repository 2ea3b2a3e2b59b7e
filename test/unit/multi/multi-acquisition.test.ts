// Rounds of an acquisition of several locks, with members that answer as the test says.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Session } from '../../../src/core/session.js';
import { Holdfast } from '../../../src/index.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { LockLostError, LockTimeoutError, UnavailableError } from '../../../src/api/errors.js';
import { Listeners } from '../../../src/core/events.js';
import type { HoldOrigin, MemberTerms } from '../../../src/core/protocol.js';
import { MultiAcquisition } from '../../../src/locks/multi.js';
import type { SingleLock } from '../../../src/locks/single-lock.js';
import { PROCESS_CLOCK } from '../../../src/runtime/clock.js';
import { rejectionOf } from '../../support/clients.js';
import { settledWithin } from '../../support/time.js';
import { alwaysReady } from '../../support/fake-holdfast.js';

const ROUND_TRIP_MS = 10;

class FakeHold {
  leftMs = 30_000;
  readonly signal = new AbortController().signal;
  readonly remaining = (): number => this.leftMs;
  readonly becomeMember = vi.fn();
  readonly releaseQuietly = vi.fn(() => Promise.resolve());
  readonly extendBy = vi.fn(() => Promise.resolve());
}

/** A member whose tries take a round trip, and are answered by `answer`, which throws or returns the hold. */
class FakeMember {
  readonly name: string;
  readonly parts = {
    session: { connection: { isReady: true }, clock: PROCESS_CLOCK, random: Math.random },
    backend: {},
  };
  readonly requests: MemberTerms[] = [];
  readonly origins: HoldOrigin[] = [];
  answer: (hold: FakeHold) => unknown = (hold) => hold;
  readonly holds: FakeHold[] = [];

  constructor(name: string) {
    this.name = name;
  }

  async acquireHold(request: MemberTerms, origin: HoldOrigin): Promise<unknown> {
    this.requests.push(request);
    this.origins.push(origin);
    await sleep(ROUND_TRIP_MS);
    const hold = new FakeHold();
    try {
      return await this.answer(hold);
    } finally {
      this.holds.push(hold);
    }
  }
}

let session: Session;
let one: FakeMember;
let two: FakeMember;

beforeEach(() => {
  const options = { clientId: 'me', lockWatchdogTimeoutMs: 30_000, commandTimeoutMs: 10_000 };
  session = new Session(options, alwaysReady, new Listeners());
  [one, two] = [new FakeMember('one'), new FakeMember('two')];
});

afterEach(() => {
  expect(session.acquisitions.size).toBe(0);
});

async function begin(waitMs: number, leaseMs?: number, signal?: AbortSignal): Promise<unknown> {
  const origin = { origin: 'lock', scope: undefined } as const;
  const request = { lockName: 'multi(one, two)', id: 'multi', ...origin, atLeastMs: 0 };
  const members = [one, two] as unknown as SingleLock[];
  const wanted = { ...request, members, suspects: [], label: undefined, leaseMs, signal };
  const wait = { waitMs, waitIs: 'given' } as const;
  return await new MultiAcquisition(session, { ...wanted, ...wait }).hold();
}

const isHeld = (): never => {
  throw new LockTimeoutError('held', { lockName: 'two', holder: 'they:1', holderTtlMs: 500 });
};

describe('a member whose lease is over when the last one is acquired', () => {
  it('is acquired again while there is time', async () => {
    one.answer = (hold) => {
      if (one.holds.length === 0) hold.leftMs = 0;
      return hold;
    };
    const acquiring = begin(1_000);
    await expect(acquiring).resolves.toMatchObject({ lockName: 'multi(one, two)' });
    expect(two.holds[0]!.releaseQuietly).toHaveBeenCalledOnce();
    expect(two.holds[1]!.releaseQuietly).not.toHaveBeenCalled();
  });

  it('ends an acquisition that may not wait', async () => {
    one.answer = (hold) => Object.assign(hold, { leftMs: 0 });
    const acquiring = begin(0);
    await expect(acquiring).rejects.toThrow('a member was lost before all were acquired');
    await expect(acquiring).rejects.toBeInstanceOf(UnavailableError);
    expect(two.holds[0]!.releaseQuietly).toHaveBeenCalledOnce();
  });
});

it('no unlock() is counted for a member before all are acquired', async () => {
  two.answer = (hold) => (two.holds.length === 0 ? isHeld() : hold);
  await begin(5_000);
  for (const { origins, holds } of [one, two]) {
    expect(new Set(origins)).toEqual(new Set(['acquire']));
    expect(holds.at(-1)!.becomeMember).toHaveBeenCalledExactlyOnceWith(session, 'lock', 0);
  }
  expect(one.holds[0]!.becomeMember).not.toHaveBeenCalled();
});

it('a refused extension of a member after a wait ends the acquisition', async () => {
  let tries = 0;
  two.answer = (hold) => {
    if (++tries === 1) return isHeld();
    hold.extendBy.mockRejectedValue(new UnavailableError('NOPERM', { lockName: 'two' }));
    return hold;
  };
  await expect(begin(Infinity, 1_000)).rejects.toThrow('NOPERM');
  for (const { releaseQuietly } of [one.holds.at(-1)!, two.holds.at(-1)!])
    expect(releaseQuietly).toHaveBeenCalledOnce();
});

it.each(['abort', 'close'] as const)(
  'members are released at %s, even if the extension of the one that was waited for has no answer',
  async (ending) => {
    const aborter = new AbortController();
    let isExtending = (): void => undefined;
    const extending = new Promise<void>((resolve) => (isExtending = resolve));
    two.answer = (hold) => {
      if (two.requests.length === 1) return isHeld();
      hold.extendBy.mockImplementation(() => {
        isExtending();
        return new Promise(() => undefined);
      });
      return hold;
    };
    const ended = rejectionOf(begin(Infinity, 1_000, aborter.signal));
    await extending;
    await sleep(2 * ROUND_TRIP_MS);
    if (ending === 'abort') aborter.abort();
    else await session.close();
    const code = ending === 'abort' ? 'LOCK_ABORTED' : 'CLIENT_CLOSED';
    expect(await ended).toMatchObject({ code });
    await expect
      .poll(() => [one, two].map(({ holds }) => holds.at(-1)!.releaseQuietly.mock.calls.length))
      .toEqual([1, 1]);
  },
);

it('a member that is lost at its extension after a wait is tried again', async () => {
  let tries = 0;
  two.answer = (hold) => {
    if (++tries === 1) return isHeld();
    if (tries > 2) return hold;
    hold.extendBy.mockImplementation(() => {
      hold.leftMs = 0;
      return Promise.reject(new LockLostError('lost', { lockName: 'two', lossReason: 'deleted' }));
    });
    return hold;
  };
  const acquiring = begin(5_000, 1_000);
  await expect(acquiring).resolves.toBeDefined();
});

describe('an acquisition whose last tries are cut short by the end of its wait', () => {
  const WAIT_MS = 1_400;
  let endsAtMs: number;

  const untilNear = (): Promise<unknown> => sleep(endsAtMs - 40 - performance.now());

  async function isCutShort(): Promise<never> {
    await sleep(endsAtMs + 10 - performance.now());
    throw new UnavailableError('no answer', { lockName: 'one' });
  }

  it('names the member that was held until a moment ago', async () => {
    endsAtMs = performance.now() + WAIT_MS;
    two.answer = async (hold) => {
      if (two.requests.length === 1) return isHeld();
      await untilNear();
      return hold;
    };
    one.answer = (hold) => (one.requests.length === 1 ? hold : isCutShort());
    await expect(begin(WAIT_MS)).rejects.toMatchObject({ code: 'LOCK_TIMEOUT', holder: 'they:1' });
  });

  it('does not name one that was held more than a second ago', async () => {
    endsAtMs = performance.now() + WAIT_MS;
    two.answer = (hold) => {
      if (two.requests.length === 1) return isHeld();
      return two.requests.length === 2 ? hold : isCutShort();
    };
    one.answer = async (hold) => {
      if (one.requests.length === 1) return hold;
      // Unreachable, so that the call waits for it next.
      if (one.requests.length === 2) throw new UnavailableError('no answer', { lockName: 'one' });
      await untilNear();
      return hold;
    };
    await expect(begin(WAIT_MS)).rejects.toMatchObject({ code: 'REDIS_UNAVAILABLE' });
  });
});

describe('a woken acquisition lets others try first', () => {
  const waiting: Promise<unknown>[] = [];

  /** How it defers: a call that has lost `rounds` rounds, since a member is held for ever. */
  async function deferring(rounds: number, waitMs = 1_500): Promise<() => number> {
    two.answer = isHeld;
    const { length } = two.requests;
    const acquiring = begin(waitMs);
    waiting.push(rejectionOf(acquiring));
    const { sinceMs, deferMs } = two.requests[length]!;
    const mine = (): number => two.requests.filter((other) => other.sinceMs === sinceMs).length;
    const ended = vi.fn();
    acquiring.then(ended, ended);
    // The next one is under way then.
    while (mine() <= rounds && ended.mock.calls.length === 0) await sleep(1);
    return () => deferMs!();
  }

  afterEach(async () => {
    for (const error of await Promise.all(waiting)) expect(error).toBeInstanceOf(LockTimeoutError);
    waiting.length = 0;
  });

  it('not while no caller has failed often', async () => {
    const deferMs = await deferring(2);
    expect(deferMs()).toBe(0);
  });

  it('for some round trips when another caller, which does not defer, has failed often', async () => {
    const deferMs = await deferring(12);
    const othersDeferMs = await deferring(1);
    expect(deferMs()).toBe(0);
    expect(othersDeferMs()).toBeGreaterThan(3 * ROUND_TRIP_MS);
    expect(othersDeferMs()).toBeLessThanOrEqual(6 * 2 * ROUND_TRIP_MS);
  });

  it('never for more than half of the remaining time', async () => {
    await deferring(12);
    const othersDeferMs = await deferring(1, 70);
    expect(othersDeferMs()).toBeLessThanOrEqual((70 - ROUND_TRIP_MS + 2) / 2);
  });
});

describe('whether two members are the same key', () => {
  it('is a query of each server on its own: one that stays down delays nobody beyond the wait', async () => {
    const [down, back] = [new MemoryRedis(), new MemoryRedis()];
    for (const server of [down, back]) server.down();
    await using one = new Holdfast({ redis: down, commandTimeout: 500 });
    await using other = new Holdfast({ redis: back, commandTimeout: 500 });
    for (const client of [one, other]) client.on('error', () => undefined);
    const multi = one.getMultiLock(one.getLock('a'), other.getLock('a'));
    const failed = rejectionOf(multi.acquire({ wait: 1_000 }));
    back.up();
    await back.advance(80); // reconnected before the client gives up
    await down.advance(5_000);
    await back.advance(5_000);
    expect(await settledWithin(failed, 2_000)).toBeInstanceOf(UnavailableError);
  });
});
