// How an owner has a lock, and since when, as the server has it: held, released and still taken, kept, exported. Over the server in memory.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type AcquireOptions,
  type Hold,
  Holdfast,
  type HolderState,
  type InspectedHolder,
  type PermitHold,
} from '../../../src/index.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { LockKeys } from '../../../src/redis/keys.js';
import { nextEvent, rejectionOf } from '../../support/clients.js';
import { fakeHoldfast, FakeServer } from '../../support/fake-holdfast.js';
import { keepLock } from '../../support/kept-locks.js';
import { type ScriptName, ScriptServer } from '../../support/script-server.js';

let server: FakeServer;
let client: Holdfast;
let other: Holdfast;

beforeEach(() => {
  server = new FakeServer();
  client = fakeHoldfast({ server, clientId: 'web' }).holdfast;
  other = fakeHoldfast({ server, clientId: 'job' }).holdfast;
});

afterEach(async () => {
  await Promise.all([client.close(), other.close()]);
});

interface Acquirable {
  acquire(options?: AcquireOptions): Promise<Hold | PermitHold>;
}

/** Each kind, as a client has it; the name is `x`. */
const KINDS: Readonly<Record<string, (of: Holdfast) => Acquirable>> = {
  lock: (of) => of.getLock('x'),
  'fair lock': (of) => of.getFairLock('x'),
  'fenced lock': (of) => of.getFencedLock('x'),
  'fenced fair lock': (of) => of.getFencedLock('x', { fair: true }),
  'write lock': (of) => of.getReadWriteLock('x').writeLock(),
  'read lock': (of) => of.getReadWriteLock('x').readLock(),
  permit: (of) => of.getSemaphore('x', { permits: 1 }),
};

async function holder(): Promise<InspectedHolder> {
  const { holders } = (await client.inspect('x'))!;
  expect(holders).toHaveLength(1);
  return holders[0]!;
}

async function stateNow(): Promise<HolderState> {
  return (await holder()).state;
}

describe.each(Object.entries(KINDS))('a %s', (kind, lockOf) => {
  it('is held, then taken until its lease ends after a release with lockAtLeastFor', async () => {
    const hold = await lockOf(client).acquire({ lockAtLeastFor: 60_000 });
    expect(await stateNow()).toBe('held');
    await hold.release();
    const { state, holdCount, heldSince, ownerId } = await holder();
    expect({ state, ownerId }).toEqual({ state: 'released', ownerId: hold.ownerId });
    expect(heldSince).toBeUndefined();
    if (kind.endsWith('lock') && !/read|write/.test(kind)) expect(holdCount).toBe(0);
  });

  it('says so, too, if its lease ends before that time', async () => {
    const hold = await lockOf(client).acquire({ lockAtLeastFor: 60_000 });
    server.execute('PEXPIRE', 'x', '20000');
    const isWeighted = server.keys.names.includes(new LockKeys('x').leases);
    if (isWeighted)
      server.execute('ZADD', new LockKeys('x').leases, String(Date.now() + 20_000), hold.ownerId);
    await hold.release();
    expect(await holder()).toMatchObject({ state: 'released' });
    expect((await holder()).leaseLeftMs).toBeLessThanOrEqual(20_000);
  });

  it('is exported between export() and adopt(), and held after that', async () => {
    const hold = await lockOf(client).acquire();
    const text = await hold.export();
    expect(await stateNow()).toBe('exported');
    const adopted = await other.adopt(text);
    expect(await holder()).toMatchObject({ state: 'held', ownerId: adopted.ownerId });
    await adopted.release();
    expect(await client.inspect('x')).toBeUndefined();
  });

  it('tells a caller in the error that its holder has released it', async () => {
    if (kind === 'read lock') return; // others may read beside it
    const hold = await lockOf(client).acquire({ lockAtLeastFor: 60_000 });
    await hold.release();
    const error = (await rejectionOf(lockOf(other).acquire({ wait: 50 }))) as Error;
    expect(error.message).toMatch(/taken until its lease ends in \d+ ms, released by web-\S+$/);
  });

  it('tells a caller in the error that it was exported', async () => {
    if (kind === 'read lock') return;
    await (await lockOf(client).acquire()).export();
    const error = (await rejectionOf(lockOf(other).acquire({ wait: 50 }))) as Error;
    expect(error.message).toMatch(
      /exported, and not adopted so far, by web-\S+, its lease ends in \d+ ms$/,
    );
  });

  it('is freed from its owner by force, also while it stays taken', async () => {
    const kindOnServer = kind === 'permit' ? 'semaphore' : 'read-write';
    if (kind !== 'permit' && !/read|write/.test(kind)) return; // other kinds are freed whole
    const hold = await lockOf(client).acquire({ lockAtLeastFor: 60_000 });
    await hold.release();
    expect(await other.releaseOwner('x', kindOnServer, hold.ownerId)).toBe(true);
    expect(await client.inspect('x')).toBeUndefined();
    await (await lockOf(other).acquire({ wait: 0 })).release();
  });

  it('knows since when it is held without a wait', async () => {
    const hold = await lockOf(client).acquire();
    const { heldSince, since } = await holder();
    expect(heldSince).toEqual(since);
    expect(Date.now() - Number(heldSince)).toBeLessThan(1_000);
    await hold.release();
  });
});

describe('a late command of an owner that has released a lock, which stays taken,', () => {
  const FAIR = ['lock', 'line', 'places'];
  const WEIGHTED = ['lock', 'leases', 'line', 'places'];
  const join = ['me:1', 60_000, 60_000, 5, 0, 0, 1, 'me'];
  const calls: readonly (readonly [ScriptName, readonly string[], readonly (string | number)[]])[] =
    [
      ['acquire', ['lock'], ['me:1', 60_000]],
      ['gather', ['lock'], ['a', 60_000, 'PUBLISH', 'me:1']],
      ['vote', ['lock', 'longest'], ['me:1', 60_000]],
      ['reenter', ['lock', 'forced'], ['me:1', 2, 60_000]],
      ['renew', ['lock', 'forced'], [60_000, 'me:1']],
      [
        'confirm',
        [...FAIR.with(1, 'forced'), 'line'],
        ['me:1', 60_000, 'ch', 'PUBLISH', 'g', 'PUBLISH', 0],
      ],
      [
        'confirm',
        ['lock', 'forced', 'line', 'places'],
        ['me:1', 60_000, 'ch', 'PUBLISH', 'g', 'PUBLISH', 1],
      ],
      ['releaseTo', ['lock', 'forced'], ['me:1', 'me:2', 60_000]],
      ['releaseTo', ['lock', 'forced'], ['me:0', 'me:1', 60_000]],
      ['handOver', FAIR, ['me:1', 'ch', 'PUBLISH', 'g', 'PUBLISH', 1]],
      ['join', FAIR, join.with(2, 0)],
      ['renewPlaces', FAIR, [60_000, 9, 'me:1', 1]],
      ['weightedHandOver', WEIGHTED, ['me:1', 0, 0, 0, 'g', 'PUBLISH', 1]],
      ['weightedHandOver', WEIGHTED, ['me:1', -1, 60_000, 0, 'g', 'PUBLISH', 1]],
      ['weightedHandOver', WEIGHTED, ['me:1', -1, 60_000, 1, 'g', 'PUBLISH', 1]],
      ['weightedHandOver', WEIGHTED, ['me:1', -1, 60_000, 2, 'g', 'PUBLISH', 1]],
      ['weightedHandOver', WEIGHTED, ['me:1', 1, 0, 0, 'g', 'PUBLISH', 1]],
      [
        'weightedJoin',
        [...WEIGHTED, 'permits'],
        ['me:1', 2, 3, 60_000, 60_000, 5, 0, 0, 1, 'me', 1_000],
      ],
      ['weightedRenew', ['lock', 'leases', 'forced'], [60_000, 'me:1']],
      ['weightedRenewPlaces', WEIGHTED, [60_000, 9, 'me:1', 1]],
      ['weightedAdopt', ['lock', 'leases', 'forced'], ['me:1', 'me:2', 60_000]],
      ['weightedAdopt', ['lock', 'leases', 'forced'], ['me:0', 'me:1', 60_000]],
    ];

  it.each(calls)('%s.lua, neither extends nor frees it', (script, keys, args) => {
    const late = new ScriptServer(['gme']);
    const isWeighted = script.startsWith('weighted');
    if (isWeighted) {
      late.command('HSET', 'lock', 'capacity', 3, 'used', 2, 'me:1', '2.');
      late.command('ZADD', 'leases', late.nowMs + 20_000, 'me:1');
      late.command('PEXPIRE', 'leases', 20_000);
    } else late.command('HSET', 'lock', 'me:1', '-2');
    late.command('PEXPIRE', 'lock', 20_000);
    const { lock, leases } = late.state;
    late.run(script, keys, args);
    expect(late.state['lock']).toEqual(lock);
    expect(late.state['leases']).toEqual(leases);
  });

  it('a grant that is told again, after its receiver has released the lock, does not free it', async () => {
    for (const kind of ['fair lock', 'permit']) {
      const lock = KINDS[kind]!;
      const hold = await lock(client).acquire();
      const waiting = nextEvent(other, 'waiting');
      const theirs = lock(other).acquire({ lockAtLeastFor: 20_000 });
      await waiting;
      const [{ ownerId }] = (await client.inspect('x'))!.waiters as [InspectedHolder];
      await hold.release();
      const second = await theirs;
      await second.release();
      const channel = server.channels.find((each) => each.startsWith('holdfast_grants'));
      if (channel) server.execute('PUBLISH', channel, `1 ${ownerId}`);
      await new Promise((resolve) => setTimeout(resolve, 30));
      expect(await holder(), kind).toMatchObject({ ownerId, state: 'released' });
      for (const key of server.keys.names) server.execute('DEL', key);
    }
  });
});

it('a semaphore of the name of a lock that was released, and stays taken, says that it is a lock', async () => {
  const hold = await client.getLock('x').acquire({ lockAtLeastFor: 60_000 });
  await hold.release();
  const error = await rejectionOf(client.getSemaphore('x', { permits: 1 }).tryAcquire());
  expect(String(error)).toContain('it is a lock of holdfast or Redisson, and not a semaphore');
});

it('a semaphore of the name of a lock that was exported says that it is a lock', async () => {
  await (await client.getLock('x').acquire()).export();
  const error = await rejectionOf(client.getSemaphore('x', { permits: 1 }).tryAcquire());
  expect(String(error)).toContain('it is a lock of holdfast or Redisson, and not a semaphore');
});

it('the members of a MultiLock have one owner, also if its client was not connected when the call began', async () => {
  const { holdfast } = fakeHoldfast({ server });
  expect(holdfast.status).toBe('connecting');
  const locks = ['a', 'b', 'c'].map((name) => holdfast.getLock(name));
  const hold = await holdfast.getMultiLock(...locks).acquire({ wait: 0 });
  const owners = ['a', 'b', 'c'].map((name) => server.holder(name)?.owner);
  expect(owners).toEqual([hold.ownerId, hold.ownerId, hold.ownerId]);
  await hold.release();
  await holdfast.close();
});

describe('the owner of a caller that waits', () => {
  /** The owners as which `other` has tried. */
  function tried(): string[] {
    return server.commands.flatMap((each) => /^acquire x (job.*)$/.exec(each)?.[1] ?? []);
  }

  it('is another for each try that follows an answered "held", and the same after an unknown outcome', async () => {
    const hold = await client.getLock('x').acquire();
    const waiting = nextEvent(other, 'waiting');
    const theirs = other.getLock('x').acquire();
    await waiting;
    await expect.poll(() => tried().length).toBe(2); // before and behind its subscription
    expect(new Set(tried()).size).toBe(2);
    let isLost = false;
    server.fate = (command) => {
      if (isLost || !command.startsWith('acquire x job')) return 'answered';
      isLost = true;
      return 'lost reply';
    };
    await hold.release();
    const second = await theirs; // it does not wait for its own lost try
    expect(isLost).toBe(true);
    expect(tried().slice(2)).toEqual([tried()[2], tried()[2]]);
    await second.release();
  });

  it('is removed if a try got no answer, and a later one as the same owner was told that the lock is held', async () => {
    const hold = await client.getLock('x').acquire();
    let isLost = false;
    server.fate = (command) => {
      if (isLost || !command.startsWith('acquire x job')) return 'answered';
      isLost = true;
      return 'lost command';
    };
    const theirs = other.getLock('x').acquire();
    await expect.poll(() => tried().length).toBeGreaterThanOrEqual(2);
    expect(server.commands).toContain(`release x ${tried()[0]!}`);
    await hold.release();
    await (await theirs).release();
  });
});

describe('since when a lock is held', () => {
  it('counts from the try that got it, not from when the call began', async () => {
    const hold = await client.getLock('x').acquire();
    const waiting = nextEvent(other, 'waiting');
    const theirs = other.getLock('x').acquire();
    await waiting;
    await new Promise((resolve) => setTimeout(resolve, 60));
    const releasedAtMs = Date.now();
    await hold.release();
    const second = await theirs;
    const { heldSince } = await holder();
    expect(Number(heldSince)).toBeGreaterThanOrEqual(releasedAtMs - 5);
    await second.release();
  });

  it('counts from the hand-over within a client', async () => {
    const lock = client.getLock('x');
    const hold = await lock.acquire();
    const next = lock.acquire();
    await new Promise((resolve) => setTimeout(resolve, 60));
    const releasedAtMs = Date.now();
    await hold.release();
    const second = await next;
    expect(Number((await holder()).heldSince)).toBeGreaterThanOrEqual(releasedAtMs - 5);
    await second.release();
  });

  it.each(['fair lock', 'fenced fair lock', 'write lock', 'permit'])(
    'is not known of a %s that was handed over in the line: only when its caller asked',
    async (kind) => {
      for (const options of [{}, { lease: 20_000 }]) {
        const hold = await KINDS[kind]!(client).acquire();
        const askedAtMs = Date.now();
        const waiting = nextEvent(other, 'waiting');
        const theirs = KINDS[kind]!(other).acquire(options);
        await waiting;
        await hold.release();
        const second = await theirs;
        await new Promise((resolve) => setTimeout(resolve, 20)); // the confirmation of the lease
        await second.extend(70_000);
        const { heldSince, since, state } = await holder();
        expect({ heldSince, state }).toEqual({ heldSince: undefined, state: 'held' });
        expect(Math.abs(Number(since) - askedAtMs)).toBeLessThan(1_000);
        await second.release();
      }
    },
  );

  it('is not known of an owner of an older holdfast, which keeps the number of its first try', async () => {
    server.execute('HSET', 'x', `old-0123456789ab:${Date.now()}000`, '1');
    expect(await holder()).toMatchObject({ state: 'held', since: expect.any(Date) as Date });
    expect(await holder()).not.toHaveProperty('heldSince');
  });

  it.each(Object.entries(KINDS))(
    'counts for a %s from when Redis was there again, not from when the call began',
    async (_, lockOf) => {
      const redis = new MemoryRedis();
      const late = new Holdfast({ redis });
      late.on('error', () => undefined);
      await late.ping();
      redis.down();
      await redis.advance(100);
      const acquiring = lockOf(late).acquire({ wait: Infinity });
      await redis.advance(40_000);
      redis.up();
      await redis.advance(5_000);
      const hold = await acquiring;
      const [holder] = (await late.inspect('x'))!.holders;
      expect(Date.now() + 45_100 - Number(holder!.heldSince)).toBeLessThanOrEqual(6_000);
      await hold.release();
      await late.close();
    },
  );

  it('counts from the try that found Redis willing, not from one that it refused', async () => {
    server.fate = () => 'loading';
    const acquiring = client.getLock('x').acquire();
    await new Promise((resolve) => setTimeout(resolve, 100));
    const loadedAtMs = Date.now();
    server.fate = () => 'answered';
    const hold = await acquiring;
    expect(Number((await holder()).heldSince)).toBeGreaterThanOrEqual(loadedAtMs - 5);
    await hold.release();
  });

  it('is not known of a lock that its client has kept: the hold may have begun later', async () => {
    const lock = await keepLock(other, 'x');
    expect(await stateNow()).toBe('kept');
    const hold = await lock.acquire();
    const asking = rejectionOf(client.getLock('x').acquire({ wait: 200 }));
    await expect.poll(stateNow).toBe('held');
    expect((await holder()).heldSince).toBeUndefined();
    await asking;
    await hold.release();
  });
});
