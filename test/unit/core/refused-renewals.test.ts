// A renewal of many leases that is refused as a whole: each lease is then renewed alone, so that one refusal does not affect the others.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { KeepReply, Renewable, Watched } from '../../../src/core/protocol.js';
import { Watchdog } from '../../../src/core/watchdog.js';
import { LostError, replyError } from '../../../src/redis/failure.js';
import { LockKeys } from '../../../src/redis/keys.js';
import { Schedule } from '../../../src/runtime/schedule.js';

const LEASE_MS = 30_000;
const ROUND_MS = LEASE_MS / 3;
const RETRY_MS = 250;
const PAUSE_MS = ROUND_MS / 2;
const MOST_TURNS = 32;

class FakeLease implements Renewable {
  readonly ownerId = 'me:1';
  readonly isWatched = true;
  renewals = 0;
  #confirmedAtMs = performance.now();

  ageMs(): number {
    return performance.now() - this.#confirmedAtMs;
  }

  renewed(reply: KeepReply): boolean {
    expect(reply).toBe('kept');
    this.renewals++;
    this.#confirmedAtMs = performance.now();
    return true;
  }
}

/** The sizes of the calls that were sent. */
let calls: number[];
/** Why a call for these locks fails; undefined: it succeeds. */
let refuse: (locks: readonly string[]) => Error | undefined;
let batchKey: (keys: LockKeys) => string;
const failed = vi.fn();
let watchdog: Watchdog;

beforeEach(() => {
  vi.useFakeTimers();
  vi.resetAllMocks();
  calls = [];
  batchKey = () => '';
  watchdog = new Watchdog({
    schedule: new Schedule(),
    leaseMs: LEASE_MS,
    failed,
    counted: vi.fn(),
  });
});

afterEach(() => {
  vi.useRealTimers();
});

function renew(batch: readonly Watched<LockKeys>[]): Promise<KeepReply[]> {
  calls.push(batch.length);
  const refusal = refuse(batch.map(({ target }) => target.lock));
  return refusal ? Promise.reject(refusal) : Promise.resolve(batch.map(() => 'kept'));
}

/** Leases of the locks `lock:0`, `lock:1` and so on, or from another number on. */
function watch(count: number, from = 0): FakeLease[] {
  return Array.from({ length: count }, (_, index) => {
    const lease = new FakeLease();
    watchdog.watch(lease, new LockKeys(`lock:${String(from + index)}`), {
      kind: 'hold',
      batchKey: (keys) => batchKey(keys),
      renew,
    });
    return lease;
  });
}

/** Waits until all batches of a round are sent and answered, which takes several turns of the event loop. */
async function advance(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
  await vi.advanceTimersByTimeAsync(MOST_TURNS); // one a millisecond of the fake clock
}

/** Refuses every call that includes one of these locks. */
function denied(...names: string[]): (locks: readonly string[]) => Error | undefined {
  return (locks) =>
    locks.some((lock) => names.includes(lock)) ? replyError('NOPERM that key') : undefined;
}

it('a refused lease does not affect the others, and is the only one reported, with the reason', async () => {
  refuse = denied('lock:7');
  const leases = watch(500);
  await advance(ROUND_MS);
  expect(leases.filter(({ renewals }) => renewals === 1)).toHaveLength(499);
  expect(leases[7]!.renewals).toBe(0);
  expect(calls).toEqual([500, ...Array<number>(500).fill(1)]);
  expect(failed).toHaveBeenCalledExactlyOnceWith(replyError('NOPERM that key'), 1);
});

it('leases that are refused alone are soon sent again, until they are permitted', async () => {
  refuse = denied('lock:1');
  const leases = watch(3);
  await advance(ROUND_MS);
  calls = [];
  await advance(2 * RETRY_MS);
  expect(calls).toEqual([1, 1]);
  refuse = denied();
  await advance(RETRY_MS);
  expect(leases.map(({ renewals }) => renewals)).toEqual([1, 1, 1]);
  await advance(ROUND_MS);
  expect(calls.at(-1)).toBe(3);
});

it('leases whose keys are in several slots are all renewed, and from then on slot by slot', async () => {
  refuse = (locks) => {
    if (locks.length === 1) return undefined;
    batchKey = ({ lock }) => lock; // as after the connection has received that error
    return replyError("CROSSSLOT Keys in request don't hash to the same slot");
  };
  const leases = watch(20);
  await advance(ROUND_MS);
  expect(leases.every(({ renewals }) => renewals === 1)).toBe(true);
  expect(failed).not.toHaveBeenCalled();
  calls = [];
  await advance(ROUND_MS);
  expect(leases.every(({ renewals }) => renewals === 2)).toBe(true);
  expect(calls).toEqual(Array(20).fill(1));
});

it.each([
  ['a server that refuses everything for now', replyError('LOADING Redis is loading')],
  ['a connection that is lost', new LostError()],
])('%s does not get a separate call for each lease', async (_, error) => {
  refuse = () => error;
  watch(100);
  await advance(ROUND_MS);
  expect(calls).toEqual([100]);
  expect(failed).toHaveBeenCalledExactlyOnceWith(error, 100);
});

it('a server that refuses each lease gets a call for each only now and then, and soon calls for all of them', async () => {
  refuse = () => replyError('NOPERM');
  watch(10);
  await advance(ROUND_MS);
  expect(calls).toEqual([10, ...Array<number>(10).fill(1)]);
  expect(failed).toHaveBeenCalledExactlyOnceWith(replyError('NOPERM'), 10);
  calls = [];
  await advance(PAUSE_MS - 2 * RETRY_MS);
  expect(calls.length).toBeGreaterThan(10);
  expect(new Set(calls)).toEqual(new Set([10]));
  calls = [];
  await advance(4 * RETRY_MS);
  expect(calls.filter((size) => size === 1)).toHaveLength(10);
});

it('a new lease is renewed alone, without those that were just refused', async () => {
  refuse = denied(...Array.from({ length: 10 }, (_, index) => `lock:${String(index)}`));
  watch(10);
  await advance(ROUND_MS);
  calls = [];
  const [newcomer] = watch(1, 10);
  watchdog.renewAll();
  await advance(0);
  expect(newcomer!.renewals).toBe(1);
  expect(calls).toEqual([11, 1]);
});

it('a lease that is permitted after all were refused is renewed well before it ends', async () => {
  refuse = denied('lock:0', 'lock:1');
  const leases = watch(2);
  await advance(ROUND_MS);
  refuse = denied('lock:1');
  await advance(PAUSE_MS + RETRY_MS);
  expect(leases.map(({ renewals }) => renewals)).toEqual([1, 0]);
});

it('a lease that is released while the refusal is on its way is not sent alone', async () => {
  const leases = watch(4);
  refuse = (locks) => {
    if (locks.length > 1) for (const lease of leases.slice(1)) watchdog.unwatch(lease);
    return locks.length > 1 ? replyError('NOPERM') : undefined;
  };
  await advance(ROUND_MS);
  expect(calls).toEqual([4, 1]);
  expect(leases.map(({ renewals }) => renewals)).toEqual([1, 0, 0, 0]);
});

it.each(['MOVED 1 127.0.0.1:7001', 'TRYAGAIN Multiple keys request during rehashing of slot'])(
  'a renewal that meets a moving slot is reported only if the next attempt fails, too, and then once (%s)',
  async (words) => {
    let failuresLeft = 1;
    refuse = () => (failuresLeft-- > 0 ? replyError(words) : undefined);
    const [lease] = watch(1);
    await vi.advanceTimersByTimeAsync(ROUND_MS + 5_000);
    expect(lease!.renewals).toBe(1);
    expect(failed).not.toHaveBeenCalled();
    failuresLeft = 3;
    await vi.advanceTimersByTimeAsync(ROUND_MS + 5_000);
    expect(lease!.renewals).toBe(2);
    expect(failed).toHaveBeenCalledOnce();
  },
);
