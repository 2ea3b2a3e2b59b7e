// The local hand-over: a release names its successor, a waiter of the same client, which enters when the release is sent.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { AcquireOptions, Hold, Lock } from '../../../src/index.js';
import {
  fakeHoldfast,
  FakeServer,
  type FakeHoldfast,
  type FakeOptions,
  type Fate,
} from '../../support/fake-holdfast.js';
import { rejectionOf } from '../../support/clients.js';
import { expectPending, gate, settle } from '../../support/occupancy.js';

const LEASE_MS = 30_000;
const HAND_OVER = 'hand over a me:1 me:2';

let client: FakeHoldfast;
let server: FakeServer;
let lock: Lock;

beforeEach(async () => {
  vi.useFakeTimers();
  await connect();
});

afterEach(() => {
  vi.useRealTimers();
});

async function connect(options: FakeOptions = {}): Promise<void> {
  client = fakeHoldfast({ lockWatchdogTimeout: LEASE_MS, ...options });
  ({ server } = client);
  lock = client.getLock('a');
  await client.holdfast.ping();
}

async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}

/** How long the client may rely on a lease: the lease minus the drift margin. */
function usableMs(leaseMs: number): number {
  return leaseMs * 0.99 - 2;
}

/** One caller holds the lock, and another caller of its client waits for it. */
async function oneWaits({
  of = lock,
  held = {},
  wanted = {},
}: { of?: Lock; held?: AcquireOptions; wanted?: AcquireOptions } = {}): Promise<{
  first: Hold;
  second: Promise<Hold>;
}> {
  const first = await of.acquire(held);
  const second = of.acquire(wanted);
  second.catch(() => undefined);
  await settle();
  return { first, second };
}

/** The first hold hands the lock over, and no answer comes before `answer()` is called. */
async function underWay(...given: Parameters<typeof oneWaits>): Promise<{
  first: Hold;
  second: Hold;
  released: Promise<void>;
  answer: () => Promise<void>;
}> {
  const { first, second } = await oneWaits(...given);
  const answer = holdUp();
  const released = first.release();
  released.catch(() => undefined);
  return { first, second: await second, released, answer };
}

/** Holds up the server's answers until the returned function is called. */
function holdUp(): () => Promise<void> {
  const { opened, open } = gate();
  server.travel = (to) => (to === 'client' ? opened : Promise.resolve());
  return async () => {
    server.travel = () => Promise.resolve();
    open();
    await settle();
  };
}

/** The fates of the hand-overs, in order; all later ones are answered. */
function fates(...list: Fate[]): void {
  server.fate = (command) =>
    command.startsWith('hand over') ? (list.shift() ?? 'answered') : 'answered';
}

function sent(what: string): string[] {
  return server.commands.filter((command) => command.startsWith(what));
}

describe('the successor', () => {
  it('enters when the hand-over is sent; the release resolves when it is answered', async () => {
    const { second, released, answer } = await underWay();
    await expectPending(released);
    expect(second.signal.aborted).toBe(false);
    await answer();
    await released;
    expect(server.holder('a')).toEqual({ owner: second.ownerId, count: 1 });
    expect(server.commands).toEqual(['acquire a me:1', HAND_OVER]);
    await second.release();
    expect(server.heldNames).toEqual([]);
  });

  it('is the waiter that came first, whatever lease it wants', async () => {
    const first = await lock.acquire();
    const order: number[] = [];
    const turns = [1, 2, 3].map((number) =>
      lock.withLock({ lease: 1_000 * number }, async () => {
        order.push(number);
        await settle();
      }),
    );
    await settle();
    await first.release();
    await Promise.all(turns);
    expect(order).toEqual([1, 2, 3]);
    expect(sent('hand over')).toHaveLength(3);
  });

  it.each([
    ['its own lease, which is shorter', { wanted: { lease: 1_000 } }, 1_000, 1_000],
    ['the lease of the old owner, which is shorter', { held: { lease: 2_000 } }, 2_000, LEASE_MS],
  ])(
    'relies on %s until the answer, and afterwards on its own lease, counted from the sending',
    async (_, given, beforeMs, afterMs) => {
      const { second, answer } = await underWay(given);
      await pass(400);
      expect(second.remaining()).toBeCloseTo(usableMs(beforeMs) - 400);
      await answer();
      expect(second.remaining()).toBeCloseTo(usableMs(afterMs) - 400);
      await second.release();
    },
  );

  it("has its own lease, even if the previous owner's was extended", async () => {
    const { first, second } = await oneWaits();
    await first.extend(600_000);
    await first.release();
    const hold = await second;
    expect(hold.remaining()).toBeCloseTo(usableMs(LEASE_MS));
    expect(await lock.remainTimeToLive()).toBe(LEASE_MS);
    await hold.release();
  });

  it('is lost when its lease passes without an answer, and then both owners are removed, the older one first', async () => {
    server.fate = (command) => (command.startsWith('acquire') ? 'answered' : 'lost command');
    const { first, second } = await oneWaits({ wanted: { lease: 1_000 } });
    const released = first.release();
    const hold = await second;
    await pass(usableMs(1_000) - 1);
    expect(hold.signal.aborted).toBe(false);
    await pass(2);
    expect(hold.signal.reason).toMatchObject({ code: 'LOCK_LOST', lossReason: 'unreachable' });
    server.fate = () => 'answered';
    await pass(15_000);
    await released;
    expect(server.heldNames).toEqual([]);
    expect([...new Set(sent('release'))]).toEqual(['release a me:1', 'release a me:2']);
  });
});

describe('a hand-over whose outcome is unknown', () => {
  it.each<[string, Fate]>([
    ['reply', 'lost reply'],
    ['connection', 'lost command'],
  ])(
    'is sent again when its %s was lost, and its lease counts from the first sending',
    async (_, fate) => {
      fates(fate, fate);
      const { first, second } = await oneWaits();
      const released = first.release();
      const hold = await second;
      await pass(3_000);
      await released;
      expect(hold.remaining()).toBeCloseTo(usableMs(LEASE_MS) - 3_000);
      expect(server.holder('a')).toEqual({ owner: hold.ownerId, count: 1 });
      expect(client.told('lost')).toEqual([]);
      await hold.release();
    },
  );

  it('resolves the release and loses the successor if the repeat finds that both owners are gone', async () => {
    fates('lost reply');
    const { first, second } = await oneWaits();
    const released = first.release();
    const hold = await second;
    await settle();
    server.delete('a');
    await pass(3_000);
    await released;
    expect(hold.signal.reason).toMatchObject({ code: 'LOCK_LOST', lossReason: 'deleted' });
    expect(client.told('lost')).toHaveLength(1);
  });
});

describe('a hand-over that did not run', () => {
  it.each<Fate>(['denied', 'loading'])('(%s) is followed by a plain release', async (fate) => {
    server.fate = (command) => (command.startsWith('hand over') ? fate : 'answered');
    const { first, second } = await oneWaits({ wanted: { lease: 1_000 } });
    const released = first.release();
    const hold = await second;
    await pass(3_000);
    await released;
    expect(hold.signal.reason).toMatchObject({ code: 'LOCK_LOST' });
    expect(server.heldNames).toEqual([]);
  });

  it.each<Fate>(['denied', 'loading'])(
    '(%s) does not hide that the lock had been lost before',
    async (fate) => {
      server.fate = (command) => (command.startsWith('hand over') ? fate : 'answered');
      const { first, second } = await oneWaits({ wanted: { lease: 1_000 } });
      server.delete('a');
      const failed = rejectionOf(first.release());
      await second;
      await pass(3_000);
      expect(await failed).toMatchObject({ code: 'LOCK_LOST', lossReason: 'deleted' });
    },
  );
});

describe('a hand-over that fails', () => {
  it('also fails a successor that has already released, if the lock had been lost before', async () => {
    const { first, second } = await oneWaits();
    server.delete('a');
    const answer = holdUp();
    const failed = rejectionOf(first.release());
    const alsoFailed = rejectionOf((await second).release());
    await settle();
    await answer();
    await pass(2_000);
    for (const each of [failed, alsoFailed])
      expect(await each).toMatchObject({ code: 'LOCK_LOST', lossReason: 'deleted' });
  });

  it.each<Fate>(['denied', 'loading'])(
    '(%s) is a loss if something else has the key by then, and close() does not wait for it',
    async (fate) => {
      server.fate = (command) => (command.startsWith('hand over') ? fate : 'answered');
      const { first } = await oneWaits({ wanted: { lease: 1_000 } });
      server.occupy('a');
      const failed = rejectionOf(first.release());
      await pass(3_000);
      expect(await failed).toMatchObject({ code: 'LOCK_LOST', lossReason: 'taken' });
      const closed = client.holdfast.close();
      await pass(600);
      await closed;
    },
  );
});

describe('nothing is left on the server', () => {
  it('by a successor that is lost in the instant of the answer', async () => {
    const first = await lock.acquire({ lease: 1_000 });
    const [second, third] = [lock.acquire(), lock.acquire()];
    await settle();
    const answer = holdUp();
    const released = first.release();
    const hold = await second;
    vi.setSystemTime(Date.now() + 1_100); // the machine was suspended, and the client reads the answer before any timer fires
    await answer();
    await pass(5_000);
    await released;
    expect(hold.signal.reason).toMatchObject({ lossReason: 'unreachable' });
    await (await third).release();
    expect(server.heldNames).toEqual([]);
  });

  it('by a hand-over that arrives when its successor was given up, and the older owner could not be removed yet', async () => {
    await connect({ commandTimeout: 1_000 });
    const take = vi.spyOn(server, 'take');
    server.fate = (command) => {
      if (command.startsWith('hand over')) return 'lost command';
      return command === 'release a me:1' ? 'loading' : 'answered';
    };
    const { first, second } = await oneWaits({ held: { lease: 60_000 }, wanted: { lease: 9_000 } });
    first.release().catch(() => undefined);
    const hold = await second;
    const [, command, args] = take.mock.calls.at(-1)!;
    await pass(usableMs(9_000) + 5_000);
    expect(hold.signal.reason).toMatchObject({ lossReason: 'unreachable' });
    server.fate = () => 'answered';
    const late = vi.fn();
    server.take(take.mock.calls.at(-1)![0], command, args, late);
    expect(late).toHaveBeenCalledWith(['done']);
    await pass(5_000);
    expect(server.heldNames).toEqual([]);
  });

  it.each([
    ['fenced, and the release has failed', true, 5_100],
    ['fenced, and the release goes on', true, 2_600],
    ['not fenced, and the release has failed', false, 5_100],
    ['not fenced, and the release goes on', false, 1_100],
  ])(
    'by a client that closes while the outcome of a hand-over is unknown (%s)',
    async (_, isFenced, afterMs) => {
      await connect({ commandTimeout: 5_000 });
      const of = isFenced ? client.holdfast.getFencedLock('a') : lock;
      const { first } = await oneWaits({ of, held: isFenced ? {} : { lease: 1_000 } });
      const lose = (command: string): Fate =>
        command.startsWith('hand over') ? 'lost reply' : 'loading';
      server.fate = lose;
      first.release().catch(() => undefined);
      await pass(afterMs);
      const closed = client.holdfast.close();
      server.fate = () => 'answered';
      await pass(5_000);
      await closed;
      expect(server.heldNames).toEqual([]);
    },
  );

  it('by a client that closes while a hand-over is refused, and the release does not report a loss', async () => {
    server.fate = (command) => (command.startsWith('hand over') ? 'loading' : 'answered');
    const { first } = await oneWaits();
    const released = first.release();
    await pass(10);
    const closed = client.holdfast.close();
    await pass(10_000);
    await released;
    await closed;
    expect(client.told('lost')).toHaveLength(1); // the successor, lost by the close
    expect(server.heldNames).toEqual([]);
  });
});

describe('a duplicate of the hand-over', () => {
  async function copied(): Promise<{ hold: Hold; copy: () => unknown }> {
    const take = vi.spyOn(server, 'take');
    const { first, second } = await oneWaits();
    await first.release();
    const hold = await second;
    const [peer, command, args] = take.mock.calls.at(-1)!;
    const copy = (): unknown => {
      const answer = vi.fn();
      server.take(peer, command, args, answer);
      return answer.mock.calls[0]?.[0];
    };
    return { hold, copy };
  }

  it('changes nothing while the successor holds the lock', async () => {
    const { hold, copy } = await copied();
    await hold.run(async () => {
      const nested = await lock.acquire();
      expect(copy()).toEqual(['done']);
      expect(server.holder('a')).toEqual({ owner: hold.ownerId, count: 2 });
      await nested.release();
    });
    await hold.release();
  });

  it('does not bring back a lock that was released since', async () => {
    const { hold, copy } = await copied();
    await hold.release();
    expect(copy()).toEqual(['deleted']);
    expect(server.heldNames).toEqual([]);
    server.hold('a', 'other:1');
    expect(copy()).toEqual(['taken']);
    expect(server.holder('a')).toEqual({ owner: 'other:1', count: 1 });
  });
});

it.each<[string, () => unknown]>([
  [
    'deleted',
    () => {
      server.delete('a');
    },
  ],
  [
    'taken',
    () => {
      server.hold('a', 'other:1');
    },
  ],
  ['forced', () => fakeHoldfast({ server, clientId: 'other' }).getLock('a').forceUnlock()],
])(
  'a lock that was %s before the hand-over fails the release and the successor with that reason',
  async (lossReason, lose) => {
    const { first, second } = await oneWaits();
    await lose();
    await expect(first.release()).rejects.toMatchObject({ code: 'LOCK_LOST', lossReason });
    expect((await second).signal.reason).toMatchObject({ code: 'LOCK_LOST', lossReason });
    expect(client.told('lost')).toHaveLength(2);
  },
);

describe('a waiter that aborts', () => {
  it('in the instant of the release leaves the lock to the next waiter', async () => {
    const aborter = new AbortController();
    const { first, second } = await oneWaits({ wanted: { signal: aborter.signal } });
    const third = lock.acquire();
    await settle();
    const released = first.release();
    aborter.abort();
    await expect(second).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
    await released;
    await pass(100);
    await (await third).release();
    expect(server.heldNames).toEqual([]);
    expect(client.told('lost')).toEqual([]);
  });

  it('while it waits for the answer leaves nothing behind', async () => {
    const aborter = new AbortController();
    const of = client.holdfast.getFencedLock('a');
    const { first, second } = await oneWaits({ of, wanted: { signal: aborter.signal } });
    const answer = holdUp();
    const released = first.release();
    await settle();
    aborter.abort();
    await expect(second).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
    await answer();
    await released;
    await settle();
    expect(server.heldNames).toEqual([]);
  });
});

describe('a successor that needs the answer', () => {
  it('enters with a larger token', async () => {
    const of = client.holdfast.getFencedLock('a');
    const { first, second } = await oneWaits({ of });
    const answer = holdUp();
    const released = first.release();
    await expectPending(second);
    expect(sent('hand over')).toHaveLength(1);
    await answer();
    await released;
    const hold = await second;
    expect(hold.token).toBeGreaterThan(first.token!);
    await hold.release();
  });

  it.each<Fate>(['lost reply', 'lost command'])(
    'enters on the answer to the repeat after a %s',
    async (fate) => {
      fates(fate);
      const of = client.holdfast.getFencedLock('a');
      const { first, second } = await oneWaits({ of });
      const released = first.release();
      await pass(3_000);
      await released;
      const hold = await second;
      expect(hold.token).toBeGreaterThan(first.token!);
      await hold.release();
      expect(server.heldNames).toEqual([]);
    },
  );

  it('acquires the lock itself if no answer comes', async () => {
    await connect({ commandTimeout: 1_000 });
    server.fate = (command) => (command.startsWith('hand over') ? 'lost command' : 'answered');
    const of = client.holdfast.getFencedLock('a');
    const { first, second } = await oneWaits({ of });
    const released = first.release();
    await pass(3_000);
    await released;
    await (await second).release();
    await pass(3_000);
    expect(server.heldNames).toEqual([]);
  });
});

describe('until the hand-over is answered', () => {
  it.each<[string, (hold: Hold) => Promise<unknown>]>([
    ['an extension', (hold) => hold.extend(60_000)],
    ['a re-entry', (hold) => hold.run(() => lock.withLock(() => undefined))],
    ['the next release', (hold) => hold.release()],
  ])('%s of the successor waits', async (_, call) => {
    const { second, answer } = await underWay();
    const called = call(second);
    await expectPending(called);
    expect(server.commands).toEqual(['acquire a me:1', HAND_OVER]);
    await answer();
    await called;
    await second.release();
    expect(server.heldNames).toEqual([]);
    expect(client.told('lost')).toEqual([]);
  });

  it('no lease is renewed', async () => {
    await connect({ commandTimeout: LEASE_MS });
    const { second, answer } = await underWay();
    await pass(LEASE_MS / 3 + 1_000);
    expect(server.commands).toEqual(['acquire a me:1', HAND_OVER]);
    await answer();
    await pass(LEASE_MS);
    expect(second.remaining()).toBeGreaterThan(LEASE_MS / 2);
    await second.release();
  });

  it('an extension that was under way when the last hold ended is sent first', async () => {
    const { first, second } = await oneWaits();
    const answer = holdUp();
    const extended = first.extend(60_000);
    const released = first.release();
    await expectPending(second);
    await answer();
    await Promise.all([extended, released]);
    expect(server.commands.slice(1)).toEqual(['reenter a me:1 1', HAND_OVER]);
    await (await second).release();
  });
});

it.each<Fate>(['answered', 'lost reply', 'lost command'])(
  'close() during a hand-over leaves nothing on the server: %s',
  async (fate) => {
    fates(fate);
    const { second, released, answer } = await underWay();
    const closing = client.holdfast.close();
    await answer();
    await pass(LEASE_MS / 3);
    await closing;
    expect(server.heldNames).toEqual([]);
    expect(second.signal.aborted).toBe(true);
    await released.catch(() => undefined);
    expect(vi.getTimerCount()).toBe(0);
  },
);

describe('close() in the turn of a release that hands over', () => {
  const kinds = { plain: () => lock, fenced: () => client.holdfast.getFencedLock('a') };

  it.each(['plain', 'fenced'] as const)(
    'reports no loss, since nobody has the lock: the release resolves, the waiter gets ClosedError (%s)',
    async (kind) => {
      const { first, second } = await oneWaits({ of: kinds[kind]() });
      const released = first.release();
      const closed = client.holdfast.close();
      await pass(100);
      await released;
      await expect(second).rejects.toMatchObject({ code: 'CLIENT_CLOSED' });
      await closed;
      expect(client.told('lost')).toEqual([]);
      expect(server.heldNames).toEqual([]);
      expect(vi.getTimerCount()).toBe(0);
    },
  );

  it.each(['plain', 'fenced'] as const)(
    'fails the release if the key was deleted before (%s)',
    async (kind) => {
      const { first, second } = await oneWaits({ of: kinds[kind]() });
      second.catch(() => undefined);
      server.delete('a');
      const failed = rejectionOf(first.release());
      const closed = client.holdfast.close();
      await pass(100);
      expect(await failed).toMatchObject({ code: 'LOCK_LOST', lossReason: 'deleted' });
      await closed;
      expect(client.told('lost')).toMatchObject([{ ownerId: first.ownerId }]);
    },
  );
});

describe('close() before the hand-over is answered', () => {
  it('fails the release of the first holder if the key was deleted before, and loses the successor', async () => {
    const { first, second } = await oneWaits();
    server.delete('a');
    const answer = holdUp();
    const failed = rejectionOf(first.release());
    const hold = await second;
    const closed = client.holdfast.close();
    await answer();
    await pass(100);
    expect(await failed).toMatchObject({ code: 'LOCK_LOST', lossReason: 'deleted' });
    expect(hold.signal.reason).toMatchObject({ lossReason: 'closed' });
    await closed;
  });

  it('reports no loss of a successor that has released its hold: both releases resolve', async () => {
    const { second, released, answer } = await underWay();
    const alsoReleased = second.release();
    await settle();
    const closed = client.holdfast.close();
    await answer();
    await pass(100);
    await Promise.all([released, alsoReleased, closed]);
    expect(client.told('lost')).toEqual([]);
    expect(server.heldNames).toEqual([]);
  });

  it('reports no loss of a successor that has released its hold if Redis stays silent: both releases say that the outcome is unknown', async () => {
    const { second, released } = await underWay();
    const alsoReleased = rejectionOf(second.release());
    await settle();
    const closed = client.holdfast.close();
    await pass(15_000);
    await closed;
    const unknown = {
      code: expect.stringMatching(/^(REDIS_UNAVAILABLE|CLIENT_CLOSED)$/) as string,
    };
    expect(await rejectionOf(released)).toMatchObject(unknown);
    expect(await alsoReleased).toMatchObject(unknown);
    expect(client.told('lost')).toEqual([]);
    expect(vi.getTimerCount()).toBe(0);
  });
});

it.each(['kept', 'deleted'])(
  'close() leaves a release that waits for an extension to its own outcome: %s',
  async (outcome) => {
    const hold = await lock.acquire();
    if (outcome === 'deleted') server.delete('a');
    const answer = holdUp();
    const extended = hold.extend(60_000).catch((error: unknown) => error);
    const released = hold.release().catch((error: unknown) => error);
    const closed = client.holdfast.close();
    await answer();
    await pass(100);
    await closed;
    const loss = outcome === 'deleted' ? { code: 'LOCK_LOST', lossReason: 'deleted' } : undefined;
    for (const each of [await extended, await released])
      if (loss) expect(each).toMatchObject(loss);
      else expect(each).toBeUndefined();
    expect(client.told('lost').map(({ lossReason }) => lossReason)).toEqual(
      loss ? ['deleted'] : [],
    );
    expect(server.heldNames).toEqual([]);
  },
);

it('a waiter that leaves at once is no loss if the repeated hand-over finds both owners gone', async () => {
  fates('lost reply');
  const aborter = new AbortController();
  const { first, second } = await oneWaits({ wanted: { signal: aborter.signal } });
  const released = first.release();
  aborter.abort();
  await expect(second).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
  server.delete('a');
  await pass(3_000);
  await released;
  expect(client.told('lost')).toEqual([]);
});

describe('a plain release replaces the hand-over', () => {
  it('after 16 hand-overs in a row', async () => {
    const first = await lock.acquire();
    const turns = Array.from({ length: 20 }, () => lock.withLock(() => undefined));
    await settle();
    await first.release();
    await pass(100);
    await Promise.all(turns);
    const ends = server.commands.filter((command) => !command.startsWith('acquire'));
    expect(ends.findIndex((command) => command.startsWith('release'))).toBe(16);
    expect(server.heldNames).toEqual([]);
  });

  it.each([
    [9, 'hand over a'],
    [10, 'release a'],
  ])(
    '10 ms after the lock was acquired: %i ms after it, the client sends "%s"',
    async (ms, what) => {
      const { first, second } = await oneWaits();
      await pass(ms);
      await first.release();
      expect(server.commands[1]).toContain(what);
      await pass(100);
      await (await second).release();
    },
  );

  it.each([
    [5, 'hand over a'],
    [8, 'release a'],
  ])(
    'when less than half of the lease is left: after %i ms of 16, the client sends "%s"',
    async (ms, what) => {
      const { first, second } = await oneWaits({ held: { lease: 16 } });
      await pass(ms);
      await first.release();
      expect(server.commands[1]).toContain(what);
      await pass(100);
      await (await second).release();
    },
  );

  it('of a fair lock', async () => {
    const { first, second } = await oneWaits({ of: client.holdfast.getFairLock('a') });
    await first.release();
    await pass(100);
    await (await second).release();
    expect(sent('hand over')).toEqual([]);
  });

  it('when replicas have to acknowledge acquisitions: the release does not wait for them', async () => {
    await connect({ server: new FakeServer({ replicaCount: 1 }), replicas: 1 });
    const { first, second } = await oneWaits();
    server.lagMs = 60_000;
    await first.release();
    expect(sent('hand over')).toEqual([]);
    server.lagMs = 0;
    await pass(1_000);
    await (await second).release();
  });

  it('when the counter of a fenced lock is not a number: the release succeeds', async () => {
    const take = vi.spyOn(server, 'take');
    const { first, second } = await oneWaits({ of: client.holdfast.getFencedLock('a') });
    const failed = rejectionOf(second);
    const [peer] = take.mock.calls.at(-1)!;
    server.take(peer, 'set', ['redisson_lock_token:{a}', 'no number'], () => undefined);
    await first.release();
    await pass(1_000);
    expect(await failed).toMatchObject({ code: 'KEY_CONFLICT' });
    expect(client.told('lost')).toEqual([]);
    expect(server.heldNames).toEqual([]);
  });

  it('when a MultiLock waits for the lock', async () => {
    const first = await lock.acquire();
    const second = client.holdfast.getMultiLock(lock, client.getLock('b')).acquire();
    await settle();
    await first.release();
    await pass(1_000);
    await (await second).release();
    expect(sent('hand over')).toEqual([]);
    expect(server.heldNames).toEqual([]);
  });

  it('when no other caller of this client waits for the lock', async () => {
    await (await lock.acquire()).release();
    expect(server.commands).toEqual(['acquire a me:1', 'release a me:1']);
  });
});
