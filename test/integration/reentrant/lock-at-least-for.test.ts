// `lockAtLeastFor`: the lock stays taken for a while, whatever becomes of its holds. What it promises for all kinds of locks is in their
// contract.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type Holdfast, type Lock, OptionError, UnavailableError } from '../../../src/index.js';
import { LockKeys } from '../../../src/redis/keys.js';
import {
  connectedClient,
  rejectionOf,
  sharedConnection,
  startSharedProxy,
} from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { uniqueName } from '../../support/unique-name.js';
import { expectShortTimes } from '../../support/expected-warnings.js';

expectShortTimes();

/** Within a test, nothing that ends with a lease or a poll of this length has happened. */
const WATCHDOG_MS = 900_000;
const AT_LEAST_MS = 1_500;

const redis = sharedConnection();
let client: Holdfast;
let rival: Holdfast;
let lock: Lock;
let theirs: Lock;

beforeEach(async () => {
  client = await connectedClient({ lockWatchdogTimeout: WATCHDOG_MS });
  rival = await connectedClient({ lockWatchdogTimeout: WATCHDOG_MS });
  lock = client.getLock(uniqueName());
  theirs = rival.getLock(lock.name);
});

afterEach(async () => {
  await redis.del(lock.name, new LockKeys(lock.name).leases);
  await Promise.all([client.close(), rival.close()]);
});

it('the next caller of the same client waits, too, and is handed nothing', async () => {
  const calledAtMs = performance.now();
  const hold = await lock.acquire({ lockAtLeastFor: AT_LEAST_MS });
  const next = lock.acquire();
  await eventually(() => {
    expect(client.stats().waiting).toBe(1);
  });
  await hold.release();
  const second = await next;
  expect(performance.now() - calledAtMs).toBeGreaterThanOrEqual(AT_LEAST_MS - 10);
  await second.release();
});

it('the time counts from when the lock was acquired: a release after it frees the lock at once', async () => {
  const hold = await lock.acquire({ lockAtLeastFor: 50 });
  await new Promise((resolve) => setTimeout(resolve, 60));
  await hold.release();
  expect(await redis.exists(lock.name)).toBe(0);
});

it('a caller that takes the lock over from one of its own client has it for so long, too', async () => {
  const hold = await lock.acquire();
  const next = lock.acquire({ lockAtLeastFor: AT_LEAST_MS });
  await eventually(() => {
    expect(client.stats().waiting).toBe(1);
  });
  await hold.release();
  await (await next).release();
  const ttlMs = await redis.pttl(lock.name);
  expect(ttlMs).toBeGreaterThan(0);
  expect(ttlMs).toBeLessThanOrEqual(AT_LEAST_MS);
});

it('a caller to whom a fair lock is handed over has it for so long, though its place lasts less', async () => {
  const fair = client.getFairLock(lock.name);
  const place = rival.getFairLock(lock.name);
  const hold = await fair.acquire();
  const next = place.acquire({ lockAtLeastFor: 2 * WATCHDOG_MS });
  await eventually(async () => {
    expect(await fair.getQueueLength()).toBe(1);
  });
  await hold.release();
  const second = await next;
  expect(second.remaining()).toBeGreaterThan(WATCHDOG_MS);
  expect(await redis.pttl(lock.name)).toBeGreaterThan(WATCHDOG_MS);
  await second.release();
  expect(await redis.pttl(lock.name)).toBeGreaterThan(WATCHDOG_MS);
});

it('is not kept by its client, which asks the server as for any lock', async () => {
  const kept = client.getLock(lock.name, { keep: 100_000 });
  await eventually(async () => {
    await (await kept.acquire()).release();
    expect(client.stats().kept).toBe(1);
  });
  const hold = await kept.acquire({ lockAtLeastFor: AT_LEAST_MS });
  await hold.release();
  expect(client.stats().kept).toBe(0);
  expect(await kept.tryAcquire()).toBeUndefined();
  expect(await theirs.tryAcquire()).toBeUndefined();
});

it('a nested acquisition of a kept lock ends its keeping', async () => {
  const kept = client.getLock(lock.name, { keep: 100_000 });
  await eventually(async () => {
    await (await kept.acquire()).release();
    expect(client.stats().kept).toBe(1);
  });
  await kept.withLock(() => kept.withLock({ lockAtLeastFor: AT_LEAST_MS }, () => undefined));
  expect(client.stats().kept).toBe(0);
  expect(await theirs.tryAcquire()).toBeUndefined();
});

it('a MultiLock whose member is kept keeps it taken for so long, too', async () => {
  const kept = client.getLock(lock.name, { keep: 100_000 });
  await eventually(async () => {
    await (await kept.acquire()).release();
    expect(client.stats().kept).toBe(1);
  });
  const second = client.getLock(uniqueName());
  const both = client.getMultiLock(kept, second);
  await kept.withLock(() => both.withLock({ lockAtLeastFor: AT_LEAST_MS }, () => undefined));
  expect(client.stats().kept).toBe(0);
  expect(await kept.tryAcquire()).toBeUndefined();
  expect(await theirs.tryAcquire()).toBeUndefined();
  await redis.del(second.name);
});

it.each(['lock', 'write lock'])(
  'a %s that was forced away is lost to that, as the release finds',
  async (kind) => {
    const [mine, other] = [client, rival].map((each) =>
      kind === 'lock' ? each.getLock(lock.name) : each.getReadWriteLock(lock.name).writeLock(),
    );
    const hold = await mine!.acquire({ lockAtLeastFor: AT_LEAST_MS });
    await other!.forceUnlock();
    expect(await rejectionOf(hold.release())).toMatchObject({
      code: 'LOCK_LOST',
      lossReason: 'forced',
    });
  },
);

it('a write lock that is downgraded lets readers in at once, and keeps writers out', async () => {
  const halves = client.getReadWriteLock(lock.name);
  const theirHalves = rival.getReadWriteLock(lock.name);
  await client.run(async () => {
    const writer = await halves.writeLock().acquire({ lockAtLeastFor: AT_LEAST_MS });
    const reader = await halves.readLock().acquire();
    await writer.release();
    await (await theirHalves.readLock().acquire({ wait: 5_000 })).release();
    await reader.release();
  });
  expect(await theirHalves.writeLock().tryAcquire()).toBeUndefined();
});

it('permits leave no keys behind when the time is over', async () => {
  const semaphore = client.getSemaphore(lock.name, { permits: 3 });
  await semaphore.withPermits({ lockAtLeastFor: 300 }, () => undefined);
  await eventually(async () => {
    expect(await redis.exists(lock.name)).toBe(0);
  });
});

it('permits stay taken for so long, too', async () => {
  const semaphore = client.getSemaphore(lock.name, { permits: 3 });
  await semaphore.withPermits({ permits: 2, lockAtLeastFor: AT_LEAST_MS }, () => undefined);
  const heldAtMs = performance.now();
  const others = rival.getSemaphore(lock.name, { permits: 3 });
  expect(await others.availablePermits()).toBe(1);
  expect(await others.tryAcquire({ permits: 2 })).toBeUndefined();
  const hold = await others.acquire({ permits: 2 });
  expect(performance.now() - heldAtMs).toBeGreaterThanOrEqual(AT_LEAST_MS - 100); // a command lies in between
  await hold.release();
});

it('a release that Redis did not answer leaves the lock taken for so long, and no longer, once the clean-up reaches it', async () => {
  await using proxy = await startSharedProxy();
  const far = await connectedClient({
    redis: proxy.url,
    lockWatchdogTimeout: WATCHDOG_MS,
    commandTimeout: 300,
  });
  const hold = await far.getLock(lock.name).acquire({ lockAtLeastFor: 60_000 });
  proxy.blackhole();
  expect(await rejectionOf(hold.release())).toBeInstanceOf(UnavailableError);
  expect(await redis.pttl(lock.name)).toBeGreaterThan(60_000); // the lease of the watchdog
  proxy.heal('drop');
  await eventually(async () => {
    expect(await redis.pttl(lock.name)).toBeLessThanOrEqual(60_000);
  });
  expect(await redis.pttl(lock.name)).toBeGreaterThan(0);
  await far.close();
});

it('a MultiLock that did not get all of its members leaves none of them taken', async () => {
  const other = client.getLock(uniqueName());
  const hold = await rival.getLock(other.name).acquire();
  const both = client.getMultiLock(lock, other);
  expect(await both.tryAcquire({ lockAtLeastFor: AT_LEAST_MS })).toBeUndefined();
  await eventually(async () => {
    expect(await redis.exists(lock.name)).toBe(0);
  });
  await hold.release();
});

it('the lease is as long from the beginning, so that a process that dies leaves the lock taken', async () => {
  const hold = await lock.acquire({ lease: 100, lockAtLeastFor: AT_LEAST_MS });
  const ttlMs = await redis.pttl(lock.name);
  expect(ttlMs).toBeGreaterThan(100);
  expect(ttlMs).toBeLessThanOrEqual(AT_LEAST_MS);
  await hold.release();
});

it.each([-1, 1.5, Number.NaN, '5', null, Infinity])(
  'lockAtLeastFor %j is an OptionError',
  async (value) => {
    const error = await rejectionOf(lock.acquire({ lockAtLeastFor: value as number }));
    expect(error).toBeInstanceOf(OptionError);
    expect((error as Error).message).toContain('lockAtLeastFor is');
  },
);
