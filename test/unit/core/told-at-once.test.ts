// A holder learns at once that its key has gone: the server tells it when the key changes (CLIENT TRACKING), and it asks whether it still holds.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Hold, Lock } from '../../../src/index.js';
import type { Reply } from '../../../src/testing/lua-runtime.js';
import type { MemoryServer } from '../../../src/testing/server.js';
import {
  fakeHoldfast,
  type FakeHoldfast,
  type FakeOptions,
  FakeServer,
  sourceOf,
} from '../../support/fake-holdfast.js';
import { LIBRARY, type Library } from '../../../src/redis/port.js';
import { scripts } from '../../../src/redis/scripts.generated.js';
import { Tracking } from '../../../src/redis/tracking.js';
import { expectOutages } from '../../support/expected-warnings.js';

const WATCHDOG_MS = 30_000;

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

function pass(ms: number): Promise<unknown> {
  return vi.advanceTimersByTimeAsync(ms);
}

type Held = Pick<Hold, 'signal' | 'remaining'>;
type Kind = (fake: FakeHoldfast) => Promise<Held>;

const EXCLUSIVE: Record<string, Kind> = {
  plain: ({ getLock }) => getLock('a').acquire(),
  'with a lease': ({ getLock }) => getLock('a').acquire({ lease: 60_000 }),
  fair: ({ holdfast }) => holdfast.getFairLock('a').acquire(),
  fenced: ({ holdfast }) => holdfast.getFencedLock('a').acquire(),
  write: ({ holdfast }) => holdfast.getReadWriteLock('a').writeLock().acquire(),
  'member of a MultiLock': ({ holdfast, getLock }) =>
    holdfast.getMultiLock(getLock('a'), getLock('b')).acquire(),
  'Redlock of one': ({ holdfast, getLock }) => holdfast.getRedLock(getLock('a')).acquire(),
};

const SHARED: Record<string, Kind> = {
  read: ({ holdfast }) => holdfast.getReadWriteLock('a').readLock().acquire(),
  permit: ({ holdfast }) => holdfast.getSemaphore('a', { permits: 3 }).acquire(),
};

const CHANGES: Record<string, (server: FakeServer) => void> = {
  'is deleted': (server) => {
    server.delete('a');
  },
  'is flushed with all others': (server) => {
    server.execute('FLUSHALL');
  },
  'is taken by somebody else': (server) => {
    server.hold('a');
  },
  'is overwritten': (server) => {
    server.occupy('a');
  },
};

describe.each(Object.entries(EXCLUSIVE))('the holder of a lock (%s)', (_, acquire) => {
  it.each(Object.entries(CHANGES))('learns within 50 ms that its key %s', async (_, change) => {
    const fake = fakeHoldfast();
    const hold = await acquire(fake);
    await pass(1_000);
    change(fake.server);
    expect(hold.signal.aborted).toBe(false);
    await pass(50);
    expect(hold.signal.reason).toMatchObject({ code: 'LOCK_LOST' });
    expect(hold.remaining()).toBe(0);
    expect(fake.told('lost')).toMatchObject([{ lockName: expect.stringMatching(/a/) as string }]);
    expect(fake.told('error')).toEqual([]);
    await fake.holdfast.close();
  });

  it('is told of a change within its first second when that is over', async () => {
    const fake = fakeHoldfast();
    const hold = await acquire(fake);
    await pass(200);
    fake.server.delete('a');
    await pass(800);
    expect(hold.signal.aborted).toBe(true);
    await fake.holdfast.close();
  });
});

describe.each(Object.entries(SHARED))('the holder of a shared lock (%s)', (_, acquire) => {
  it.each(Object.entries(CHANGES))('learns within a second that its key %s', async (_, change) => {
    const fake = fakeHoldfast();
    const hold = await acquire(fake);
    await pass(1_000);
    change(fake.server);
    await pass(1_000);
    expect(hold.signal.reason).toMatchObject({ code: 'LOCK_LOST' });
    await fake.holdfast.close();
  });
});

it('a short hold reads nothing and opens no connection', async () => {
  const { holdfast, getLock, server } = fakeHoldfast();
  for (let pairs = 0; pairs < 20; pairs++) {
    const hold = await getLock('a').acquire();
    await pass(300);
    await hold.release();
  }
  expect(server.commands.filter((each) => each.startsWith('look'))).toEqual([]);
  expect(server.connectionCount).toBe(1);
  await holdfast.close();
});

it('the connections are closed half a minute after the last long hold', async () => {
  const { holdfast, getLock, server } = fakeHoldfast();
  const hold = await getLock('a').acquire();
  await pass(1_000);
  expect(server.connectionCount).toBe(3);
  await hold.release();
  await pass(29_000);
  expect(server.connectionCount).toBe(3);
  await pass(1_001);
  expect(server.connectionCount).toBe(1);
  await holdfast.close();
  expect(vi.getTimerCount()).toBe(0);
});

describe('after a write of its own, a holder is still told', () => {
  it.each<[string, (hold: Hold, fake: FakeHoldfast) => Promise<unknown>]>([
    ['an extension', (hold) => hold.extend(60_000)],
    ['a renewal', () => pass(WATCHDOG_MS / 3)],
    [
      'a nested call',
      (hold, { getLock }) => hold.run(() => getLock('a').withLock(() => undefined)),
    ],
    [
      'a nested call that has not ended',
      (hold, { getLock }) => hold.run(() => getLock('a').acquire()),
    ],
  ])('%s', async (_, write) => {
    const fake = fakeHoldfast();
    const hold = await fake.getLock('a').acquire();
    await pass(1_000);
    await write(hold, fake);
    await pass(20);
    fake.server.delete('a');
    await pass(50);
    expect(hold.signal.aborted).toBe(true);
    await fake.holdfast.close();
  });

  it('a downgrade', async () => {
    const fake = fakeHoldfast();
    const lock = fake.holdfast.getReadWriteLock('a');
    const write = await lock.writeLock().acquire();
    const read = await write.run(() => lock.readLock().acquire());
    await pass(1_000);
    await write.release();
    await pass(1_000);
    fake.server.delete('a');
    await pass(1_000);
    expect(read.signal.aborted).toBe(true);
    await fake.holdfast.close();
  });

  it.each<[string, (fake: FakeHoldfast) => Lock]>([
    ['plain', ({ getLock }) => getLock('a')],
    ['fair', ({ holdfast }) => holdfast.getFairLock('a')],
    ['fenced', ({ holdfast }) => holdfast.getFencedLock('a')],
    ['write', ({ holdfast }) => holdfast.getReadWriteLock('a').writeLock()],
  ])('a hand-over to the next waiter (%s)', async (_, lockOf) => {
    const fake = fakeHoldfast();
    const first = await lockOf(fake).acquire();
    const second = lockOf(fake).acquire();
    await pass(1_000);
    await first.release();
    const hold = await second;
    await pass(1_000);
    fake.server.delete('a');
    await pass(50);
    expect(hold.signal.aborted).toBe(true);
    expect(fake.told('lost')).toHaveLength(1);
    await fake.holdfast.close();
  });

  it('a hand-over to another client, and the former holder is asked nothing', async () => {
    const server = new FakeServer();
    const [fake, other] = [fakeHoldfast({ server }), fakeHoldfast({ server })];
    const first = await fake.holdfast.getFairLock('a').acquire();
    const second = other.holdfast.getFairLock('a').acquire();
    await pass(1_000);
    await first.release();
    const hold = await second;
    await pass(1_000);
    expect(looks(server)).toBeGreaterThan(0);
    expect(fake.told('lost')).toEqual([]);
    server.delete('a');
    await pass(50);
    expect(hold.signal.aborted).toBe(true);
    expect(fake.told('lost')).toEqual([]);
    await Promise.all([fake.holdfast.close(), other.holdfast.close()]);
  });
});

it('a kept lock that is gone is dropped while nobody uses it, with word of the holds that nothing protected, and lost while somebody does', async () => {
  const fake = fakeHoldfast();
  const lock = fake.holdfast.getLock('a', { keep: 3_000 });
  const other = fakeHoldfast({ server: fake.server, clientId: 'other' });
  for (let warm = 0; warm < 3; warm++) {
    await (await lock.acquire()).release();
    await pass(100);
  }
  expect(fake.holdfast.stats().kept).toBe(1);
  await pass(1_000);
  fake.server.delete('a');
  await pass(50);
  expect(fake.holdfast.stats().kept).toBe(0);
  expect(fake.told('lost')).toMatchObject([{ holdIds: [], provenAt: expect.any(Date) as Date }]);
  for (let warm = 0; warm < 2; warm++) {
    await (await lock.acquire()).release();
    await pass(100);
  }
  const hold = await lock.acquire();
  await pass(1_000);
  fake.server.delete('a');
  await pass(50);
  expect(hold.signal.aborted).toBe(true);
  await Promise.all([fake.holdfast.close(), other.holdfast.close()]);
});

it('a hold that was kept is told also right after its extension, which ends the keeping', async () => {
  const fake = fakeHoldfast();
  const lock = fake.holdfast.getLock('a', { keep: 3_000 });
  for (let warm = 0; warm < 3; warm++) {
    await (await lock.acquire()).release();
    await pass(100);
  }
  const hold = await lock.acquire();
  await pass(1_000);
  await hold.extend(60_000);
  await pass(20);
  fake.server.delete('a');
  await pass(50);
  expect(hold.signal.aborted).toBe(true);
  await fake.holdfast.close();
});

/** Runs until a lock is held that the server tells of. */
async function held(options?: FakeOptions): Promise<FakeHoldfast & { hold: Hold }> {
  const fake = fakeHoldfast(options);
  const hold = await fake.getLock('a').acquire();
  await pass(1_000);
  return { ...fake, hold };
}

const renewals = (server: FakeServer): number =>
  server.commands.filter((each) => each === 'renew').length;
const looks = (server: FakeServer): number =>
  server.commands.filter((each) => each === 'look a').length;

/** A server that counts the connections which it tells of changes. */
class TrackedServer extends FakeServer {
  get trackedCount(): number {
    return [...this.peers].filter(({ toldTo }) => toldTo !== undefined).length;
  }
}

/** A server whose invalidations a test sees, and may drop. */
class TellingServer extends FakeServer {
  /** Sends invalidations to every hearer, as the server would. */
  tell(keys: readonly string[] | undefined): void {
    for (const peer of this.peers) if (peer.classic.size > 0) peer.invalidated?.(keys);
  }
}

describe('a message alone', () => {
  it.each<[string, readonly string[] | undefined]>([
    ['for its key', ['a']],
    ['for all keys', undefined],
    ['for other keys', ['b', 'c']],
  ])('%s loses nothing and renews nothing, however often it comes', async (_, keys) => {
    const server = new TellingServer();
    const { hold, holdfast, told } = await held({ server });
    const [looked, renewed] = [looks(server), renewals(server)];
    for (let times = 0; times < 1_000; times++) {
      server.tell(keys);
      await pass(1);
    }
    expect(hold.signal.aborted).toBe(false);
    expect(told('error')).toEqual([]);
    expect(renewals(server)).toBe(renewed);
    expect(looks(server) - looked).toBeLessThanOrEqual(15);
    await hold.release();
    await holdfast.close();
  });
});

describe('a message about the key', () => {
  /** Decides on each message: how often it comes, and after how long. */
  class OddServer extends FakeServer {
    times = 1;
    delayMs = 0;

    protected override invalidate(id: number | undefined, keys?: readonly string[]): void {
      const tell = (): void => {
        for (let times = 0; times < this.times; times++) super.invalidate(id, keys);
      };
      if (this.delayMs > 0) setTimeout(tell, this.delayMs);
      else tell();
    }
  }

  it('that comes several times is told as one loss', async () => {
    const server = new OddServer();
    const { hold, holdfast, told } = await held({ server });
    server.times = 5;
    server.delete('a');
    await pass(50);
    expect(hold.signal.aborted).toBe(true);
    expect(told('lost')).toHaveLength(1);
    expect(told('error')).toEqual([]);
    await holdfast.close();
  });

  it('that is lost costs a renewal, and the next message is heard', async () => {
    const server = new OddServer();
    const { hold, holdfast } = await held({ server });
    server.times = 0;
    server.execute('HSET', 'a', 'stranger', '1');
    await pass(100);
    server.times = 1;
    await pass(WATCHDOG_MS / 3 + 200); // the renewal writes, too, but not to a key that is tracked
    server.delete('a');
    await pass(WATCHDOG_MS / 3);
    expect(hold.signal.aborted).toBe(true);
    await holdfast.close();
  });

  it('that is late ends only the hold that it is about', async () => {
    const server = new OddServer();
    const { hold, holdfast, getLock, told } = await held({ server });
    server.delayMs = 2_000;
    await hold.release(); // which is told in two seconds
    const next = await getLock('a').acquire();
    await pass(5_000);
    expect(next.signal.aborted).toBe(false);
    server.delete('a');
    await pass(1_900);
    expect(next.signal.aborted).toBe(false);
    await pass(150);
    expect(next.signal.aborted).toBe(true);
    expect(told('lost')).toHaveLength(1);
    await holdfast.close();
  });
});

it('a server that has forgotten all scripts tells of changes as before', async () => {
  const { hold, holdfast, server } = await held();
  server.forgetScripts();
  server.execute('HSET', 'a', 'stranger', '1'); // the look that follows is no script
  await pass(150);
  server.delete('a');
  await pass(50);
  expect(hold.signal.aborted).toBe(true);
  await holdfast.close();
});

it('a stranger who writes to the key all the time causes ten looks a second, and no renewal is missed', async () => {
  const { hold, holdfast, server, told } = await held();
  const looked = looks(server);
  for (let ms = 0; ms < 3 * WATCHDOG_MS; ms += 10) {
    server.execute('HSET', 'a', 'stranger', '1');
    await pass(10);
  }
  expect(hold.signal.aborted).toBe(false);
  expect(told('renewed').length).toBeGreaterThanOrEqual(8);
  expect(looks(server) - looked).toBeLessThanOrEqual((10 * 3 * WATCHDOG_MS) / 1_000 + 5);
  server.execute('HDEL', 'a', hold.ownerId);
  await pass(150);
  expect(hold.signal.aborted).toBe(true);
  await holdfast.close();
});

it('a semaphore with many holders that come and go is looked at once a second for each of them at most', async () => {
  const fake = fakeHoldfast();
  const semaphore = fake.holdfast.getSemaphore('a', { permits: 64 });
  const holds = await Promise.all(Array.from({ length: 63 }, () => semaphore.acquire()));
  await pass(1_000);
  const looked = looks(fake.server);
  for (let ms = 0; ms < 3 * WATCHDOG_MS; ms += 100) {
    const other = await semaphore.acquire();
    await pass(50);
    await other.release();
    await pass(50);
  }
  expect(holds.filter(({ signal }) => signal.aborted)).toEqual([]);
  expect(looks(fake.server) - looked).toBeLessThanOrEqual(63 * ((3 * WATCHDOG_MS) / 1_000 + 1));
  fake.server.delete('a');
  await pass(1_000);
  expect(holds.filter(({ signal }) => !signal.aborted)).toEqual([]);
  await fake.holdfast.close();
});

it('a lock that begins while a shared key waits for its next look is looked at in its first second all the same', async () => {
  const fake = fakeHoldfast();
  const permit = await fake.holdfast.getSemaphore('s', { permits: 3 }).acquire();
  await pass(1_000);
  for (const value of ['1', '2']) {
    fake.server.execute('HSET', 's', 'stranger', value);
    await pass(20);
  }
  const hold = await fake.getLock('a').acquire();
  await pass(1_000);
  fake.server.delete('a');
  await pass(50);
  expect(hold.signal.aborted).toBe(true);
  expect(permit.signal.aborted).toBe(false);
  await fake.holdfast.close();
});

it('a key that changes while it is being read is read once more', async () => {
  const { hold, holdfast, server } = await held();
  let travelMs = 60;
  server.travel = (to) =>
    to === 'client' ? new Promise((resolve) => setTimeout(resolve, travelMs)) : Promise.resolve();
  server.execute('HSET', 'a', 'stranger', '1');
  await pass(65); // told, and read; the answer is on its way
  travelMs = 0;
  server.delete('a'); // which is told before the answer comes
  await pass(200);
  expect(hold.signal.aborted).toBe(true);
  await holdfast.close();
});

it('a change that is told while a renewal is unanswered is asked about once it is answered', async () => {
  const { hold, holdfast, server } = await held();
  const other = fakeHoldfast({ server });
  server.travel = () => new Promise((resolve) => setTimeout(resolve, 4));
  const before = renewals(server);
  server.forgetScripts(); // so the first answer takes longer
  void other.getLock('a').forceUnlock(); // there are a message and a word
  await pass(100);
  expect(hold.signal.reason).toMatchObject({ lossReason: 'forced' });
  expect(renewals(server) - before).toBeLessThanOrEqual(2);
  server.travel = () => Promise.resolve();
  await Promise.all([holdfast.close(), other.holdfast.close()]);
});

describe('when the server tells nothing', () => {
  expectOutages();

  const silent = async (fake: FakeHoldfast & { hold: Hold }): Promise<void> => {
    const { hold, server, told, holdfast } = fake;
    server.delete('a');
    await pass(500);
    expect(hold.signal.aborted).toBe(false);
    await pass(WATCHDOG_MS / 3);
    expect(hold.signal.aborted).toBe(true);
    expect(told('error')).toEqual([]);
    await holdfast.close();
  };

  it('since it does not know CLIENT TRACKING, the next renewal finds the loss, and no error event is emitted', async () => {
    const server = new (class extends FakeServer {
      protected override client(peer: never, what: string, ...more: readonly string[]): never {
        if (what.toUpperCase() === 'TRACKING')
          return { err: "ERR unknown subcommand 'TRACKING'" } as never;
        return super.client(peer, what, ...more) as never;
      }
    })();
    await silent(await held({ server }));
  });

  it('since it does not permit it, the next renewal finds the loss', async () => {
    const server = new (class extends FakeServer {
      protected override client(): never {
        return { err: "NOPERM this user has no permissions to run the 'client' command" } as never;
      }
    })();
    await silent(await held({ server }));
  });

  it('although it accepts everything, the next renewal finds the loss', async () => {
    const server = new (class extends FakeServer {
      protected override invalidate(): void {
        // says nothing
      }
    })();
    await silent(await held({ server }));
  });
});

it('holds of which the server does not tell are not gone through again and again', async () => {
  const server = new (class extends FakeServer {
    protected override client(): never {
      return { err: 'NOPERM not you' } as never;
    }
  })();
  const fake = fakeHoldfast({ server });
  const locks = Array.from({ length: 1_000 }, (_, n) => fake.getLock(`a${String(n)}`));
  await Promise.all(locks.map((lock) => lock.acquire()));
  await pass(1_000);
  const canRead = vi.spyOn(Tracking.prototype, 'canRead');
  for (let young = 0; young < 10; young++) {
    await (await fake.getLock('young').acquire()).release();
    await pass(500);
  }
  expect(canRead).not.toHaveBeenCalled();
  canRead.mockRestore();
  await fake.holdfast.close();
});

describe('who is forced out learns it at once, although the server does not tell of changes', () => {
  class Untold extends FakeServer {
    protected override client(): never {
      return { err: "NOPERM this user has no permissions to run the 'client' command" } as never;
    }
  }
  const force: Record<string, (by: FakeHoldfast) => Promise<unknown>> = {
    write: ({ holdfast }) => holdfast.getReadWriteLock('a').writeLock().forceUnlock(),
    read: ({ holdfast }) => holdfast.getReadWriteLock('a').readLock().forceUnlock(),
  };
  const kinds = { ...EXCLUSIVE, read: SHARED['read']! };

  it.each(Object.entries(kinds))('%s', async (kind, acquire) => {
    const server = new Untold();
    const fake = fakeHoldfast({ server });
    const other = fakeHoldfast({ server });
    const hold = await acquire(fake);
    await pass(1_000);
    await (force[kind]?.(other) ?? other.getLock('a').forceUnlock());
    await pass(50);
    expect(hold.signal.reason).toMatchObject({ lossReason: 'forced' });
    expect(fake.told('error')).toEqual([]);
    await Promise.all([fake.holdfast.close(), other.holdfast.close()]);
  });

  it.each([
    ['permit', 'semaphore'],
    ['read', 'read-write'],
  ] as const)('one of two holders that is put out alone (%s)', async (kind, onServer) => {
    const server = new Untold();
    const fake = fakeHoldfast({ server });
    const other = fakeHoldfast({ server });
    const [hold, beside] = (await Promise.all([SHARED[kind]!(fake), SHARED[kind]!(fake)])) as [
      Hold,
      Hold,
    ];
    await pass(1_000);
    expect(await other.holdfast.releaseOwner('a', onServer, hold.ownerId)).toBe(true);
    await pass(50);
    expect(hold.signal.reason).toMatchObject({ lossReason: 'forced' });
    expect(beside.signal.aborted).toBe(false);
    expect(await other.holdfast.releaseOwner('a', onServer, hold.ownerId)).toBe(false);
    await beside.release();
    expect(server.keys.names).toEqual([]);
    await Promise.all([fake.holdfast.close(), other.holdfast.close()]);
  });

  it.each([
    ['permit', 'semaphore'],
    ['read', 'read-write'],
  ] as const)('an extension finds it, too (%s)', async (kind, onServer) => {
    const fake = fakeHoldfast({ server: new Untold() });
    const hold = (await SHARED[kind]!(fake)) as Hold;
    const other = fakeHoldfast({ server: fake.server });
    await other.holdfast.releaseOwner('a', onServer, hold.ownerId);
    await expect(hold.extend(60_000)).rejects.toMatchObject({ lossReason: 'forced' });
    await Promise.all([fake.holdfast.close(), other.holdfast.close()]);
  });

  it('the member of a MultiLock is lost, and the MultiLock with it', async () => {
    const server = new Untold();
    const fake = fakeHoldfast({ server });
    const other = fakeHoldfast({ server });
    const hold = await fake.holdfast.getMultiLock(fake.getLock('a'), fake.getLock('b')).acquire();
    await pass(1_000);
    await other.getLock('b').forceUnlock();
    await pass(50);
    expect(hold.signal.reason).toMatchObject({ lockName: 'multi(a, b)', lossReason: 'forced' });
    await pass(1);
    expect(server.heldNames).toEqual([]);
    await Promise.all([fake.holdfast.close(), other.holdfast.close()]);
  });

  describe.each([
    ['old', 1_000],
    ['young', 50],
  ])('a kept lock that is %s', (_, ageMs) => {
    /** Runs until the client keeps a grant for so long. */
    async function kept(): Promise<[FakeHoldfast, FakeHoldfast, Lock]> {
      const server = new Untold();
      const [fake, other] = [fakeHoldfast({ server }), fakeHoldfast({ server })];
      const lock = fake.holdfast.getLock('a', { keep: 3_000 });
      for (let warm = 0; warm < 2; warm++) {
        await (await lock.acquire()).release();
        await pass(10);
      }
      expect(fake.holdfast.stats().kept).toBe(1);
      await pass(ageMs);
      return [fake, other, lock];
    }

    it('is dropped while nobody uses it', async () => {
      const [fake, other] = await kept();
      await other.getLock('a').forceUnlock();
      await pass(50);
      expect(fake.holdfast.stats().kept).toBe(0);
      await Promise.all([fake.holdfast.close(), other.holdfast.close()]);
    });

    it('is lost while somebody uses it', async () => {
      const [fake, other, lock] = await kept();
      const hold = await lock.acquire();
      await other.getLock('a').forceUnlock();
      await pass(50);
      expect(hold.signal.reason).toMatchObject({ lossReason: 'forced' });
      await Promise.all([fake.holdfast.close(), other.holdfast.close()]);
    });

    it.each(['forced', 'gone', 'forced now', ''])(
      'stays kept after a forged word ("%s")',
      async (word) => {
        const [fake, other, lock] = await kept();
        const hold = await lock.acquire();
        const number = hold.ownerId.slice(hold.ownerId.lastIndexOf(':') + 1);
        const channel = `holdfast_wishes:${fake.holdfast.clientId}`;
        fake.server.execute('PUBLISH', channel, `${number} ${word}`);
        await pass(200);
        expect(hold.signal.aborted).toBe(false);
        await hold.release();
        expect(fake.holdfast.stats().kept).toBe(1);
        await Promise.all([fake.holdfast.close(), other.holdfast.close()]);
      },
    );
  });

  it('many readers of two clients, by one message to each', async () => {
    const server = new Untold();
    const [one, two, other] = [0, 1, 2].map(() => fakeHoldfast({ server })) as [
      FakeHoldfast,
      FakeHoldfast,
      FakeHoldfast,
    ];
    const holds = await Promise.all([one, two, one, two, one].map((fake) => SHARED['read']!(fake)));
    await pass(1_000);
    const heard = [...server.peers].map((peer) => vi.spyOn(peer, 'message'));
    await other.holdfast.getReadWriteLock('a').readLock().forceUnlock();
    await pass(50);
    expect(holds.map(({ signal }) => signal.aborted)).toEqual([true, true, true, true, true]);
    const words = heard
      .flatMap(({ mock }) => mock.calls)
      .filter(([channel]) => channel.startsWith('holdfast_wishes:'))
      .map(([, word]) => word.split(',').length);
    expect(words.sort()).toEqual([2, 3]);
    await Promise.all([one, two, other].map(({ holdfast }) => holdfast.close()));
  });

  it.each([
    ['forged', 'forced'],
    ['unknown', 'gone'],
  ])(
    'a word that is %s ends nothing, and is asked about ten times a second at most, after the first five',
    async (_, word) => {
      const server = new Untold();
      const fake = fakeHoldfast({ server });
      const hold = (await EXCLUSIVE['plain']!(fake)) as Hold;
      await pass(1_000);
      const before = server.commands.length;
      const [, number] = /:(-?\d+)$/.exec(hold.ownerId)!;
      for (let ms = 0; ms < 1_000; ms += 5) {
        server.execute(
          'PUBLISH',
          `holdfast_wishes:${fake.holdfast.clientId}`,
          `${number!} ${word}`,
        );
        await pass(5);
      }
      expect(hold.signal.aborted).toBe(false);
      const asked = server.commands.slice(before).filter((each) => each.startsWith('renew'));
      expect(asked.length).toBeLessThanOrEqual(word === 'forced' ? 15 : 0);
      if (word === 'forced') expect(asked.length).toBeGreaterThanOrEqual(9);
      await hold.release();
      await fake.holdfast.close();
    },
  );
});

describe('behind a balancer, which leads each connection to a server of its own choice', () => {
  type Role = 'commands' | 'reader' | 'hearer';

  /** Which server the connections of each role are led to. */
  function balanced(roles: Record<Role, FakeServer>): FakeHoldfast {
    let readers = 0;
    const libraryOf = (server: FakeServer): Library =>
      (sourceOf(server) as Record<typeof LIBRARY, () => Library>)[LIBRARY]();
    const library: Library = {
      ...libraryOf(roles.commands),
      open: (address, purpose, heard) => {
        const isFirst = purpose === 'commands' && readers++ === 0;
        const role = purpose === 'subscriptions' ? 'hearer' : isFirst ? 'commands' : 'reader';
        return libraryOf(roles[role]).open(address, purpose, heard);
      },
    };
    return fakeHoldfast({ server: roles.commands, redis: { [LIBRARY]: () => library } });
  }

  it.each<[string, Partial<Record<Role, true>>]>([
    ['the connection that hears', { hearer: true }],
    ['the connection that reads', { reader: true }],
    ['both of them', { hearer: true, reader: true }],
  ])(
    'nothing is tracked while %s is at another server, and losses are told once it is not',
    async (_, isElsewhere) => {
      const [home, elsewhere] = [new TrackedServer(), new TrackedServer()];
      const at = (role: Role): FakeServer => (isElsewhere[role] ? elsewhere : home);
      const roles = { commands: home, reader: at('reader'), hearer: at('hearer') };
      const fake = balanced(roles);
      const first = await fake.getLock('a').acquire();
      const second = await fake.getLock('b').acquire();
      await pass(1_500);
      home.delete('a');
      await pass(1_000);
      expect(first.signal.aborted).toBe(false);
      expect([home.trackedCount, elsewhere.trackedCount]).toEqual([0, 0]);
      await pass(WATCHDOG_MS / 3);
      expect(first.signal.aborted).toBe(true);
      Object.assign(roles, { reader: home, hearer: home });
      await pass(40_000); // it tries ever more seldom
      expect([home.trackedCount, elsewhere.trackedCount]).toEqual([1, 0]);
      home.delete('b');
      await pass(50);
      expect(second.signal.aborted).toBe(true);
      expect(fake.told('error')).toEqual([]);
      await fake.holdfast.close();
    },
  );
});

describe('after a new connection for commands', () => {
  expectOutages();

  const cutCommands = (server: FakeServer): void => {
    for (const peer of [...server.peers]) {
      if (peer.classic.size > 0 || peer.toldTo !== undefined) continue;
      server.leave(peer);
      peer.hungUp();
    }
  };

  it('to the same server, the pair stays, and losses are told', async () => {
    const server = new TrackedServer();
    const { hold, holdfast } = await held({ server });
    cutCommands(server);
    await pass(500);
    expect(server.trackedCount).toBe(1);
    server.delete('a');
    await pass(50);
    expect(hold.signal.aborted).toBe(true);
    await holdfast.close();
  });

  it('to another server, another pair follows it there', async () => {
    const [former, next] = [new TrackedServer(), new TrackedServer()];
    let at = former;
    const libraryOf = (server: FakeServer): Library =>
      (sourceOf(server) as Record<typeof LIBRARY, () => Library>)[LIBRARY]();
    const library: Library = {
      ...libraryOf(former),
      open: (...args) => libraryOf(at).open(...args),
    };
    const fake = fakeHoldfast({ server: former, redis: { [LIBRARY]: () => library } });
    const hold = await fake.getLock('a').acquire();
    await pass(1_000);
    next.hold('a', hold.ownerId);
    at = next;
    cutCommands(former);
    await pass(500);
    expect([former.connectionCount, next.trackedCount]).toEqual([0, 1]);
    expect(hold.signal.aborted).toBe(false);
    next.delete('a');
    await pass(50);
    expect(hold.signal.aborted).toBe(true);
    await fake.holdfast.close();
  });

  it('that took long, a pair is opened without a pause', async () => {
    const server = new TrackedServer();
    const fake = fakeHoldfast({ server, lockWatchdogTimeout: 600_000 });
    const hold = await fake.getLock('a').acquire();
    await pass(1_000);
    server.down();
    await pass(120_000);
    server.up();
    await pass(1_000);
    expect(hold.signal.aborted).toBe(false);
    server.delete('a');
    await pass(50);
    expect(hold.signal.aborted).toBe(true);
    await fake.holdfast.close();
  });
});

describe('a server that answers, but not as it should,', () => {
  it('and does not say which it is, leaves word of what was forced', async () => {
    const server = new (class extends TrackedServer {
      override take(...[peer, command, args, answer]: Parameters<FakeServer['take']>): void {
        super.take(peer, command, args, (reply) => {
          answer(typeof reply === 'string' ? reply.replace(/run_id:.*/, '') : reply);
        });
      }
    })();
    const [fake, other] = [fakeHoldfast({ server }), fakeHoldfast({ server })];
    const hold = await fake.getLock('a').acquire();
    await pass(8_000);
    expect(server.trackedCount).toBe(0);
    await other.getLock('a').forceUnlock();
    await pass(50);
    expect(hold.signal.reason).toMatchObject({ lossReason: 'forced' });
    expect(fake.told('error')).toEqual([]);
    await Promise.all([fake.holdfast.close(), other.holdfast.close()]);
  });

  it('and refuses to read a key, is asked for it once a second, and then tells', async () => {
    const { hold, holdfast, server } = await held();
    let asked = 0;
    server.fate = (command) => {
      if (!command.startsWith('look')) return 'answered';
      asked++;
      return 'loading';
    };
    server.execute('HSET', 'a', 'stranger', '1');
    await pass(10_000);
    expect(asked).toBeGreaterThan(8);
    expect(asked).toBeLessThanOrEqual(12);
    server.fate = () => 'answered';
    await pass(1_000);
    server.delete('a');
    await pass(150);
    expect(hold.signal.aborted).toBe(true);
    await holdfast.close();
  });

  it('and permits it later, tells from then on', async () => {
    let isDenied = true;
    const server = new (class extends FakeServer {
      protected override client(...args: Parameters<MemoryServer['client']>): Reply {
        const denied = { err: "NOPERM this user has no permissions to run the 'client' command" };
        return isDenied ? denied : super.client(...args);
      }
    })();
    const { hold, holdfast } = await held({ server });
    isDenied = false;
    await pass(301_000);
    server.delete('a');
    await pass(50);
    expect(hold.signal.aborted).toBe(true);
    await holdfast.close();
  });
});

describe('a Redlock that another client forces out', () => {
  /** A server at which `forceUnlock()` arrives late, and so does the next command that remembers a lease. */
  class Slow extends FakeServer {
    forceTakesMs = 0;
    rememberTakesMs = 0;

    override take(...[peer, command, args, answer]: Parameters<FakeServer['take']>): void {
      let takesMs = args[0] === scripts.forceUnlock.sha1 ? this.forceTakesMs : 0;
      if (args[0] === scripts.remember.sha1) {
        takesMs = this.rememberTakesMs;
        this.rememberTakesMs = 0;
      }
      const take = (): void => {
        super.take(peer, command, args, answer);
      };
      if (takesMs > 0) setTimeout(take, takesMs);
      else take();
    }
  }
  class SlowUntold extends Slow {
    protected override client(): never {
      return { err: "NOPERM this user has no permissions to run the 'client' command" } as never;
    }
  }

  async function forcedOut(servers: readonly Slow[], travelMs = 0): Promise<FakeHoldfast[]> {
    const clients = [0, 1].map(() => servers.map((server) => fakeHoldfast({ server })));
    const [lock, other] = clients.map((fakes) =>
      fakes[0]!.holdfast.getRedLock(...fakes.map(({ getLock }) => getLock('a')), {
        nodeTimeout: 2_000,
      }),
    );
    const hold = await lock!.acquire();
    await pass(1_000);
    const travel = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, travelMs));
    if (travelMs > 0) for (const server of servers) server.travel = travel;
    const forced = other!.forceUnlock();
    const longestMs = Math.max(...servers.map(({ forceTakesMs }) => forceTakesMs));
    await pass(longestMs + 50);
    expect(await forced).toBe(true);
    expect(hold.signal.reason).toMatchObject({ lossReason: 'forced' });
    await pass(1_000);
    expect(servers.map((server) => server.holder('a'))).toEqual(servers.map(() => undefined));
    return clients.flat();
  }
  const close = async (fakes: readonly FakeHoldfast[]): Promise<void> => {
    for (const fake of fakes) expect(fake.told('error')).toEqual([]);
    await Promise.all(fakes.map(({ holdfast }) => holdfast.close()));
  };

  const TELLING: [string, () => Slow][] = [
    ['which tell of changes', () => new Slow()],
    ['which tell nothing', () => new SlowUntold()],
  ];
  describe.each(TELLING)('on masters %s', (_, start) => {
    it('learns that it was forced, though a command beside its renewal takes longer', async () => {
      const servers = [0, 2, 2].map((forceTakesMs) =>
        Object.assign(start(), { forceTakesMs, rememberTakesMs: 40 }),
      );
      await close(await forcedOut(servers, 3));
    });

    it.each([3, 5])('learns it within 50 ms, of %i masters', async (count) => {
      await close(await forcedOut(Array.from({ length: count }, start)));
    });

    it.each<[string, readonly number[]]>([
      ['a few milliseconds', [0, 5, 12, 20, 28]],
      ['hundreds of milliseconds', [0, 150, 300, 450, 600]],
      ['hundreds of milliseconds, of three', [0, 300, 600]],
    ])('learns it though the masters are %s apart, and none gets the lock again', async (_, ms) => {
      const servers = ms.map((forceTakesMs) => Object.assign(start(), { forceTakesMs }));
      await close(await forcedOut(servers));
    });
  });
});

it('the holder of a Redlock learns within 50 ms that most masters have lost it, though another one is silent', async () => {
  class Freezing extends FakeServer {
    isFrozen = false;

    override take(...command: Parameters<FakeServer['take']>): void {
      if (!this.isFrozen) super.take(...command);
    }
  }
  const servers = [0, 1, 2].map(() => new Freezing());
  const fakes = servers.map((server) => fakeHoldfast({ server }));
  const locks = fakes.map(({ getLock }) => getLock('a'));
  const hold = await fakes[0]!.holdfast.getRedLock(...locks).acquire();
  await pass(1_000);
  servers[2]!.isFrozen = true;
  for (const server of servers.slice(0, 2)) server.delete('a');
  await pass(50);
  expect(hold.signal.reason).toMatchObject({ lossReason: 'deleted' });
  servers[2]!.isFrozen = false;
  const closed = Promise.all(fakes.map(({ holdfast }) => holdfast.close()));
  await pass(30_000); // what the silent one was asked is answered by nobody
  await closed;
});

it.each([
  ['the connection that hears', (peer: { classic: Set<string> }) => peer.classic.size > 0],
  [
    'the connection that reads',
    (peer: { toldTo?: number | undefined }) => peer.toldTo !== undefined,
  ],
])('after %s has ended, what was deleted in between is found by the next pair', async (_, isIt) => {
  const { hold, holdfast, server } = await held();
  for (const peer of [...server.peers]) {
    if (!isIt(peer)) continue;
    server.leave(peer);
    peer.hungUp();
  }
  server.delete('a');
  await pass(500);
  expect(hold.signal.aborted).toBe(true);
  await holdfast.close();
});

it('a client that was a member of a Redlock and is closed is forgotten', async () => {
  setFlagsFromString('--expose_gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  const owner = fakeHoldfast();
  const master = new FakeServer();
  const holdOnce = async (): Promise<WeakRef<object>> => {
    const member = fakeHoldfast({ server: master });
    const lock = owner.holdfast.getRedLock(owner.getLock('a'), member.getLock('a'));
    const hold = await lock.acquire();
    await pass(1_000);
    await hold.release();
    await member.holdfast.close();
    return new WeakRef(member.holdfast);
  };
  const closed: WeakRef<object>[] = [];
  for (let count = 0; count < 10; count++) closed.push(await holdOnce());
  await pass(1_000);
  collectGarbage();
  // A last one may still be on the stack.
  expect(closed.filter((each) => each.deref()).length).toBeLessThan(5);
  await owner.holdfast.close();
});

it('ten thousand holders learn of a flush within half a second, and no turn of the event loop reads more than 500 keys', async () => {
  const fake = fakeHoldfast();
  const locks = Array.from({ length: 10_000 }, (_, n) => fake.getLock(`a${String(n)}`));
  const holds = await Promise.all(locks.map((lock) => lock.acquire()));
  await pass(1_000);
  fake.server.execute('FLUSHALL');
  const counts: number[] = [];
  for (let ms = 0; ms < 500; ms++) {
    const before = fake.server.commands.length;
    await pass(1);
    const said = fake.server.commands.slice(before);
    counts.push(said.filter((each) => each.startsWith('look')).length);
  }
  expect(Math.max(...counts)).toBe(500);
  expect(counts.reduce((sum, count) => sum + count)).toBe(10_000);
  expect(holds.filter(({ signal }) => !signal.aborted)).toEqual([]);
  expect(fake.told('lost')).toHaveLength(10_000);
  await fake.holdfast.close();
}, 30_000);
