// Fenced Redlocks over masters whose clocks differ, that restart empty and lose messages: each holder's token is larger than all before.
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { FencedHold, FencedLock } from '../../../src/index.js';
import { pass, playOut, RedOracle } from '../../support/red-oracle.js';
import {
  SimulatedMaster,
  simulatedFencedRedLock,
  type Delays,
  type TokenRules,
} from '../../support/red-simulation.js';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

/** Longer than any lease, and longer than clocks differ. */
const GUARD_MS = 1_200;

/** For how long a scenario goes on. */
const DURATION_MS = 6_000;

interface Contender {
  readonly startAtMs: number;
  readonly leaseMs: number;
  readonly workMs: number;
  readonly releases: boolean;
  /** When which masters cannot be reached. */
  readonly cuts: readonly { master: number; fromMs: number; forMs: number }[];
}

interface Scenario {
  readonly count: number;
  readonly clocksAheadMs: readonly number[];
  readonly contenders: readonly Contender[];
  /** How long after the one before; then the next one is guarded no more. */
  readonly restarts: readonly { which: number; afterMs: number }[];
  readonly delays: readonly Delays[];
}

/** Mostly short; now and then long enough for others to come and go meanwhile. */
const delay = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 0, max: 4 }) },
  { weight: 1, arbitrary: fc.integer({ min: 20, max: 90 }) },
);

const contender: fc.Arbitrary<Contender> = fc.record({
  startAtMs: fc.integer({ min: 0, max: 100 }),
  leaseMs: fc.integer({ min: 50, max: 400 }),
  workMs: fc.integer({ min: 0, max: 30 }),
  releases: fc.boolean(),
  cuts: fc.array(
    fc.record({
      master: fc.nat({ max: 4 }),
      fromMs: fc.integer({ min: 0, max: DURATION_MS }),
      forMs: fc.integer({ min: 5, max: 500 }),
    }),
    { maxLength: 6 },
  ),
});

const scenario: fc.Arbitrary<Scenario> = fc.record({
  count: fc.constantFrom(3, 5),
  clocksAheadMs: fc.array(fc.integer({ min: 0, max: 1_000 }), { minLength: 5, maxLength: 5 }),
  contenders: fc.array(contender, { minLength: 2, maxLength: 4 }),
  restarts: fc.array(
    fc.record({ which: fc.nat({ max: 4 }), afterMs: fc.integer({ min: 0, max: 400 }) }),
    { maxLength: 4 },
  ),
  delays: fc.array(fc.record({ upMs: delay, downMs: delay }), { minLength: 1, maxLength: 40 }),
});

/** The tokens of all holders, in the order in which they began. */
async function play(
  given: Scenario,
  rules?: TokenRules,
  prepare?: (masters: readonly SimulatedMaster[]) => void,
): Promise<readonly bigint[]> {
  vi.clearAllTimers();
  const startedAtMs = performance.now();
  const masters = Array.from({ length: given.count }, (_, index) => {
    const master = new SimulatedMaster();
    master.clockAheadMs = given.clocksAheadMs[index]!;
    if (rules) master.rules = rules;
    return master;
  });
  prepare?.(masters);
  let command = 0;
  const tokens: bigint[] = [];
  const contenders = new AbortController();
  const { signal } = contenders;
  for (const [index, each] of given.contenders.entries()) {
    const { lock, events } = simulatedFencedRedLock(masters, {
      clientId: `client-${index}`,
      lockWatchdogTimeout: 300,
      nodeTimeout: 100,
      restartGuard: GUARD_MS,
      delays: () => given.delays[command++ % given.delays.length]!,
      reaches: (master) => {
        const nowMs = performance.now() - startedAtMs;
        return !each.cuts.some(
          (cut) => cut.master === master && nowMs >= cut.fromMs && nowMs < cut.fromMs + cut.forMs,
        );
      },
    });
    events.on('error', () => undefined);
    void (async () => {
      await pass(each.startAtMs);
      while (!signal.aborted) {
        const hold = await lock.acquire({ lease: each.leaseMs, signal }).catch(() => undefined);
        if (!hold) continue;
        tokens.push(hold.token);
        await pass(each.workMs);
        if (each.releases) await hold.release().catch(() => undefined);
        else await pass(hold.remaining());
      }
    })();
  }
  void (async () => {
    for (const { which, afterMs } of given.restarts) {
      await pass(GUARD_MS + afterMs);
      masters[which % masters.length]!.restart();
    }
  })();
  await playOut(new RedOracle(), contenders, DURATION_MS, 50);
  return tokens;
}

function expectGrowing(tokens: readonly bigint[]): void {
  const wrong = tokens.filter((token, index) => index > 0 && token <= tokens[index - 1]!);
  expect(wrong).toEqual([]);
}

it('whatever is slow, cut off, or restarts empty, tokens grow from holder to holder', async () => {
  let holders = 0;
  await fc.assert(
    fc.asyncProperty(scenario, async (given) => {
      const tokens = await play(given);
      holders += tokens.length;
      expectGrowing(tokens);
    }),
    { numRuns: 25 },
  );
  expect(holders).toBeGreaterThan(250);
}, 120_000);

const NOT_WRITTEN_BACK: TokenRules['raised'] = (last) => ({ last, answer: undefined });

it.each<[string, TokenRules]>([
  ['are not written back', { voted: (last) => last, raised: NOT_WRITTEN_BACK }],
  [
    'are kept by each voter, and not written back',
    { voted: (_, token) => token, raised: NOT_WRITTEN_BACK },
  ],
])(
  'the same finds tokens that do not grow where they %s',
  async (_, rules) => {
    const property = fc.asyncProperty(scenario, async (given) => {
      expectGrowing(await play(given, rules));
    });
    const { failed } = await fc.check(property, { numRuns: 1_000, endOnFailure: true, seed: 1 });
    expect(failed).toBe(true);
  },
  120_000,
);

const BY_MAXIMUM: TokenRules = {
  voted: (_, token) => token,
  raised: (last, token) => ({ last: token > last ? token : last, answer: undefined }),
};

it('a master that restarts empty when it has voted counts no more, though others have a token that it forgot', async () => {
  // The clock of master 2 is ahead.
  const masters = [0, 0, 500].map((clockAheadMs) =>
    Object.assign(new SimulatedMaster(), { clockAheadMs }),
  );
  const startedAtMs = performance.now();
  const passedMs = (): number => performance.now() - startedAtMs;
  const options = { lockWatchdogTimeout: 1_000, nodeTimeout: 100, restartGuard: GUARD_MS };
  const firstAfter = (slow: number, ms: number): ((master: number) => Delays) => {
    let isFirst = true;
    return (master) => {
      const upMs = master === slow && isFirst ? ms : 0;
      if (upMs > 0) isFirst = false;
      return { upMs, downMs: master === 2 ? 1 : 0 };
    };
  };
  // One has the votes of 0 and 2, and its token on 1 and 2, since it does not reach 0 meanwhile.
  const one = simulatedFencedRedLock(masters, {
    clientId: 'one',
    ...options,
    delays: firstAfter(1, 40),
    reaches: (master) => master !== 0 || passedMs() < 10.5 || passedMs() > 50.5,
  });
  // The other has the vote of 1 from before that, and that of 0 from after it.
  const other = simulatedFencedRedLock(masters, {
    clientId: 'other',
    ...options,
    delays: firstAfter(0, 60),
  });
  const holds: FencedHold[] = [];
  const acquire = async (lock: FencedLock, atMs: number): Promise<void> => {
    await pass(atMs);
    const hold = await lock.acquire({ lease: 1_000 });
    holds.push(hold);
    await pass(2);
    await hold.release().catch(() => undefined); // the master that restarted forgot the lock as well
  };
  const both = [acquire(one.lock, 10), acquire(other.lock, 20)];
  await vi.advanceTimersByTimeAsync(65);
  masters[1]!.restart();
  await vi.advanceTimersByTimeAsync(20_000);
  await Promise.all(both);
  expect(holds.map(({ ownerId }) => ownerId.split(':')[0])).toEqual(['one', 'other']);
  expectGrowing(holds.map(({ token }) => token));
});

it('a master that restarted since the election began counts no more, though it has been up for as long as clocks differ', async () => {
  // The clock of master 2 is ahead, by less than the guard.
  const masters = [0, 0, 40].map((clockAheadMs) =>
    Object.assign(new SimulatedMaster(), { clockAheadMs }),
  );
  const startedAtMs = performance.now();
  const passedMs = (): number => performance.now() - startedAtMs;
  const options = { lockWatchdogTimeout: 5_000, nodeTimeout: 1_000, restartGuard: 50 };
  const firstOf = (slow: number, delays: Delays): ((master: number) => Delays) => {
    let isFirst = true;
    return (master) => {
      if (master !== slow || !isFirst) return { upMs: 0, downMs: master === 2 ? 1 : 0 };
      isFirst = false;
      return delays;
    };
  };
  // One has the votes of 0 and 2, and its token on 1 and 2, since it does not reach 0 meanwhile.
  const one = simulatedFencedRedLock(masters, {
    clientId: 'one',
    ...options,
    delays: firstOf(1, { upMs: 4, downMs: 0 }),
    reaches: (master) => master !== 0 || passedMs() < 10.5 || passedMs() > 13.5,
  });
  // The other has the vote of 1 from before that, and that of 0 from right after it, but hears of it late.
  const other = simulatedFencedRedLock(masters, {
    clientId: 'other',
    ...options,
    delays: firstOf(0, { upMs: 8, downMs: 120 }),
  });
  const holds: FencedHold[] = [];
  const acquire = async (lock: FencedLock, atMs: number): Promise<void> => {
    await pass(atMs);
    const hold = await lock.acquire({ lease: 3_000 });
    holds.push(hold);
    await pass(2);
    await hold.release().catch(() => undefined); // the master that restarted forgot the lock as well
  };
  const both = [acquire(one.lock, 10), acquire(other.lock, 12)];
  await vi.advanceTimersByTimeAsync(25);
  masters[1]!.restart();
  await vi.advanceTimersByTimeAsync(20_000);
  await Promise.all(both);
  expect(holds.map(({ ownerId }) => ownerId.split(':')[0])).toEqual(['one', 'other']);
  expectGrowing(holds.map(({ token }) => token));
});

it('a master whose last token is nearly the largest there can be leaves all others theirs, whatever else happens', async () => {
  const END = 2n ** 53n - 1n;
  let holders = 0;
  const odd = fc.record({ given: scenario, which: fc.nat({ max: 2 }), left: fc.nat({ max: 5 }) });
  await fc.assert(
    fc.asyncProperty(odd, async ({ given, which, left }) => {
      const tokens = await play(given, undefined, (masters) => {
        masters[which]!.lastToken = END - BigInt(left);
      });
      holders += tokens.length;
      expectGrowing(tokens);
      for (const token of tokens) expect(token).toBeLessThan(END / 2n);
    }),
    { numRuns: 15 },
  );
  expect(holders).toBeGreaterThan(100);
}, 120_000);

describe(
  'a holder whose first vote is older than the holder before it',
  { timeout: 60_000 },
  () => {
    /**
     * One has the votes of masters 0 and 1, and the token of 1, whose clock is ahead; it is lost on its way to 0. The other has the vote
     * of 2 from before that, and then that of 0: none of the two knew that token when it voted.
     */
    async function tokensOfBoth(rules?: TokenRules): Promise<bigint[]> {
      const masters = [0, 1_000, 0].map((clockAheadMs) =>
        Object.assign(new SimulatedMaster(), { clockAheadMs }, rules && { rules }),
      );
      const [voteMs, tokenMs] = [10, 12];
      const startedAtMs = performance.now();
      const one = simulatedFencedRedLock(masters, {
        clientId: 'one',
        delays: () => ({ upMs: 1, downMs: 0 }),
        reaches: (master) => master !== 0 || performance.now() < startedAtMs + tokenMs,
      });
      const other = simulatedFencedRedLock(masters, {
        clientId: 'other',
        nodeTimeout: 100,
        delays: (master) => ({ upMs: [60, 500, 0][master]!, downMs: 0 }),
      });
      const later = other.lock.acquire();
      await vi.advanceTimersByTimeAsync(voteMs);
      const earlier = one.lock.acquire({ lease: 30 });
      await vi.advanceTimersByTimeAsync(1_000);
      const holds = [await earlier, await later];
      expect(masters.map(({ holder }) => holder)).toContain(holds[1]!.ownerId);
      void holds[1]!.release();
      await vi.advanceTimersByTimeAsync(20_000);
      return holds.map(({ token }) => token);
    }

    it('has a larger token all the same', async () => {
      expectGrowing(await tokensOfBoth());
    });

    it('would have a smaller one if tokens were written by maximum, and nobody was refused', async () => {
      const [earlier, later] = await tokensOfBoth(BY_MAXIMUM);
      expect(later).toBeLessThan(earlier!);
    });
  },
);
