// Failures of other lock libraries, part 1: resent commands, renewals that outlive the lock or fail, hidden losses and crashes.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { LockLostError } from '../../../src/index.js';
import { ONE_WARNING, startChild } from '../../support/child.js';
import {
  connectedClient,
  eventsOf,
  newClient,
  nextEvent,
  proxyPerTest,
  rejectionOf,
  sharedConnection,
} from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { commandOf, rises, watchTtl } from '../../support/lock-commands.js';
import { startRedis } from '../../support/redis-server.js';
import { uniqueName } from '../../support/unique-name.js';

const redis = sharedConnection();
const proxy = proxyPerTest();
let name: string;

beforeEach(() => {
  name = uniqueName();
});

describe('an acquire that is sent again', () => {
  it.each(['loseReplyTo', 'cutAfterForwarding'] as const)(
    'does not re-enter: one lock and one unlock leave no key (%s)',
    async (fault) => {
      await using client = newClient({ redis: proxy().url, lockWatchdogTimeout: 6_000 });
      const lock = client.getLock(name);
      const cut = proxy()[fault](commandOf('acquire', name));
      await lock.lock();
      await cut.happened;
      expect(await lock.getHoldCount()).toBe(1);
      await lock.unlock();
      expect(await redis.exists(name)).toBe(0);
    },
  );
});

describe('the watchdog stops with the lock', () => {
  it('when an acquire is aborted in flight', async () => {
    await using client = await connectedClient({ redis: proxy().url });
    const aborter = new AbortController();
    const passing = proxy().copyNext(commandOf('acquire', name));
    proxy().delay({ downstreamMs: 100 });
    const acquiring = client.getLock(name).acquire({ signal: aborter.signal });
    await passing.happened;
    aborter.abort(new Error('enough'));
    await expect(acquiring).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
    const seen = await watchTtl(redis, name, 1_800);
    expect(rises(seen)).toBe(false);
    expect(seen.at(-1)).toBe(-2);
  });

  const patient = { lockWatchdogTimeout: 3_000, commandTimeout: 5_000 };

  it('when the lock is released while a renewal is in flight', async () => {
    await using client = newClient({ redis: proxy().url, ...patient });
    const lost = eventsOf(client, 'lost');
    const hold = await client.getLock(name).acquire();
    const renewal = proxy().copyNext(commandOf('renew', name));
    proxy().delay({ downstreamMs: 100 });
    await renewal.happened;
    await hold.release();
    const after = await watchTtl(redis, name, 1_800);
    expect(new Set(after)).toEqual(new Set([-2]));
    expect(lost).toEqual([]);
  });

  it('when another client has the lock by the time the renewal arrives', async () => {
    await using client = newClient({ redis: proxy().url, ...patient, lockWatchdogTimeout: 6_000 });
    await using other = newClient();
    const hold = await client.getLock(name).acquire();
    const renewal = proxy().holdBack(commandOf('renew', name));
    await renewal.happened;
    await hold.release();
    await using taken = await other.getLock(name).acquire({ lease: 5_000 }); // less than the renewal asks for
    const watching = watchTtl(redis, name, 1_000);
    await renewal.deliver();
    expect(rises(await watching)).toBe(false);
    expect(await redis.hkeys(name)).toEqual([taken.ownerId]);
  });
});

describe('a renewal that fails', () => {
  it.each(['loseReplyTo', 'cutAfterForwarding', 'holdBack'] as const)(
    'does not stop the renewals: the lock is held for longer than its lease (%s)',
    async (fault) => {
      const leaseMs = 4_500; // an event loop may be blocked for two seconds while other tests run
      await using client = newClient({ redis: proxy().url, lockWatchdogTimeout: leaseMs });
      const lost = eventsOf(client, 'lost');
      await using hold = await client.getLock(name).acquire();
      await proxy()[fault](commandOf('renew', name)).happened;
      const seen = await watchTtl(redis, name, 1.1 * leaseMs); // for three leases: test/unit/reentrant/failed-renewals.test.ts
      expect(Math.min(...seen)).toBeGreaterThan(0);
      expect(hold.remaining()).toBeGreaterThan(0);
      expect(lost).toEqual([]);
    },
  );

  it('does not reacquire a lock that expired and that another client took and released meanwhile: it is lost', async () => {
    await using client = newClient({ lockWatchdogTimeout: 3_000 });
    await using other = newClient();
    const lost = nextEvent(client, 'lost');
    const hold = await client.getLock(name).acquire();
    // The lease expires only on the server, so that the renewal has to find out.
    await redis.pexpire(name, 1);
    const taken = await other.getLock(name).acquire();
    await taken.release();
    expect((await lost).lossReason).toBe('deleted');
    expect(await rejectionOf(hold.release())).toBeInstanceOf(LockLostError);
    expect(await redis.exists(name)).toBe(0);
  });

  it('does not reacquire an expired lock: a late renewal finds nothing', async () => {
    await using client = newClient({ redis: proxy().url });
    await using other = newClient();
    const hold = await client.getLock(name).acquire();
    const lost = nextEvent(client, 'lost');
    const renewal = proxy().holdBack(commandOf('renew', name));
    await renewal.happened;
    proxy().blackhole();
    expect((await lost).lossReason).toBe('unreachable');
    const taken = await other.getLock(name).acquire({ wait: 5_000 });
    await taken.release();
    expect(await renewal.deliver()).toEqual(['deleted']);
    expect(await redis.exists(name)).toBe(0);
    expect(hold.signal.aborted).toBe(true);
    proxy().heal('drop');
  });
});

describe('a loss', () => {
  it('does not hide the error of a callback that throws after the lease has ended', async () => {
    await using client = newClient();
    const body = client.getLock(name).withLock({ lease: 100 }, async ({ signal }) => {
      await eventually(() => {
        expect(signal.aborted).toBe(true);
      });
      throw new Error('the real error');
    });
    await expect(body).rejects.toThrow('the real error');
  });

  it('does not hang the release after the lease has ended', async () => {
    await using client = newClient();
    const hold = await client.getLock(name).acquire({ lease: 100 });
    await eventually(async () => {
      expect(await redis.exists(name)).toBe(0);
    });
    expect(await rejectionOf(hold.release())).toMatchObject({
      code: 'LOCK_LOST',
      lossReason: 'expired',
    });
  });

  it('of every lock at once does not crash the process when nobody listens', async () => {
    await using server = await startRedis();
    await using admin = new AdminRedis(server.url);
    await using child = startChild('silent-holder.ts', {
      HOLDFAST_TEST_REDIS_URL: server.url,
      HOLDFAST_TEST_OPTIONS: JSON.stringify({ lockWatchdogTimeout: 3_000 }), // a busy machine connects slowly
    });
    await child.next('acquired');
    await admin.redis.flushall();
    const { lost } = await child.next('lost all');
    expect(lost).toBe(500);
    await server.kill(); // and a connection error without a listener
    await sleep(300);
    child.send({ type: 'close' });
    expect(await child.exited()).toEqual({ code: 0, signal: null });
    expect(child.output).toMatch(ONE_WARNING);
  });
});

describe('a nested short lease', () => {
  it('does not shorten the watched outer one: it is still held after 3 s', async () => {
    await using client = newClient({ lockWatchdogTimeout: 4_500 });
    const lost = eventsOf(client, 'lost');
    const lock = client.getLock(name);
    await client.run(async () => {
      await lock.lock();
      const outerTtlMs = await redis.pttl(name);
      const seenAtMs = performance.now();
      expect(await lock.tryLock(0, 1_000)).toBe(true);
      const innerTtlMs = await redis.pttl(name);
      expect(innerTtlMs).toBeGreaterThan(outerTtlMs - (performance.now() - seenAtMs) - 50);
      const seen = await watchTtl(redis, name, 3_000);
      expect(Math.min(...seen)).toBeGreaterThan(0);
      expect(rises(seen)).toBe(true); // it is renewed, too
      await lock.unlock();
      expect(await lock.isHeldByCurrentOwner()).toBe(true);
      await lock.unlock();
    });
    expect(lost).toEqual([]);
  });
});

class AdminRedis implements AsyncDisposable {
  readonly redis: Redis;

  constructor(url: string) {
    this.redis = new Redis(url);
    this.redis.on('error', () => undefined);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.redis.disconnect();
    await Promise.resolve();
  }
}
