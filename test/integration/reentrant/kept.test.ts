// Kept locks: a client keeps a lock after its last hold, and lets go when another client wants it.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest';
import type { Hold, Holdfast, Lock } from '../../../src/index.js';
import { LockKeys } from '../../../src/redis/keys.js';
import { startChild } from '../../support/child.js';
import {
  connectedClient,
  eventsOf,
  newClient,
  rejectionOf,
  sharedConnection,
  startSharedProxy,
} from '../../support/clients.js';
import { commandOf } from '../../support/lock-commands.js';
import { recordCommands } from '../../support/recorded-commands.js';
import { startRedis } from '../../support/redis-server.js';
import type { TcpProxy } from '../../support/tcp-proxy.js';
import { eventually } from '../../support/time.js';
import { uniqueName } from '../../support/unique-name.js';

/** Times of which no test sees the end: what happens within a test was not brought about by them. */
const WATCHDOG_MS = 900_000;
const KEEP_MS = 100_000;

const redis = sharedConnection();
let keeper: Holdfast;
let rival: Holdfast;
let kept: Lock;
let wanted: Lock;

beforeEach(async () => {
  keeper = await connectedClient({ lockWatchdogTimeout: WATCHDOG_MS });
  rival = await connectedClient({ lockWatchdogTimeout: WATCHDOG_MS });
  kept = keeper.getLock(uniqueName(), { keep: KEEP_MS });
  wanted = rival.getLock(kept.name);
});

afterEach(async () => {
  await Promise.all([keeper.close(), rival.close()]);
});

/** Waits until it is true. */
function soon(check: () => boolean | Promise<boolean>): Promise<void> {
  return eventually(async () => {
    expect(await check()).toBe(true);
  });
}

async function pair(lock: Lock): Promise<void> {
  await (await lock.acquire()).release();
}

/** Uses the lock until its client keeps it. */
async function becomeKept(lock: Lock, client: Holdfast): Promise<void> {
  await soon(async () => {
    await pair(lock);
    return client.stats().kept > 0;
  });
}

/** The hold count of the lock's owner on the server; -1: its client may keep it. */
async function countOf(lock: Lock): Promise<string | undefined> {
  return (await redis.hvals(lock.name))[0];
}

describe('a kept lock', () => {
  beforeEach(async () => {
    await becomeKept(kept, keeper);
  });

  it('is taken and given back without a command', async () => {
    const told = eventsOf(keeper, 'acquired');
    const commands = await recordCommands(inject('redisUrl'), async () => {
      for (let i = 0; i < 50; i++) await pair(kept);
      await kept.withLock(() => undefined);
      expect(await kept.tryLock()).toBe(true);
      await kept.unlock();
    });
    expect(commands.filter(({ args }) => args.join().includes(kept.name))).toEqual([]);
    expect(told).toHaveLength(52);
    expect(told.every(({ via, attempts }) => via === 'kept' && attempts === 0)).toBe(true);
  });

  it('counts nested holds without a command', async () => {
    const commands = await recordCommands(inject('redisUrl'), () =>
      kept.withLock(() => kept.withLock(() => kept.withLock(() => undefined))),
    );
    expect(commands.filter(({ args }) => args.join().includes(kept.name))).toEqual([]);
    await keeper.run(async () => {
      await kept.lock();
      await kept.lock();
      expect(await kept.getHoldCount()).toBe(2);
      await kept.unlock();
      await kept.unlock();
    });
  });

  it('is shown as kept, and is locked to all but its client', async () => {
    expect(kept.toJSON()).toMatchObject({ state: 'kept by this client' });
    expect(keeper.toJSON()).toMatchObject({ heldCount: 0, keptCount: 1 });
    expect(keeper.held()).toEqual([]);
    expect(await kept.isLocked()).toBe(false);
    expect(await kept.getHoldCount()).toBe(0);
    expect(await wanted.isLocked()).toBe(true);
    expect(await countOf(kept)).toBe('-1');
    const hold = await kept.acquire();
    expect(kept.toJSON()).toMatchObject({ state: 'held by this client' });
    expect(keeper.toJSON()).toMatchObject({ heldCount: 1, keptCount: 0 });
    expect(await kept.isLocked()).toBe(true);
    await hold.release();
  });

  it.each([
    'acquire',
    'tryAcquire',
    'fair',
    'tryAcquire of a fair lock',
    'multi',
    'tryAcquire of a MultiLock',
    'withLock',
  ])('goes to another client that wants it: %s', async (how) => {
    const other = rival.getLock(uniqueName());
    const lock = {
      acquire: wanted,
      tryAcquire: wanted,
      'tryAcquire of a fair lock': rival.getFairLock(kept.name),
      'tryAcquire of a MultiLock': rival.getMultiLock(wanted, other),
      withLock: wanted,
      fair: rival.getFairLock(kept.name),
      multi: rival.getMultiLock(wanted, other),
    }[how]!;
    if (how === 'withLock') await lock.withLock(() => undefined);
    else if (how.startsWith('tryAcquire')) await (await lock.tryAcquire())!.release();
    else await pair(lock);
    expect(keeper.stats().kept).toBe(0);
  });

  it('is released when it was not used for as long as it is to be kept', async () => {
    const lock = keeper.getLock(uniqueName(), { keep: 300 });
    await pair(lock);
    await pair(lock);
    await soon(async () => (await redis.exists(lock.name)) === 0);
    expect(lock.toJSON()).toMatchObject({ state: 'not held by this client' });
  });

  it('is released now and then, though it is used all the time', async () => {
    const lock = keeper.getLock(uniqueName(), { keep: 300 });
    const owners = new Set<string>();
    await soon(async () => {
      const hold = await lock.acquire();
      owners.add(hold.ownerId);
      await hold.release();
      return owners.size > 5;
    });
  });

  it('is released by the close of its client', async () => {
    const lost = eventsOf(keeper, 'lost');
    await keeper.close();
    expect(await redis.exists(kept.name)).toBe(0);
    expect(lost).toEqual([]);
  });

  it.each<[string, (keeper: Holdfast) => Lock, object?]>([
    [
      'with a fixed lease',
      (client) => client.getLock(kept.name, { keep: KEEP_MS }),
      { lease: 5_000 },
    ],
    ['of a lock object without keep', (client) => client.getLock(kept.name)],
    ['as a fair lock', (client) => client.getFairLock(kept.name)],
    ['as a member', (client) => client.getMultiLock(kept, client.getLock(uniqueName()))],
  ])('goes to a caller of its own client: %s', async (_, lockOf, options = {}) => {
    const hold = await lockOf(keeper).acquire(options);
    expect(await countOf(kept)).toBe('1');
    await hold.release();
    expect(await redis.exists(kept.name)).toBe(0);
  });

  it('that was deleted tells the holds since its proof by a `lost` event', async () => {
    const lock = keeper.getLock(uniqueName(), { keep: 4_000 });
    await soon(async () => {
      await pair(lock);
      return (await countOf(lock)) === '-1';
    });
    const lost = eventsOf(keeper, 'lost');
    await redis.del(lock.name);
    await sleep(2_100);
    await pair(lock); // on an old proof: the server is asked in the background
    await soon(() => lost.length > 0);
    expect(lost[0]).toMatchObject({ lossReason: 'deleted', holdIds: [] });
    expect(lost[0]!.provenAt).toBeInstanceOf(Date);
    await pair(lock);
  });

  it('that was deleted is locked to its client, too, when another one holds it', async () => {
    await redis.del(kept.name);
    const theirs = await wanted.acquire();
    expect(await kept.isLocked()).toBe(true);
    await theirs.release();
  });

  it('is not given to its next caller after it was forced out by another client', async () => {
    expect(await wanted.forceUnlock()).toBe(true);
    await soon(() => keeper.stats().kept === 0);
    const hold = await wanted.acquire();
    expect(await kept.tryAcquire()).toBeUndefined();
    await hold.release();
    await redis.del(new LockKeys(kept.name).forced); // nobody was inside, so nobody asks for it
  });
});

describe('a lock in use that may be kept', () => {
  let hold: Hold;

  beforeEach(async () => {
    await becomeKept(kept, keeper);
    hold = await kept.acquire();
  });

  it('is released on the server at the end of the hold if another client wants it', async () => {
    const theirs = wanted.acquire();
    await soon(async () => (await countOf(kept)) === '01'); // the wish has taken the mark away
    const next = kept.acquire();
    await hold.release();
    const owners = await Promise.all(
      [theirs, next].map(async (acquiring) => {
        const got = await acquiring;
        await got.release();
        return got.ownerId;
      }),
    );
    expect(new Set([hold.ownerId, ...owners]).size).toBe(3);
    expect(keeper.stats().kept).toBe(0);
  });

  it('is not free to a call that does not wait', async () => {
    expect(await wanted.tryLock()).toBe(false);
    expect(await wanted.tryAcquire()).toBeUndefined();
    expect(await countOf(kept)).toBe('01');
    await hold.release();
    await pair(wanted);
  });

  it('tells its hold that it was forced out', async () => {
    await wanted.forceUnlock();
    await soon(() => hold.signal.aborted);
    expect(hold.signal.reason).toMatchObject({ lossReason: 'forced' });
    await rejectionOf(hold.release());
    await redis.del(new LockKeys(kept.name).forced); // the keeper was told by a message
  });

  it('is extended as any other', async () => {
    await hold.extend(60_000);
    expect(hold.remaining()).toBeGreaterThan(50_000);
    expect(await countOf(kept)).toBe('01');
    await hold.release();
    expect(await redis.exists(kept.name)).toBe(0);
  });

  it('has a nested hold with a lease of its own as any other', async () => {
    const inner = await hold.run(() => kept.acquire({ lease: WATCHDOG_MS }));
    expect(inner.remaining()).toBeGreaterThan(WATCHDOG_MS / 2);
    expect(await countOf(kept)).toBe('02');
    await inner.release();
    await hold.release();
  });

  it('is lent to the next callers of its client without a command', async () => {
    const order: number[] = [];
    const callers = [1, 2, 3].map((n) => kept.withLock(() => void order.push(n)));
    await sleep(20);
    const commands = await recordCommands(inject('redisUrl'), async () => {
      await hold.release();
      await Promise.all(callers);
    });
    expect(order).toEqual([1, 2, 3]);
    expect(commands.filter(({ args }) => args.join().includes(kept.name))).toEqual([]);
    expect(keeper.stats().kept).toBe(1);
  });

  it('is lent to nobody whose turn comes when its proof is too old', async () => {
    const lock = keeper.getLock(uniqueName(), { keep: 300 });
    await soon(async () => {
      await pair(lock);
      return (await countOf(lock)) === '-1';
    });
    const first = await lock.acquire();
    const next = lock.acquire();
    await sleep(20); // it stands in line
    const told = eventsOf(keeper, 'acquired');
    const released = first.release();
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
    await released;
    await (await next).release();
    expect(told.map(({ via }) => via)).not.toContain('kept');
    await hold.release();
  });

  it('is lent past a caller that gave up', async () => {
    const aborter = new AbortController();
    const first = kept.acquire({ signal: aborter.signal });
    const second = kept.acquire();
    await sleep(20);
    const released = hold.release();
    aborter.abort();
    await released;
    await first.then(
      (late) => late.release(),
      () => undefined,
    );
    await (await second).release();
    await pair(wanted);
  });
});

it('a caller whose first try crossed that of another caller does not wait for what its own client keeps', async () => {
  const plain = keeper.getLock(kept.name);
  for (let round = 0; round < 30; round++)
    await Promise.all([kept, plain].map((lock) => lock.withLock(() => undefined)));
});

it('two callers that learn too late that their own client held the lock get it one after the other', async () => {
  await becomeKept(kept, keeper);
  const plain = keeper.getLock(kept.name);
  for (let ticks = 0; ticks < 5; ticks++) {
    await plain.withLock(() => undefined); // now it is not kept
    const steps: string[] = [];
    const holder = kept.withLock(() => undefined);
    for (let tick = 0; tick < ticks; tick++) await Promise.resolve();
    const callers = ['first', 'second'].map((caller) =>
      kept.withLock({ wait: 10_000 }, async () => {
        steps.push(`${caller} enters`);
        await sleep(1);
        steps.push(`${caller} leaves`);
      }),
    );
    await Promise.all([holder, ...callers]);
    expect(steps).toEqual(['first enters', 'first leaves', 'second enters', 'second leaves']);
  }
});

describe('with short leases', () => {
  it('a long hold is renewed like any other', async () => {
    await using client = newClient({ lockWatchdogTimeout: 3_000 });
    const lock = client.getLock(uniqueName(), { keep: 100 });
    await becomeKept(lock, client);
    const hold = await lock.acquire();
    const renewed = eventsOf(client, 'renewed');
    await soon(() => renewed.length >= 4);
    expect(hold.signal.aborted).toBe(false);
    expect(await countOf(lock)).toBe('01');
    await hold.release();
    expect(await redis.exists(lock.name)).toBe(0);
  });

  it('a process that dies while it keeps a lock keeps others out for a third of the lease', async () => {
    const options = { lockWatchdogTimeout: 9_000 };
    await using child = startChild('lock-user.ts', {
      HOLDFAST_TEST_REDIS_URL: inject('redisUrl'),
      HOLDFAST_TEST_OPTIONS: JSON.stringify(options),
    });
    await child.next('ready');
    const name = uniqueName();
    await soon(async () => {
      child.send({ type: 'acquire', name, keep: 1_000 });
      await child.next('acquired');
      child.send({ type: 'release', name });
      await child.next('released');
      return (await redis.hvals(name))[0] === '-1';
    });
    await child.kill();
    expect(await redis.pttl(name)).toBeLessThanOrEqual(3_000);
    await using client = newClient(options);
    await pair(client.getLock(name));
  });
});

describe('with a bad network', () => {
  let proxy: TcpProxy;

  beforeEach(async () => {
    proxy = await startSharedProxy();
    await keeper.close();
    keeper = await connectedClient({ redis: proxy.url, lockWatchdogTimeout: WATCHDOG_MS });
    kept = keeper.getLock(kept.name, { keep: KEEP_MS });
    await becomeKept(kept, keeper);
  });

  afterEach(async () => {
    await keeper.close();
    await proxy[Symbol.asyncDispose]();
  });

  it('a kept lock is released when the connections were lost', async () => {
    proxy.cut();
    await soon(async () => (await redis.exists(kept.name)) === 0);
    await pair(kept);
  });

  it('a hold outlives a nested call that gave up before its answer came', async () => {
    await using client = await connectedClient({ redis: proxy.url, lockWatchdogTimeout: 3_000 });
    const lock = client.getLock(uniqueName(), { keep: 300 });
    await becomeKept(lock, client);
    const hold = await lock.acquire();
    proxy.delay({ downstreamMs: 300 });
    await hold.run(() => rejectionOf(lock.acquire({ wait: 50, lease: 5_000 })));
    proxy.delay();
    await sleep(1_500); // longer than the lease of a lock that is kept
    expect(hold.signal.aborted).toBe(false);
    await hold.release();
  });

  it('a repeat of a marked acquisition finds its mark, and keeps the short lease', async () => {
    await wanted.forceUnlock(); // without a pause for the name
    await soon(() => keeper.stats().kept === 0);
    const lost = proxy.loseReplyTo(commandOf('acquire', kept.name));
    const acquiring = kept.acquire();
    await lost.happened;
    const hold = await acquiring;
    expect(await countOf(kept)).toBe('-1');
    expect(await redis.pttl(kept.name)).toBeLessThanOrEqual(WATCHDOG_MS / 3);
    await hold.release();
    await redis.del(new LockKeys(kept.name).forced);
  });
});

describe('what is not kept', () => {
  it('is a lock that is used once', async () => {
    await pair(kept);
    expect(keeper.stats().kept).toBe(0);
    expect(await redis.exists(kept.name)).toBe(0);
  });

  it('is a lock that others wait for already', async () => {
    await pair(kept);
    const theirs = await wanted.acquire();
    const ours = kept.acquire();
    const others = await connectedClient({ lockWatchdogTimeout: WATCHDOG_MS });
    const third = others.getLock(kept.name).acquire();
    await sleep(100);
    await theirs.release();
    const first = await Promise.race([ours, third]);
    expect(await countOf(kept)).toBe('1');
    await first.release();
    const holds = await Promise.allSettled([ours, third]);
    for (const each of holds) if (each.status === 'fulfilled') await each.value.release();
    await others.close();
  });

  it('is a lock for a while after another client wanted it', async () => {
    await becomeKept(kept, keeper);
    await pair(wanted);
    await pair(kept);
    await pair(kept);
    expect(keeper.stats().kept).toBe(0);
  });

  it('is, in the end, kept again', async () => {
    const lock = keeper.getLock(kept.name, { keep: 100 });
    await becomeKept(lock, keeper);
    await pair(wanted);
    await becomeKept(lock, keeper);
  });
});

it.each([-1, 1.5, 100_001, '1s', null])('refuses keep: %o', (keep) => {
  expect(() => keeper.getLock('orders', { keep: keep as number })).toThrow(
    /^lock "orders": keep is .*: it must be a whole number of milliseconds from 0 to 100000, a ninth of lockWatchdogTimeout$/,
  );
});

it('keeps nothing, and says so once, where the user may not listen for wishes', async () => {
  await using server = await startRedis();
  const { Redis } = await import('ioredis');
  const admin = new Redis(server.url);
  await admin.call(
    'ACL',
    'SETUSER',
    'app',
    'on',
    '>app',
    '~*',
    '+@all',
    'resetchannels',
    '&redisson_lock__channel:*',
  );
  const url = new URL(server.url);
  url.username = 'app';
  url.password = 'app';
  await using client = await connectedClient({ redis: url.href });
  const errors = eventsOf(client, 'error');
  const lock = client.getLock(uniqueName(), { keep: 100 });
  for (let i = 0; i < 10; i++) {
    await pair(lock);
    await sleep(5);
  }
  expect(client.stats().kept).toBe(0);
  expect(errors).toHaveLength(1);
  expect(errors[0]!.error.message).toContain('holdfast_wishes');

  // A client that may not publish wishes says so, too, and does not get the lock by force.
  await using owner = await connectedClient({
    redis: server.url,
    lockWatchdogTimeout: WATCHDOG_MS,
  });
  const theirs = owner.getLock(lock.name, { keep: KEEP_MS });
  await becomeKept(theirs, owner);
  expect(await lock.tryAcquire()).toBeUndefined();
  expect(errors).toHaveLength(2);
  expect(errors[1]!.error.message).toContain('permit PUBLISH on holdfast_wishes:*');
  admin.disconnect();
});
