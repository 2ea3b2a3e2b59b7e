// How long a call lasts, and what its end rests on: "somebody else has it" is true at that time, so after a long sleep the client queries
// the lock once more; and an attempt under way gets a moment for its answer, however short the wait.
import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type Hold, Holdfast, type HoldfastOptions, type Lock } from '../../../src/index.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { rejectionOf } from '../../support/clients.js';
import { expectWarnings } from '../../support/expected-warnings.js';
import { gate } from '../../support/occupancy.js';
import { TappedRedis } from '../../support/tapped-redis.js';

// Callers wait for their own client, which holds the lock outside any run.
expectWarnings(/^lock ".*" has been waited for /);

let redis: MemoryRedis;
let tap: TappedRedis;
/** The waiting client, whose scripts are recorded. */
let lock: Lock;
let client: Holdfast;
let other: Holdfast;
let third: Holdfast;

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['Date', 'performance'] }); // time passes by advance() alone
  redis = new MemoryRedis();
  tap = new TappedRedis(redis);
  client = newClient(tap, 'me');
  [other, third] = [newClient(redis, 'other'), newClient(redis, 'third')];
  lock = client.getLock('a');
  await Promise.all([client.ping(), other.ping(), third.ping()]);
});

afterEach(async () => {
  redis.up();
  const closed = Promise.all([client.close(), other.close(), third.close()]);
  await redis.advance(200_000); // a command without an answer is given up
  await closed;
  vi.useRealTimers();
});

/** No lease ends, and no silence matters, during a test. */
function newClient(source: unknown, clientId: string): Holdfast {
  const options = { clientId, lockWatchdogTimeout: 600_000, commandTimeout: 100_000 };
  const made = new Holdfast({ redis: source as HoldfastOptions['redis'], ...options });
  made.on('error', () => undefined);
  return made;
}

function isHeldBy(holder: Holdfast): Promise<Hold> {
  return holder.getLock('a').acquire();
}

/** How many scripts the client has run on the lock. */
function askedTimes(): number {
  return tap.sent.filter(({ keys }) => keys.includes('a')).length;
}

/** The outcome of the call after this time. */
async function after<T>(ms: number, promise: Promise<T>): Promise<T> {
  const settled = promise.catch(() => undefined);
  await redis.advance(ms);
  expect(await Promise.race([settled, Promise.resolve('pending')])).not.toBe('pending');
  return await promise;
}

describe('a wait that ends after a long sleep', () => {
  it('queries once more, 800 ms before', async () => {
    await isHeldBy(other);
    const trying = lock.tryLock(5_000);
    await redis.advance(1_000);
    const asked = askedTimes();
    await redis.advance(3_150);
    expect(askedTimes()).toBe(asked);
    await redis.advance(100);
    expect(askedTimes()).toBe(asked + 1);
    expect(await after(760, trying)).toBe(false);
    expect(askedTimes()).toBe(asked + 1);
  });

  it('acquires a lock that was free for long, without a message', async () => {
    const held = await isHeldBy(other);
    const trying = lock.tryLock(5_000);
    await redis.advance(1_000);
    tap.deafen();
    await held.release();
    expect(await after(3_250, trying)).toBe(true);
    await lock.unlock();
  });

  it('names the present holder, not the first one', async () => {
    const held = await isHeldBy(other);
    const refused = rejectionOf(lock.acquire({ wait: 5_000 }));
    await redis.advance(1_000);
    tap.deafen();
    await held.release();
    const { ownerId } = await isHeldBy(third);
    expect(await after(4_010, refused)).toMatchObject({ code: 'LOCK_TIMEOUT', holder: ownerId });
  });

  it.each(['never comes', 'fails'])('is not a timeout when its answer %s', async (what) => {
    await isHeldBy(other);
    const refused = rejectionOf(lock.acquire({ wait: 5_000 }));
    await redis.advance(1_000);
    if (what === 'fails') redis.down();
    else tap.holdAnswers('acquire');
    expect(await after(4_200, refused)).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
  });

  it('does not query again after a recent query', async () => {
    const held = await isHeldBy(other);
    const trying = lock.tryLock(5_000);
    await redis.advance(4_150);
    const asked = askedTimes();
    await Promise.all([held.release(), isHeldBy(third)]); // wakes it; somebody else is faster
    await redis.advance(40);
    expect(askedTimes()).toBe(asked + 1);
    expect(await after(820, trying)).toBe(false);
    expect(askedTimes()).toBe(asked + 1);
  });

  it('does not take a turn from earlier callers of this client: they query for all', async () => {
    await isHeldBy(other);
    const patient = new AbortController();
    const first = rejectionOf(lock.acquire({ signal: patient.signal }));
    await redis.advance(0);
    const others = Array.from({ length: 20 }, () => lock.tryLock(5_000));
    await redis.advance(1_000);
    const asked = askedTimes();
    expect(await after(4_010, Promise.all(others))).toEqual(others.map(() => false));
    expect(askedTimes() - asked).toBeLessThanOrEqual(2);
    patient.abort();
    await after(0, first);
  });

  it('of less than a second needs no second query, and one for ever only its regular ones', async () => {
    await isHeldBy(other);
    const patient = new AbortController();
    const short = lock.tryLock(900);
    await redis.advance(0);
    const asked = askedTimes();
    expect(await after(910, short)).toBe(false);
    expect(askedTimes()).toBe(asked);
    const forever = rejectionOf(lock.acquire({ signal: patient.signal }));
    await redis.advance(800_000);
    expect(askedTimes() - asked).toBeLessThanOrEqual(6);
    patient.abort();
    expect(await after(0, forever)).toMatchObject({ code: 'LOCK_ABORTED' });
    expect(getEventListeners(patient.signal, 'abort')).toEqual([]);
  });
});

describe('a valid grant of this client counts as an answer', () => {
  it('for a caller that waits in line', async () => {
    await isHeldBy(client);
    const trying = lock.tryLock(5_000);
    await redis.advance(0);
    tap.holdAnswers('acquire');
    expect(await after(5_010, trying)).toBe(false);
  });

  it('for a caller that waits for a sibling inside one holder', async () => {
    await lock.withLock(async (outer) => {
      const sibling = await lock.acquire();
      const refused = rejectionOf(lock.acquire({ wait: 5_000 }));
      expect(await after(5_010, refused)).toMatchObject({ holder: outer.ownerId });
      await sibling.release();
    });
  });

  it('and a grant that is over does not', async () => {
    await lock.acquire({ lease: 3_000 });
    const refused = rejectionOf(lock.acquire({ wait: 5_000 }));
    await redis.advance(0);
    tap.holdAnswers('acquire');
    expect(await after(5_200, refused)).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
  });
});

describe('a timeout while a caller of the same client has the lock', () => {
  it('reports so, and that getMultiLock() takes several locks: callers over x and y wait for each other', async () => {
    const both = gate();
    let inside = 0;
    const over = (mine: string, next: string, wait: number): Promise<unknown> =>
      client.getLock(mine).withLock(async () => {
        if (++inside === 2) both.open();
        await both.opened;
        await client.getLock(next).withLock({ wait }, () => undefined);
      });
    const refused = rejectionOf(over('x', 'y', 5_000));
    const patient = over('y', 'x', 60_000);
    await redis.advance(0);
    const { code, message } = (await after(5_010, refused)) as Error & { code: string };
    expect(code).toBe('LOCK_TIMEOUT');
    expect(message).toMatch(/another caller of this client has it: .*getMultiLock\(\)/);
    await after(10, patient);
  });

  it('does not report so of the lock of another client', async () => {
    await isHeldBy(other);
    const error = await after(60, rejectionOf(lock.acquire({ wait: 50 })));
    expect(error).toMatchObject({ code: 'LOCK_TIMEOUT' });
    expect(String(error)).not.toContain('this client');
  });
});

describe('a wait that is shorter than the way to the server', () => {
  it('gets its answer within 100 ms, or none', async () => {
    redis.delay(30);
    const hold = await after(70, lock.tryAcquire({ wait: 5 }));
    expect(hold).toBeDefined();
    redis.delay(0);
    await hold?.release();
    const unanswered = tap.holdAnswers('acquire');
    const refused = rejectionOf(lock.acquire({ wait: 5 }));
    let isOver = false;
    void refused.then(() => (isOver = true));
    await redis.advance(95);
    expect(isOver).toBe(false);
    expect(await after(10, refused)).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
    unanswered();
    await redis.advance(0);
  });

  it('ends with the answer that somebody else has the lock', async () => {
    await isHeldBy(other);
    redis.delay(30);
    expect(await after(70, lock.tryLock(5))).toBe(false);
    redis.delay(0);
  });

  it('ends at once when its signal aborts', async () => {
    const ends = new AbortController();
    const unanswered = tap.holdAnswers('acquire');
    const refused = rejectionOf(lock.acquire({ wait: 5, signal: ends.signal }));
    await redis.advance(20);
    ends.abort();
    expect(await after(0, refused)).toMatchObject({ code: 'LOCK_ABORTED' });
    unanswered();
    await redis.advance(0);
  });
});
