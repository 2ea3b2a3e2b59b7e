// The watchdog: few calls for many leases, retries before the deadline, and no failure that stops the next round.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { KeepReply, Renewable, Renewal, Watched } from '../../../src/core/protocol.js';
import { Schedule } from '../../../src/runtime/schedule.js';
import { LockKeys } from '../../../src/redis/keys.js';
import { now, PROCESS_CLOCK } from '../../../src/runtime/clock.js';
import { Watchdog } from '../../../src/core/watchdog.js';

const LEASE_MS = 30_000;
const ROUND_MS = LEASE_MS / 3;
const RETRY_MS = 250;
const MOST_TURNS = 32;

class FakeLease implements Renewable {
  readonly ownerId: string;
  readonly #isWatched: boolean;
  readonly replies: KeepReply[] = [];
  readonly renewals: Renewal[] = [];
  readonly calls: string[] = [];
  #confirmedAtMs = performance.now();

  constructor(ownerId: string, isWatched = true) {
    this.ownerId = ownerId;
    this.#isWatched = isWatched;
  }

  get isWatched(): boolean {
    return this.#isWatched;
  }

  ageMs(): number {
    return performance.now() - this.#confirmedAtMs;
  }

  checkEnd(): void {
    this.calls.push('deadline');
  }

  serverMayHaveChanged(): void {
    this.calls.push('serverMayHaveChanged');
  }

  renewing(leaseMs: number): void {
    this.calls.push(`renewing by ${leaseMs}`);
  }

  renewed(reply: KeepReply, renewal: Renewal): boolean {
    this.replies.push(reply);
    this.renewals.push(renewal);
    this.#confirmedAtMs = performance.now();
    return reply === 'kept';
  }
}

const renew =
  vi.fn<(batch: readonly Watched<LockKeys>[], leaseMs: number) => Promise<KeepReply[]>>();
const failed = vi.fn();
let batchKey: (keys: LockKeys) => string;
let watchdog: Watchdog;

beforeEach(() => {
  vi.useFakeTimers();
  vi.resetAllMocks();
  renew.mockImplementation((batch) => Promise.resolve(batch.map(() => 'kept')));
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

function watch(count: number, isWatched = true): FakeLease[] {
  return Array.from({ length: count }, (_, index) => {
    const lease = new FakeLease(`me:${String(index)}`, isWatched);
    watchdog.watch(lease, new LockKeys(`lock:${String(index)}`), {
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

it('5,000 leases cost at most 15 calls a round, and each is renewed once a round', async () => {
  const leases = watch(5_000);
  for (let round = 1; round <= 3; round++) {
    await advance(ROUND_MS);
    expect(renew.mock.calls.length).toBeLessThanOrEqual(15 * round);
    expect(leases.every(({ replies }) => replies.length === round)).toBe(true);
  }
});

it('leases that may not share a call have batches of their own', async () => {
  batchKey = ({ lock }) => lock.slice(-1);
  watch(100);
  await advance(ROUND_MS);
  expect(renew).toHaveBeenCalledTimes(10);
});

it('fixed leases are checked, not extended', async () => {
  watch(3, false);
  watch(2);
  await vi.advanceTimersByTimeAsync(ROUND_MS);
  expect(renew.mock.calls.map(([batch, leaseMs]) => [batch.length, leaseMs])).toEqual([
    [2, LEASE_MS],
    [3, 0],
  ]);
});

it('a failed batch is soon sent again until it is answered, and reported once', async () => {
  const [lease] = watch(1);
  renew.mockRejectedValueOnce(new Error('lost')).mockRejectedValueOnce(new Error('lost'));
  await vi.advanceTimersByTimeAsync(ROUND_MS);
  expect(failed).toHaveBeenCalledExactlyOnceWith(expect.any(Error), 1);
  await vi.advanceTimersByTimeAsync(RETRY_MS);
  expect(renew).toHaveBeenCalledTimes(2);
  await vi.advanceTimersByTimeAsync(RETRY_MS);
  expect(lease!.replies).toEqual(['kept']);
  expect(failed).toHaveBeenCalledTimes(1);

  renew.mockRejectedValueOnce(new Error('lost again'));
  await vi.advanceTimersByTimeAsync(ROUND_MS);
  expect(failed).toHaveBeenCalledTimes(2);
});

it('batches that fail in one outage are reported once, and again in the next outage', async () => {
  batchKey = ({ lock }) => lock;
  const leases = watch(60);
  renew.mockRejectedValue(new Error('CLUSTERDOWN'));
  await advance(ROUND_MS + 5 * RETRY_MS);
  watchdog.unwatch(leases[0]!);
  watchdog.unwatch(leases[1]!);
  await advance(5 * RETRY_MS);
  expect(failed).toHaveBeenCalledOnce();

  renew.mockImplementation((batch) => Promise.resolve(batch.map(() => 'kept')));
  await advance(RETRY_MS);
  renew.mockRejectedValue(new Error('CLUSTERDOWN'));
  await advance(ROUND_MS + 5 * RETRY_MS);
  expect(failed).toHaveBeenCalledTimes(2);
});

it('one failing batch does not stop the others, nor the next round', async () => {
  const leases = watch(1_000);
  renew.mockRejectedValueOnce(new Error('lost'));
  await advance(ROUND_MS);
  expect(leases.filter(({ replies }) => replies.length === 1)).toHaveLength(500);
  await advance(ROUND_MS / 2);
  expect(leases.every(({ replies }) => replies.length === 1)).toBe(true);
  await advance(ROUND_MS);
  expect(leases.every(({ replies }) => replies.length >= 2)).toBe(true);
});

it('a lease that is released before its batch is sent is not renewed', async () => {
  const leases = watch(1_500);
  renew.mockImplementation((batch) => {
    for (const lease of leases.slice(700)) watchdog.unwatch(lease);
    return Promise.resolve(batch.map(() => 'kept'));
  });
  await advance(ROUND_MS);
  expect(renew.mock.calls.map(([batch]) => batch.length)).toEqual([500, 200]);
});

it('many batches are sent in about 30 turns of the event loop, and none after the watchdog has stopped', async () => {
  batchKey = ({ lock }) => lock;
  watch(1_000);
  await vi.advanceTimersByTimeAsync(ROUND_MS);
  const inFirstTurns = renew.mock.calls.length;
  expect(inFirstTurns).toBeGreaterThanOrEqual(1_000 / MOST_TURNS);
  expect(inFirstTurns).toBeLessThan(100);
  watchdog.stop();
  await advance(ROUND_MS);
  expect(renew.mock.calls.length).toBe(inFirstTurns);
});

it('when turns of the event loop are long, the rest of a round is sent well before its leases end', async () => {
  batchKey = ({ lock }) => lock;
  watch(100);
  const clock = vi.spyOn(performance, 'now');
  await vi.advanceTimersByTimeAsync(ROUND_MS);
  const sentAtMs = performance.now();
  const before = renew.mock.calls.length;
  clock.mockReturnValue(sentAtMs + ROUND_MS / 10);
  vi.advanceTimersToNextTimer();
  expect(before).toBeLessThan(100);
  expect(renew).toHaveBeenCalledTimes(100);
  clock.mockRestore();
});

it('a lease that is watched anew while unanswered is reported as unanswered once, and again in the next outage', async () => {
  const renewer = { kind: 'place', batchKey: () => '', renew };
  const [place] = watch(1);
  renew.mockRejectedValueOnce(new Error('lost'));
  await advance(ROUND_MS);
  watchdog.watch(place!, new LockKeys('lock:0'), renewer); // its caller continues to wait
  watchdog.unwatch(place!); // … and has gone
  expect(failed).toHaveBeenCalledTimes(1);
  watch(1);
  renew.mockRejectedValueOnce(new Error('lost again'));
  await advance(ROUND_MS);
  expect(failed).toHaveBeenCalledTimes(2);
});

it('a lease that is watched anew while its batch waits to be sent is not renewed after its end', async () => {
  const renewer = { kind: 'place', batchKey: () => '', renew };
  batchKey = ({ lock }) => lock;
  const places = watch(100);
  await vi.advanceTimersByTimeAsync(ROUND_MS);
  const sentCount = renew.mock.calls.length;
  for (const place of places) {
    watchdog.watch(place, new LockKeys('lock'), renewer);
    watchdog.unwatch(place);
  }
  await advance(MOST_TURNS);
  expect(sentCount).toBeLessThan(100);
  expect(renew).toHaveBeenCalledTimes(sentCount);
});

it('a round that never gets an answer does not stop the next one', async () => {
  watch(1);
  renew.mockReturnValueOnce(new Promise(() => undefined));
  await vi.advanceTimersByTimeAsync(2 * ROUND_MS);
  expect(renew).toHaveBeenCalledTimes(2);
});

it('after a blocked event loop the deadline is checked before anything is sent', async () => {
  const [lease] = watch(1);
  await vi.advanceTimersByTimeAsync(ROUND_MS);
  expect(lease!.calls).toEqual(['deadline', `renewing by ${LEASE_MS}`]);
});

it('whether a lease is extended is decided once, even if that changes at the same moment', async () => {
  const [changing] = watch(1);
  vi.spyOn(changing!, 'isWatched', 'get').mockReturnValueOnce(false).mockReturnValue(true);
  await vi.advanceTimersByTimeAsync(ROUND_MS);
  expect(renew).toHaveBeenCalledExactlyOnceWith(expect.anything(), 0);
  expect(changing!.calls).toEqual(['deadline', 'renewing by 0']);
});

it('a renewal counts from before it was sent, however long its answer took', async () => {
  const [lease] = watch(1);
  renew.mockImplementation(async (batch) => {
    await new Promise((resolve) => setTimeout(resolve, 4_000));
    return batch.map(() => 'kept');
  });
  await vi.advanceTimersByTimeAsync(ROUND_MS);
  const sentAt = now(PROCESS_CLOCK);
  await vi.advanceTimersByTimeAsync(4_000);
  const deadline = { since: sentAt, usableMs: expect.any(Number) as number };
  expect(lease!.renewals).toEqual([
    { sentAt, leaseMs: LEASE_MS, deadline, answeredAt: now(PROCESS_CLOCK) },
  ]);
});

it('an answer for a lease that was released meanwhile is dropped', async () => {
  const [lease] = watch(1);
  let answer!: (replies: KeepReply[]) => void;
  renew.mockReturnValueOnce(new Promise((resolve) => (answer = resolve)));
  await vi.advanceTimersByTimeAsync(ROUND_MS);
  watchdog.unwatch(lease!);
  answer(['deleted']);
  await vi.advanceTimersByTimeAsync(0);
  expect(lease!.replies).toEqual([]);
});

it('a lease that was just acquired skips a round, but never waits longer than a round', async () => {
  const [first] = watch(1);
  await vi.advanceTimersByTimeAsync(ROUND_MS * 0.9);
  const [second] = watch(1);
  await vi.advanceTimersByTimeAsync(ROUND_MS * 0.1);
  expect([first!.replies.length, second!.replies.length]).toEqual([1, 0]);
  await vi.advanceTimersByTimeAsync(ROUND_MS);
  expect(second!.replies).toHaveLength(1);
});

it('renewAll() renews every lease at once', async () => {
  const leases = watch(3);
  watchdog.renewAll();
  await vi.advanceTimersByTimeAsync(0);
  expect(leases.every(({ replies }) => replies.length === 1)).toBe(true);
});

it('a lease in doubt is renewed at once, however young, and no other lease is', async () => {
  batchKey = ({ lock }) => lock;
  const [one, two] = watch(2);
  watchdog.doubt((key) => key === 'lock:0');
  await vi.advanceTimersByTimeAsync(0);
  expect([one!.replies, two!.replies]).toEqual([['kept'], []]);
});

it('a lease in doubt is soon sent again while it stays unanswered, on a timer and not at further doubts', async () => {
  const [lease] = watch(1);
  renew.mockImplementation(() => {
    watchdog.doubt(() => true); // the query finds that the server is gone
    return Promise.reject(new Error('lost'));
  });
  watchdog.doubt(() => true);
  await vi.advanceTimersByTimeAsync(0);
  watchdog.doubt(() => true);
  expect(renew).toHaveBeenCalledTimes(1);
  await vi.advanceTimersByTimeAsync(4 * RETRY_MS);
  expect(renew).toHaveBeenCalledTimes(5);
  renew.mockImplementation((batch) => Promise.resolve(batch.map(() => 'deleted')));
  await vi.advanceTimersByTimeAsync(RETRY_MS);
  expect(lease!.replies).toEqual(['deleted']);
  watchdog.doubt(() => true);
  await vi.advanceTimersByTimeAsync(0);
  expect(lease!.replies).toHaveLength(2);
});

it('a lease is notified once of a doubt, after the renewal is answered, and at every new connection', async () => {
  const [lease] = watch(1);
  const told = (): number => lease!.calls.filter((call) => call === 'serverMayHaveChanged').length;
  watchdog.doubt(() => true);
  watchdog.doubt(() => true); // the query may find once more that the server is gone
  expect(told()).toBe(0);
  await vi.advanceTimersByTimeAsync(0);
  expect(told()).toBe(1);
  await vi.advanceTimersByTimeAsync(LEASE_MS);
  expect(told()).toBe(1);
  watchdog.renewAll();
  expect(told()).toBe(2);
});

it('a lease whose renewal stayed unanswered before its server was lost is notified when it is answered', async () => {
  const [lease] = watch(1);
  renew.mockRejectedValueOnce(new Error('CLUSTERDOWN'));
  await vi.advanceTimersByTimeAsync(LEASE_MS / 3);
  watchdog.doubt(() => true);
  expect(lease!.calls).not.toContain('serverMayHaveChanged');
  await vi.advanceTimersByTimeAsync(RETRY_MS);
  expect(lease!.replies).toEqual(['kept']);
  expect(lease!.calls).toContain('serverMayHaveChanged');
});

it('a lease that has ended when it comes into doubt is not renewed', async () => {
  const [lease] = watch(1);
  vi.spyOn(lease!, 'ageMs').mockReturnValue(-1);
  watchdog.doubt(() => true);
  await vi.advanceTimersByTimeAsync(0);
  expect(lease!.calls).toEqual(['deadline']);
  expect(renew).not.toHaveBeenCalled();
});

it('with nothing to watch the timer fires once more at most, and does nothing', () => {
  const leases = watch(3);
  expect(vi.getTimerCount()).toBe(1);
  for (const lease of leases) watchdog.unwatch(lease);
  vi.advanceTimersByTime(LEASE_MS);
  expect(vi.getTimerCount()).toBe(0);
  watchdog.renewAll();
  expect(renew).not.toHaveBeenCalled();
});
