// A renewal of many leases that is refused as a whole: each is renewed alone then, and none takes the others with it.
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

  renewed(reply: KeepReply): void {
    expect(reply).toBe('kept');
    this.renewals++;
    this.#confirmedAtMs = performance.now();
  }
}

/** The sizes of the calls that were sent. */
let calls: number[];
/** Why a call for these locks fails; undefined: it does not. */
let refuse: (locks: readonly string[]) => Error | undefined;
let batchKey: (keys: LockKeys) => string;
const failed = vi.fn();
let watchdog: Watchdog;

beforeEach(() => {
  vi.useFakeTimers();
  vi.resetAllMocks();
  calls = [];
  batchKey = () => '';
  watchdog = new Watchdog({ schedule: new Schedule(), leaseMs: LEASE_MS, failed });
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

/** Until all batches of a round have been sent and answered: that takes several turns of the event loop. */
async function advance(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
  await vi.advanceTimersByTimeAsync(MOST_TURNS); // one a millisecond, of a fake clock
}

/** Refuses every call that has one of these locks. */
function denied(...names: string[]): (locks: readonly string[]) => Error | undefined {
  return (locks) =>
    locks.some((lock) => names.includes(lock)) ? replyError('NOPERM that key') : undefined;
}

it('one that is refused does not take the others with it, and alone is told, with the reason', async () => {
  refuse = denied('lock:7');
  const leases = watch(500);
  await advance(ROUND_MS);
  expect(leases.filter(({ renewals }) => renewals === 1)).toHaveLength(499);
  expect(leases[7]!.renewals).toBe(0);
  expect(calls).toEqual([500, ...Array<number>(500).fill(1)]);
  expect(failed).toHaveBeenCalledExactlyOnceWith(replyError('NOPERM that key'), 1);
});

it('those that are refused alone are sent again soon, and until they are permitted', async () => {
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

it('all whose keys are in several slots are renewed, and from then on slot by slot', async () => {
  refuse = (locks) => {
    if (locks.length === 1) return undefined;
    batchKey = ({ lock }) => lock; // as a connection that has been told so
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
])('%s is not asked for each of them', async (_, error) => {
  refuse = () => error;
  watch(100);
  await advance(ROUND_MS);
  expect(calls).toEqual([100]);
  expect(failed).toHaveBeenCalledExactlyOnceWith(error, 100);
});

it('a server that refuses each of them is asked for each only now and then, and for all of them soon again', async () => {
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

it('whoever comes to those that were just refused is sent alone without them', async () => {
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

it('of those that were all refused, one that is permitted since is renewed well before its lease ends', async () => {
  refuse = denied('lock:0', 'lock:1');
  const leases = watch(2);
  await advance(ROUND_MS);
  refuse = denied('lock:1');
  await advance(PAUSE_MS + RETRY_MS);
  expect(leases.map(({ renewals }) => renewals)).toEqual([1, 0]);
});

it('what is released while the refusal is on its way is not sent alone', async () => {
  const leases = watch(4);
  refuse = (locks) => {
    if (locks.length > 1) for (const lease of leases.slice(1)) watchdog.unwatch(lease);
    return locks.length > 1 ? replyError('NOPERM') : undefined;
  };
  await advance(ROUND_MS);
  expect(calls).toEqual([4, 1]);
  expect(leases.map(({ renewals }) => renewals)).toEqual([1, 0, 0, 0]);
});
