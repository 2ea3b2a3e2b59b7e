// Redlocks over servers in memory: who acquires the lock, who is woken, and which master has what.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Holdfast, type Lock, type RedLockOptions } from '../../../src/index.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { expectOutages } from '../../support/expected-warnings.js';
import { TappedRedis } from '../../support/tapped-redis.js';

const LEASE_MS = 3_000;
const NAME = 'orders';

expectOutages();

let masters: MemoryRedis[];
let clients: Holdfast[];

beforeEach(() => {
  clients = [];
});

afterEach(async () => {
  await Promise.all(clients.map((client) => client.close()));
  expect(masters.flatMap((master) => master.holders(NAME))).toEqual([]);
});

function startMasters(count: number): void {
  const first = new MemoryRedis();
  const others = Array.from({ length: count - 1 }, () => new MemoryRedis({ timeOf: first }));
  masters = [first, ...others];
}

/** The Redlock of one program, which may reach masters by taps. */
function redLock(options: RedLockOptions = {}, taps: readonly TappedRedis[] = []): Lock {
  const members = masters.map(
    (redis, index) => new Holdfast({ redis: taps[index] ?? redis, lockWatchdogTimeout: LEASE_MS }),
  );
  clients.push(...members);
  return members[0]!.getRedLock(...members.map((member) => member.getLock(NAME)), options);
}

async function advance(ms: number): Promise<void> {
  await masters[0]!.advance(ms);
}

function owners(): (string | undefined)[] {
  return masters.map((master) => master.holders(NAME)[0]?.ownerId);
}

describe('while most voters are unreachable, a master that did not vote', () => {
  it.each([
    ['and has been up for long is given the lock', false, undefined, true],
    ['and has restarted is not', true, undefined, false],
    ['and has restarted is not, where the guard says so', true, 2 * LEASE_MS, false],
    ['and has restarted is given it, where there is no guard', true, false, true],
  ] as const)('%s', async (_, hasRestarted, restartGuard, isGiven) => {
    startMasters(5);
    const lock = redLock(restartGuard === undefined ? {} : { restartGuard });
    for (const index of [3, 4]) masters[index]!.down();
    await advance(10);
    const hold = await lock.acquire();
    for (const index of [0, 1]) masters[index]!.down();
    for (const index of [3, 4]) {
      if (hasRestarted) masters[index]!.restart({ empty: true });
      masters[index]!.up();
    }
    await advance(LEASE_MS / 2);
    const given = isGiven ? hold.ownerId : undefined;
    expect(owners().slice(3)).toEqual([given, given]);
    await advance(2 * LEASE_MS);
    expect(hold.signal.aborted).toBe(!isGiven);
    for (const index of [0, 1]) masters[index]!.up();
    void hold.release().catch(() => undefined);
    await advance(2 * LEASE_MS);
  });
});

it('a master within its restart guard gets the lock as soon as it is won', async () => {
  startMasters(3);
  masters[2]!.restart();
  const lock = redLock();
  await advance(10);
  const hold = await lock.acquire({ lease: 60_000 });
  await advance(1);
  expect(owners()).toEqual(Array(3).fill(hold.ownerId));
  await hold.release();
  expect(owners()).toEqual(Array(3).fill(undefined));
});

it.each([
  ['watched', undefined],
  ['fixed', 60_000],
])(
  'a master that connects during the vote gets the lock as soon as it is won: a %s lease',
  async (_, lease) => {
    startMasters(3);
    masters[2]!.down();
    const voter = new TappedRedis(masters[0]!);
    const lock = redLock({ nodeTimeout: 20_000 }, [voter]);
    await advance(10);
    const answer = voter.holdAnswers('vote');
    const acquiring = lock.acquire({ ...(lease !== undefined && { lease }) });
    await advance(10);
    masters[2]!.up();
    await advance(LEASE_MS / 6);
    expect(owners()[2]).toBeUndefined();
    answer();
    const hold = await acquiring;
    await advance(1);
    expect(owners()).toEqual(Array(3).fill(hold.ownerId));
    await hold.release();
  },
);

it.each([
  ['watched', undefined, LEASE_MS],
  ['fixed', 60_000, 60_000],
])(
  'masters that restart empty, one after another, get a %s lock again as soon as they are back',
  async (_, lease, leaseMs) => {
    startMasters(3);
    const lock = redLock();
    await advance(10);
    const hold = await lock.acquire({ ...(lease !== undefined && { lease }) });
    for (const [index, master] of masters.entries()) {
      master.restart({ empty: true });
      await advance(200); // of which connecting takes a part
      const [holder] = master.holders(NAME);
      expect(holder?.ownerId).toBe(hold.ownerId);
      expect(holder?.remaining).toBeGreaterThan(leaseMs / 2);
      expect(holder?.remaining).toBeLessThanOrEqual(leaseMs);
      expect(owners()[index]).toBe(hold.ownerId);
    }
    expect(hold.signal.aborted).toBe(false);
    await hold.release();
  },
);

it('a release wakes a waiter in another program, and a message of one master is enough', async () => {
  startMasters(5);
  const [one, other] = [redLock(), redLock()];
  await advance(10);
  const hold = await one.acquire();
  const waiting = other.acquire();
  await advance(100);
  const startedAt = Date.now();
  for (const index of [1, 2]) masters[index]!.down();
  await hold.release();
  await advance(100);
  const next = await waiting;
  expect(Date.now() - startedAt).toBeLessThan(LEASE_MS / 3);
  for (const index of [1, 2]) masters[index]!.up();
  await advance(2 * LEASE_MS);
  await next.release();
});

it('several programs that want it at the same time all acquire it', async () => {
  startMasters(3);
  const locks = Array.from({ length: 4 }, () => redLock());
  await advance(10);
  let inside = 0;
  let most = 0;
  const turns = locks.map((lock) =>
    lock.withLock(async () => {
      most = Math.max(most, ++inside);
      await Promise.resolve();
      inside--;
    }),
  );
  await advance(2_000);
  await Promise.all(turns);
  expect(most).toBe(1);
});

it('the client waits for masters that are still connecting, and reports those that fail as unreachable', async () => {
  startMasters(3);
  for (const index of [1, 2]) masters[index]!.down();
  const error = await Promise.all([redLock().tryLock(0).catch(Object), advance(50)]);
  expect(error[0]).toMatchObject({
    code: 'NO_QUORUM',
    nodes: [{ answer: 'acquired' }, { answer: 'unreachable' }, { answer: 'unreachable' }],
  });
  for (const index of [1, 2]) masters[index]!.up();
  await advance(2_000);
});
