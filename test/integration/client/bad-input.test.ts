// Arguments and calls that cannot be meant: a clear error, and nothing is sent.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Holdfast, OptionError, type HoldfastOptions, type Lock } from '../../../src/index.js';
import {
  connectedClient,
  eventsOf,
  newClient,
  nextEvent,
  rejectionOf,
} from '../../support/clients.js';
import { recordCommands } from '../../support/recorded-commands.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';

let server: RedisServer;
let redis: Redis;
let client: Holdfast;

beforeAll(async () => {
  server = await startRedis();
  redis = new Redis(server.url);
  client = await connectedClient({ redis: server.url, lockWatchdogTimeout: 3_000 });
});

afterAll(async () => {
  await client.close();
  redis.disconnect();
  await server[Symbol.asyncDispose]();
});

/** A wrong argument, as a caller without types may give it. */
type Wrong = never;

describe('a lock name is refused', () => {
  it.each([
    ['an empty one', '', 'at least one character'],
    ['undefined', undefined, 'must be a string'],
    ['null', null, 'must be a string'],
    ['a number', 42, 'is 42: it must be a string'],
    ['an object', { name: 'x' }, 'must be a string'],
    ['a buffer', Buffer.from('x'), 'must be a string'],
    ['one of 1,025 bytes', 'x'.repeat(1_025), '1025 bytes long'],
    ['one of fewer characters but 1,025 bytes', 'é'.repeat(513), '1026 bytes long'],
    ['one with a lone surrogate', 'a\ud800b', 'well-formed'],
  ])('%s', async (_title, name, words) => {
    await nothingIsSent(() => {
      expect(() => client.getLock(name as Wrong)).toThrow(OptionError);
      expect(() => client.getLock(name as Wrong)).toThrow(words);
    });
  });

  it('but not the longest, nor one of unusual characters', async () => {
    for (const name of ['x'.repeat(1_024), ' ', '{', '}{', 'a b\nc\0d', '🔒', '%s', '*']) {
      const lock = client.getLock(name);
      await lock.lock();
      expect(await lock.isLocked()).toBe(true);
      await lock.unlock();
    }
    expect(await redis.dbsize()).toBe(0);
  });
});

describe('a lease is refused', () => {
  it.each([NaN, -2, -0.5, 1.5, 0, -0, Infinity, -Infinity, 2 ** 53, '1000', null, 10n, {}])(
    '%s',
    async (lease) => {
      const lock = client.getLock('lease');
      await refused(
        [
          () => lock.lock(lease as Wrong),
          () => lock.lock({ lease: lease as Wrong }),
          () => lock.tryLock(0, lease as Wrong),
          () => lock.tryLock({ lease: lease as Wrong }),
          () => lock.acquire({ lease: lease as Wrong }),
          () => lock.tryAcquire({ lease: lease as Wrong }),
          () => lock.withLock({ lease: lease as Wrong }, () => undefined),
        ].filter((_, index) => !(index === 0 && typeof lease === 'object')),
        'lease',
      );
    },
  );

  it.each([-1, undefined])('%s is none: it is the watchdog’s', async (lease) => {
    const lock = client.getLock('watched');
    await lock.lock(lease);
    expect(await lock.remainTimeToLive()).toBeGreaterThan(0);
    await lock.unlock();
  });

  it.each([NaN, -1, 0, 1.5, Infinity, undefined, '1000'])('by extend: %s', async (lease) => {
    await using hold = await client.getLock('extended').acquire();
    await refused([() => hold.extend(lease as Wrong)], 'lease');
  });
});

describe('a wait is refused', () => {
  it.each([NaN, -1, -Infinity, '500', null, 10n])('%s', async (wait) => {
    const lock = client.getLock('wait');
    const calls = [
      () => lock.tryLock({ wait: wait as Wrong }),
      () => lock.acquire({ wait: wait as Wrong }),
      () => lock.tryAcquire({ wait: wait as Wrong }),
      () => lock.withLock({ wait: wait as Wrong }, () => undefined),
    ];
    if (wait !== null) calls.push(() => lock.tryLock(wait as Wrong));
    await refused(calls, 'wait');
  });

  it.each(['wiat', 'timeout', 'leaseTime'])('under another name: %s', async (option) => {
    const lock = client.getLock('options');
    const options = { [option]: 500 } as Wrong;
    const calls = [
      () => lock.lock(options),
      () => lock.tryLock(options),
      () => lock.acquire(options),
      () => lock.withLock(options, () => undefined),
    ];
    await refused(calls, `have no "${option}"`);
  });

  it('by lock(), which waits for ever', async () => {
    await refused([() => client.getLock('options').lock({ wait: 5 } as Wrong)], 'wait');
  });

  it('when options are none', async () => {
    const lock = client.getLock('options');
    await refused([() => lock.acquire(5 as Wrong), () => lock.tryLock(null as Wrong)], '');
  });

  it('together with something that is no function', async () => {
    const lock = client.getLock('options');
    await refused(
      [() => lock.withLock(undefined as Wrong), () => lock.withLock({}, 5 as Wrong)],
      'function',
    );
  });
});

describe('a signal is refused', () => {
  it.each([null, {}, 'abort', new AbortController()])('%o', async (signal) => {
    const lock = client.getLock('signal');
    await refused([() => lock.lock({ signal: signal as Wrong })], 'signal');
  });

  it('when it aborted already: nothing is sent', async () => {
    const lock = client.getLock('signal');
    const signal = AbortSignal.abort(new Error('before'));
    const calls: (() => Promise<unknown>)[] = [
      () => lock.lock({ signal }),
      () => lock.tryLock({ signal }),
      () => lock.acquire({ signal }),
      () => lock.tryAcquire({ signal, wait: 100 }),
      () => lock.withLock({ signal }, () => undefined),
    ];
    await nothingIsSent(async () => {
      for (const call of calls) {
        const error = await rejectionOf(call());
        expect(error).toMatchObject({ code: 'LOCK_ABORTED', cause: signal.reason as unknown });
      }
    });
  });
});

describe('what a semaphore is given wrongly', () => {
  it('is refused in words that call it a semaphore, and say what would be right', async () => {
    const name = 'bad-permits';
    expect(() => client.getSemaphore(name, { permits: 0 })).toThrow(
      `semaphore "${name}": permits is 0: it must be a whole number from 1 to`,
    );
    const semaphore = client.getSemaphore(name, { permits: 2 });
    const about = `semaphore "${name}": `;
    await refused([() => semaphore.acquire({ permits: 0 })], `${about}permits is 0`);
    await refused([() => semaphore.setPermits(1.5)], `${about}permits is 1.5`);
    await refused([() => semaphore.tryAcquire({ wait: -1 })], `${about}wait is -1`);
    await refused([() => semaphore.acquire({ lease: 0 })], `${about}lease is 0`);
    await refused([() => semaphore.acquire({ permit: 1 } as Wrong)], `${about}the options`);
    await refused([() => semaphore.withPermits(3 as Wrong)], `${about}the function`);
    expect(await rejectionOf(semaphore.acquire({ permits: 0 }))).toMatchObject({ lockName: name });
  });
});

describe('a method of locks', () => {
  /** Calls it as plain JavaScript can. */
  const call = (target: object, method: string): Promise<unknown> =>
    (target as Record<string, (fn: () => void) => Promise<unknown>>)[method]!(() => undefined);

  it.each([
    ['withLock', 'withPermits(fn)'],
    ['lock', 'acquire()'],
    ['tryLock', 'tryAcquire()'],
    ['unlock', 'release()'],
  ])('%s() of a semaphore says what to call instead', async (method, instead) => {
    const semaphore = client.getSemaphore('no-lock', { permits: 2 });
    await nothingIsSent(async () => {
      const error = await rejectionOf(call(semaphore, method));
      expect(error).toBeInstanceOf(TypeError);
      expect(String(error)).toContain(`semaphore "no-lock" has no ${method}(): use ${instead}`);
    });
  });

  it.each(['withLock', 'lock', 'tryLock', 'unlock', 'acquire', 'tryAcquire'])(
    '%s() of a read-write lock says that its halves have it',
    async (method) => {
      const error = await rejectionOf(call(client.getReadWriteLock('both'), method));
      expect(error).toBeInstanceOf(TypeError);
      expect(String(error)).toContain(
        `read-write lock "both" has no ${method}(): use readLock().${method}() to read, writeLock().${method}() to write`,
      );
    },
  );
});

describe('unlock is refused', () => {
  it('to somebody who never locked', async () => {
    await nothingIsSent(async () => {
      await notHeld(client.getLock('never'));
      await client.run(() => notHeld(client.getLock('never')));
    });
  });

  it('to another client, whose lock it is not', async () => {
    await using other = newClient({ redis: server.url });
    await using hold = await client.getLock('others').acquire();
    await notHeld(other.getLock('others'));
    expect(hold.remaining()).toBeGreaterThan(0);
    expect(await client.getLock('others').isLocked()).toBe(true);
  });

  it('the second time', async () => {
    const lock = client.getLock('twice');
    await lock.lock();
    await lock.unlock();
    await nothingIsSent(() => notHeld(lock));
    await client.run(async () => {
      await lock.lock();
      await lock.unlock();
      await notHeld(lock);
    });
  });

  it('after the lock was lost, with another error', async () => {
    const lock = client.getLock('lost');
    const lost = nextEvent(client, 'lost');
    await lock.lock();
    await redis.del('lost');
    await lost;
    expect(await rejectionOf(lock.unlock())).toMatchObject({
      code: 'LOCK_LOST',
      lossReason: 'deleted',
    });
    await notHeld(lock);
  });

  it('of what acquire() and withLock() took', async () => {
    const lock = client.getLock('capability');
    await client.run(async () => {
      await using hold = await lock.acquire();
      await notHeld(lock);
      await lock.withLock(() => notHeld(lock));
      expect(hold.remaining()).toBeGreaterThan(0);
    });
  });

  async function notHeld(lock: Lock): Promise<void> {
    expect(await rejectionOf(lock.unlock())).toMatchObject({
      code: 'LOCK_NOT_HELD',
      lockName: lock.name,
    });
  }
});

describe('a client is refused', () => {
  it.each<[string, unknown]>([
    ['without options', undefined],
    ['without Redis', {}],
    ['with a number for Redis', { redis: 6379 }],
    ['with an array for Redis', { redis: [] }],
    ['with an unknown option', { redis: 'redis://localhost', timeout: 5 }],
    ['with a watchdog of 0', { redis: 'redis://localhost', lockWatchdogTimeout: 0 }],
    ['with a watchdog of 50 ms', { redis: 'redis://localhost', lockWatchdogTimeout: 50 }],
    ['with a watchdog of NaN', { redis: 'redis://localhost', lockWatchdogTimeout: NaN }],
    ['with a watchdog for ever', { redis: 'redis://localhost', lockWatchdogTimeout: Infinity }],
    ['with a commandTimeout of 0', { redis: 'redis://localhost', commandTimeout: 0 }],
    ['with a commandTimeout of 1.5', { redis: 'redis://localhost', commandTimeout: 1.5 }],
    ['with an empty clientId', { redis: 'redis://localhost', clientId: '' }],
    ['with a keyPrefix of null', { redis: 'redis://localhost', keyPrefix: null }],
  ])('%s', (_title, options) => {
    expect(() => new Holdfast(options as HoldfastOptions)).toThrow(OptionError);
  });

  it('but not with the longest watchdog, whose timers do not overflow', async () => {
    const lockWatchdogTimeout = 2 ** 31 - 1;
    await using patient = await connectedClient({ redis: server.url, lockWatchdogTimeout });
    const errors = eventsOf(patient, 'error');
    const sent = await recordCommands(server.url, async () => {
      await using hold = await patient.getLock('patient').acquire();
      expect(hold.remaining()).toBeGreaterThan(0.9 * lockWatchdogTimeout);
      await sleep(200);
    });
    expect(sent.filter(({ name }) => name.toLowerCase() === 'evalsha')).toHaveLength(2);
    expect(errors).toEqual([]);
  });
});

describe('a closed client', () => {
  it('refuses everything, and sends nothing', async () => {
    const closed = newClient({ redis: server.url });
    const lock = closed.getLock('closed');
    await lock.isLocked();
    const hold = await lock.acquire();
    await closed.close();
    const calls: (() => Promise<unknown>)[] = [
      () => lock.lock(),
      () => lock.tryLock(),
      () => lock.tryLock(100),
      () => lock.acquire(),
      () => lock.tryAcquire(),
      () => lock.withLock(() => undefined),
      () => lock.unlock(),
      () => lock.isLocked(),
      () => lock.isHeldByCurrentOwner(),
      () => lock.getHoldCount(),
      () => lock.remainTimeToLive(),
      () => lock.forceUnlock(),
      () => closed.getLock('another').lock(),
    ];
    await nothingIsSent(async () => {
      for (const call of calls) {
        expect(await rejectionOf(call())).toMatchObject({ code: 'CLIENT_CLOSED' });
      }
      expect(await rejectionOf(hold.release())).toMatchObject({ lossReason: 'closed' });
    });
  });
});

async function refused(calls: (() => Promise<unknown>)[], words: string): Promise<void> {
  await nothingIsSent(async () => {
    for (const call of calls) {
      const error = await rejectionOf(call());
      expect(error).toBeInstanceOf(OptionError);
      expect(error).toMatchObject({ code: 'INVALID_OPTION' });
      expect(String(error)).toContain(words);
    }
  });
}

/** The server is this file's own: what it executes is what these calls sent. */
async function nothingIsSent(calls: () => unknown): Promise<void> {
  const sent = await recordCommands(server.url, async () => {
    await calls();
  });
  expect(sent.map(({ name, args }) => [name, ...args].join(' '))).toEqual([]);
}
