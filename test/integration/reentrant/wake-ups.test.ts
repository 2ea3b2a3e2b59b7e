// A wake-up is never lost: a waiter that cannot use it passes it on, and without a message, reconnects and TTLs wake.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Hold, Holdfast, HoldfastError, Lock } from '../../../src/index.js';
import { eventsOf, rejectionOf } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { Instant } from '../../support/occupancy.js';
import { commandOf } from '../../support/lock-commands.js';
import { startRedis } from '../../support/redis-server.js';
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';
import { watchedServer } from '../../support/recorded-commands.js';

/** The most that a wake-up takes on a busy machine. A lost one takes a lease: 30 s. */
const SOON_MS = 5_000;

const server = watchedServer(() => startRedis());
let proxy: TcpProxy;
let holder: Holdfast;
/** Goes through the proxy. */
let waiter: Holdfast;
let held: Lock;
let awaited: Lock;

beforeEach(async () => {
  proxy = await startProxy(server.port);
  ({ holder, waiter, held, awaited } = await server.holderAndWaiter(proxy.url));
});

afterEach(async () => {
  await Promise.all([holder.close(), waiter.close()]);
  await proxy[Symbol.asyncDispose]();
});

async function soon<T>(promise: Promise<T>): Promise<T> {
  const startedAt = performance.now();
  const result = await promise;
  expect(performance.now() - startedAt).toBeLessThan(SOON_MS);
  return result;
}

describe('a waiter that gives up', () => {
  it('while its successful try is under way, by abort, leaves the lock to the next waiter', async () => {
    const aborter = new AbortController();
    const [first, second] = await twoWaiters({ signal: aborter.signal });
    const tried = proxy.copyNext(commandOf('acquire', awaited.name));
    proxy.delay({ downstreamMs: 200 });
    await held.unlock();
    await tried.happened; // and the answer, that it has the lock, is under way
    aborter.abort();
    expect(await rejectionOf(first)).toMatchObject({ code: 'LOCK_ABORTED' });
    await (await soon(second)).release();
  });

  it('while its unsuccessful try is under way, by abort, leaves the message that came meanwhile to the next waiter', async () => {
    const aborter = new AbortController();
    const [first, second] = await twoWaiters({ signal: aborter.signal });
    const tried = proxy.holdBack(commandOf('acquire', awaited.name), 'silence');
    await server.redis.publish(`redisson_lock__channel:{${awaited.name}}`, '0'); // a spurious message
    await tried.happened;
    await held.unlock();
    await sleep(100); // its message comes while the first one is still trying
    aborter.abort();
    expect(await rejectionOf(first)).toMatchObject({ code: 'LOCK_ABORTED' });
    // The connection is silent by now; the client makes a new one after a while.
    proxy.cut();
    await (await soon(second)).release();
  });

  it('before its try could be sent, without a connection, leaves the lock to the next waiter', async () => {
    const aborter = new AbortController();
    const [first, second] = await twoWaiters({ signal: aborter.signal });
    proxy.refuse();
    const unlocked = waiter.getLock(uniqueName());
    const cut = proxy.holdBack(commandOf('look', unlocked.name)); // with the connection for commands; the subscriber stays
    const look = unlocked.isLocked().catch((error: unknown) => (error as HoldfastError).code);
    await cut.happened;
    await held.unlock();
    await sleep(100); // its message wakes the first one, which has no connection to send its try
    aborter.abort();
    expect(await rejectionOf(first)).toMatchObject({ code: 'LOCK_ABORTED' });
    await proxy.accept();
    await (await soon(second)).release();
    expect(['REDIS_UNAVAILABLE', false]).toContain(await look); // it fails, or the next connection answers it
  });

  it('while its try is under way, by timeout, leaves the lock to the next waiter', async () => {
    const [first, second] = await twoWaiters({ wait: 1_500 });
    const tried = proxy.copyNext(commandOf('acquire', awaited.name));
    proxy.delay({ downstreamMs: 1_600 });
    await held.unlock();
    await tried.happened;
    await rejectionOf(first);
    proxy.delay();
    await (await soon(second)).release();
  });

  it.each(['abort', 'timeout'])(
    'at the very moment of the release, by %s, leaves the lock to the next waiter',
    async (how) => {
      const wait = 100;
      const instant = new Instant();
      for (let round = 0; round < 40; round++) {
        const aborter = new AbortController();
        await held.lock();
        const told = eventsOf(waiter, 'waiting');
        const startedAtMs = performance.now();
        let isOver = false;
        const first = awaited
          .tryAcquire(how === 'abort' ? { wait: 60_000, signal: aborter.signal } : { wait })
          .then(async (hold) => {
            await hold?.release();
            return hold !== undefined;
          })
          .catch((error: unknown) => {
            // The latter when a busy machine takes as long as the wait for the first try.
            expect(['LOCK_ABORTED', 'REDIS_UNAVAILABLE']).toContain((error as HoldfastError).code);
            return false;
          })
          .finally(() => (isOver = true));
        const second = awaited.acquire();
        await eventually(() => {
          expect(told.length).toBeGreaterThanOrEqual(isOver ? 1 : 2);
        });
        // The more rounds end by the timeout, the sooner the release comes.
        if (how === 'timeout')
          await sleep(Math.max(0, startedAtMs + wait + 3 - performance.now() - instant.afterMs));
        const released = held.unlock();
        if (how === 'abort') {
          await instant.passes();
          aborter.abort();
        }
        await (await soon(second)).release();
        instant.was(await first);
        await released;
      }
      instant.wasMet();
    },
  );

  it('while it is not its turn leaves the wake-ups of the others unchanged', async () => {
    const aborter = new AbortController();
    const [first, second] = await twoWaiters({}, { signal: aborter.signal });
    let third!: Promise<Hold>;
    await server.waiting(waiter, awaited, 1, () => {
      third = awaited.acquire();
    });
    aborter.abort();
    expect(await rejectionOf(second)).toMatchObject({ code: 'LOCK_ABORTED' });
    await held.unlock();
    await (await soon(first)).release();
    await (await soon(third)).release();
  });

  /** Two waiters, in this order; the lock is held for 30 s or longer. */
  async function twoWaiters(
    ...[forFirst, forSecond]: Parameters<Lock['acquire']>[0][]
  ): Promise<[Promise<Hold>, Promise<Hold>]> {
    await held.lock();
    let both!: [Promise<Hold>, Promise<Hold>];
    await server.waiting(waiter, awaited, 2, () => {
      both = [awaited.acquire(forFirst), awaited.acquire(forSecond)];
    });
    both[0].catch(() => undefined);
    return both;
  }
});

describe('without a message', () => {
  it('the end of the lease wakes a waiter, after a dead holder and after a lost message', async () => {
    const leaseMs = 3_000;
    await server.holdSilently(awaited, leaseMs);
    const startedAt = performance.now();
    let mine!: Promise<Hold>;
    const channel = `redisson_lock__channel:{${awaited.name}}`;
    const tries = await server.scripts(awaited, async () => {
      mine = awaited.acquire();
      await eventually(async () => {
        expect(await server.redis.pubsub('NUMSUB', channel)).toEqual([channel, 1]);
      });
      await sleep(200);
      await server.redis.del(awaited.name);
      await mine;
    });
    expect(performance.now() - startedAt).toBeLessThan(leaseMs + SOON_MS);
    expect(tries).toBe(3); // at first, when the subscription was confirmed, and at the end of the lease
    await (await mine).release();
  });

  it('a new connection wakes a waiter, if both connections were gone during the release', async () => {
    await held.lock();
    let all!: Promise<unknown>;
    await server.waiting(waiter, awaited, 5, () => {
      all = Promise.all(Array.from({ length: 5 }, () => awaited.withLock(() => undefined)));
    });
    proxy.refuse();
    proxy.cut();
    await eventually(async () => {
      expect(await server.subscriptions(awaited)).toEqual([]);
    });
    await held.unlock();
    await proxy.accept();
    await soon(all);
  });

  it('a new subscription wakes a waiter, if only the subscriber was gone, and that is no error', async () => {
    await server.holdSilently(awaited, 60_000);
    let all!: Promise<unknown>;
    await server.waiting(waiter, awaited, 5, () => {
      all = Promise.all(Array.from({ length: 5 }, () => awaited.withLock(() => undefined)));
    });
    await server.redis.del(awaited.name); // without a message
    expect(await server.scripts(awaited, () => sleep(300))).toBe(0);
    const errors = eventsOf(waiter, 'error');
    await server.redis.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await soon(all);
    expect(errors).toEqual([]);
  });

  it('forceUnlock() by another client wakes a waiter', async () => {
    await server.holdSilently(awaited, 60_000);
    let mine!: Promise<void>;
    await server.waiting(waiter, awaited, 1, () => {
      mine = awaited.withLock(() => undefined);
    });
    expect(await held.forceUnlock()).toBe(true);
    await soon(mine);
    await server.redis.del(`holdfast_forced:{${awaited.name}}`);
  });
});
