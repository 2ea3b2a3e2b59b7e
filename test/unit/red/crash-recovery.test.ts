// A master that restarts empty while a holder is cut off from it has forgotten a lease, perhaps a longer one than the next caller knows of:
// it must not let that caller in.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  Holdfast,
  QuorumError,
  type Hold,
  type Lock,
  type RedLockOptions,
} from '../../../src/index.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { expectOutages } from '../../support/expected-warnings.js';
import { TappedRedis } from '../../support/tapped-redis.js';

const NAME = 'orders';
/** Far longer than any lease that the contender knows of, and than the masters have been up. */
const LEASE_MS = 8_000;
const SHORT_MS = 1_000;
const ELEVEN_MINUTES_MS = 11 * 60_000;

expectOutages();

/** One of two programs, and how it reaches each of the masters. */
interface Program {
  readonly taps: readonly TappedRedis[];
  readonly clients: readonly Holdfast[];
}

let masters: MemoryRedis[];
let holder: Program;
let contender: Program;

function startProgram(lockWatchdogTimeout: number): Program {
  const taps = masters.map((master) => new TappedRedis(master));
  const clients = taps.map((redis) => new Holdfast({ redis, lockWatchdogTimeout }));
  return { taps, clients };
}

/** Its Redlock; by default without a guard, like the holder's. */
function lockOf({ clients }: Program, options: RedLockOptions = { restartGuard: false }): Lock {
  return clients[0]!.getRedLock(...clients.map((client) => client.getLock(NAME)), options);
}

async function advance(ms: number): Promise<void> {
  await masters[0]!.advance(ms);
}

async function settled<T>(call: Promise<T>, mostMs: number): Promise<T> {
  const done = vi.fn();
  call.then(done, done);
  for (let ms = 0; ms < mostMs && done.mock.calls.length === 0; ms += 50) await advance(50);
  return await call;
}

/** Another client has the lock on masters 3 and 4 while `fn` runs. */
async function whileOthersHold<T>(fn: () => Promise<T>): Promise<T> {
  const others = [3, 4].map((index) => new Holdfast({ redis: masters[index]! }));
  for (const other of others) await other.getLock(NAME).acquire();
  const result = await fn();
  for (const other of others) await other.close();
  return result;
}

/** The holder no longer reaches any master, and one of its masters comes back empty. */
async function cutOffAndRestart(): Promise<void> {
  for (const tap of holder.taps) tap.cut();
  masters[2]!.restart({ empty: true });
  await advance(300);
}

beforeEach(async () => {
  const first = new MemoryRedis();
  masters = [first, ...Array.from({ length: 4 }, () => new MemoryRedis({ timeOf: first }))];
  holder = startProgram(SHORT_MS);
  contender = startProgram(SHORT_MS);
  await advance(20_000); // all may vote, as far as the contender knows
});

afterEach(async () => {
  for (const tap of [...holder.taps, ...contender.taps]) tap.mend();
  const closing = [...holder.clients, ...contender.clients].map((client) => client.close());
  await settled(Promise.all(closing), 60_000);
});

describe('no other client has the lock before its lease is over', () => {
  const ways: [string, () => Promise<Hold>][] = [
    [
      'where the masters that did not vote for it had been asked, too',
      () => whileOthersHold(() => lockOf(holder).acquire({ lease: LEASE_MS })),
    ],
    [
      'where its holder could not reach those',
      async () => {
        for (const index of [3, 4]) holder.taps[index]!.cut();
        return await settled(lockOf(holder).acquire({ lease: LEASE_MS }), 1_000);
      },
    ],
    [
      'where it had been extended',
      () =>
        whileOthersHold(async () => {
          const hold = await lockOf(holder).acquire({ lease: 2 * SHORT_MS });
          await hold.extend(LEASE_MS);
          return hold;
        }),
    ],
    [
      'where the watchdog had renewed it, by more than others use',
      async () => {
        await settled(Promise.all(holder.clients.map((client) => client.close())), 5_000);
        holder = startProgram(LEASE_MS);
        return await whileOthersHold(async () => {
          const hold = await lockOf(holder).acquire();
          await advance(LEASE_MS * 1.4); // its first request is over
          return hold;
        });
      },
    ],
  ];

  it.each(ways)('%s', async (_, acquire) => {
    const hold = await acquire();
    await cutOffAndRestart();
    expect(hold.remaining()).toBeGreaterThan(LEASE_MS / 4);
    const other = await settled(lockOf(contender, {}).acquire({ wait: 40_000 }), 40_000);
    expect(hold.remaining()).toBe(0);
    await other.release();
  });

  it.each([
    ['unless there is no guard', false, true],
    ['where the guard is a number', 60_000, false],
  ] as const)('%s', async (_, restartGuard, isGiven) => {
    await advance(60_000);
    const hold = await whileOthersHold(() => lockOf(holder).acquire({ lease: LEASE_MS }));
    await cutOffAndRestart();
    const asking = lockOf(contender, { restartGuard }).tryAcquire();
    const other = await settled(
      asking.catch((error: unknown) => error),
      1_000,
    );
    expect(hold.remaining()).toBeGreaterThan(0);
    if (isGiven) {
      expect((other as Hold).remaining()).toBeGreaterThan(0);
      return;
    }
    expect(other).toBeInstanceOf(QuorumError);
    const { nodes, message } = other as QuorumError;
    const answers = nodes.map(({ answer }) => answer);
    expect(answers).toEqual(['held', 'held', 'guarded', 'acquired', 'acquired']);
    expect(message).toMatch(/started too recently, votes in \d+\.\d s/);
  });
});

it('a restarted master does not replace unreachable ones, even if nobody else knows of a lock', async () => {
  await advance(ELEVEN_MINUTES_MS);
  for (const index of [3, 4]) holder.taps[index]!.cut();
  const hold = await settled(lockOf(holder).acquire({ lease: LEASE_MS }), 1_000);
  for (const index of [0, 1]) contender.taps[index]!.cut();
  await cutOffAndRestart();
  const wanted = lockOf(contender, {});
  const failing = wanted.acquire({ wait: LEASE_MS + 500 }).catch((error: unknown) => error);
  const error = await settled(failing, 2 * LEASE_MS);
  expect(hold.remaining()).toBe(0);
  expect(error).toBeInstanceOf(QuorumError);
  expect((error as QuorumError).nodes).toMatchObject([
    { answer: 'unreachable' },
    { answer: 'unreachable' },
    { answer: 'guarded', waitsForOthers: true },
    { answer: 'acquired' },
    { answer: 'acquired' },
  ]);
  expect((error as QuorumError).message).toMatch(
    /votes in \d+\.\d s, or when those answer that may know what it forgot/,
  );
  for (const index of [0, 1]) contender.taps[index]!.mend();
  const own = await settled(wanted.acquire({ wait: 20_000 }), 20_000);
  expect(own.remaining()).toBeGreaterThan(0);
  await own.release();
});
