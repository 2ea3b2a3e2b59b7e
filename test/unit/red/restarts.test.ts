// Masters that restart empty, holders that are cut off, and leases that others do not know of: with the default guard never two
// who may rely on a Redlock.
import fc from 'fast-check';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Hold } from '../../../src/api/lock.js';
import {
  fixedGuard,
  learningGuard,
  type RestartGuard,
} from '../../../src/locks/redlock/restart-guard.js';
import { pass, playOut, RedOracle, work } from '../../support/red-oracle.js';
import { SimulatedMaster, simulatedRedLock } from '../../support/red-simulation.js';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

interface Contender {
  /** Also the least guard. */
  readonly lockWatchdogTimeout: number;
  /** undefined: the watchdog's. */
  readonly leaseMs: number | undefined;
  readonly extendMs: number | undefined;
  readonly startAtMs: number;
  readonly workMs: number;
  readonly releases: boolean;
  /** When which masters cannot be reached. */
  readonly cuts: readonly { masters: readonly number[]; fromMs: number; forMs: number }[];
}

interface Scenario {
  readonly count: number;
  readonly contenders: readonly Contender[];
  /** Fewer than a majority of all masters, each perhaps several times. */
  readonly restarts: readonly { which: number; atMs: number }[];
  readonly delays: readonly number[];
}

/** For how long a scenario goes on, in milliseconds. */
const DURATION_MS = 6_000;

const minority = fc.uniqueArray(fc.nat({ max: 4 }), { maxLength: 2 });

/** Keeps it for long, by masters that it may soon not reach any more. */
const holder: fc.Arbitrary<Contender> = fc.record({
  lockWatchdogTimeout: fc.constantFrom(200, 3_000),
  leaseMs: fc.option(fc.integer({ min: 500, max: 4_000 }), { nil: undefined }),
  extendMs: fc.option(fc.integer({ min: 500, max: 4_000 }), { nil: undefined, freq: 3 }),
  startAtMs: fc.constant(0),
  workMs: fc.constant(DURATION_MS),
  releases: fc.constant(false),
  cuts: fc
    .record({ before: minority, cutOffAtMs: fc.integer({ min: 100, max: 1_500 }) })
    .map(({ before, cutOffAtMs }) => [
      { masters: before, fromMs: 0, forMs: cutOffAtMs },
      { masters: [0, 1, 2, 3, 4], fromMs: cutOffAtMs, forMs: DURATION_MS },
    ]),
});

/** Comes and goes, and knows of short leases only. */
const other: fc.Arbitrary<Contender> = fc.record({
  lockWatchdogTimeout: fc.constantFrom(100, 300),
  leaseMs: fc.option(fc.integer({ min: 50, max: 500 }), { nil: undefined }),
  extendMs: fc.option(fc.integer({ min: 50, max: 500 }), { nil: undefined, freq: 3 }),
  startAtMs: fc.integer({ min: 50, max: 2_000 }),
  workMs: fc.integer({ min: 0, max: 500 }),
  releases: fc.boolean(),
  cuts: fc.array(
    fc.record({
      masters: minority,
      fromMs: fc.constantFrom(0, 1_000),
      forMs: fc.constantFrom(500, DURATION_MS),
    }),
    { maxLength: 2 },
  ),
});

const scenario: fc.Arbitrary<Scenario> = fc.record({
  count: fc.constantFrom(3, 5),
  contenders: fc
    .tuple(holder, fc.array(other, { minLength: 1, maxLength: 3 }))
    .map(([first, others]) => [first, ...others]),
  restarts: fc.array(
    fc.record({ which: fc.nat({ max: 1 }), atMs: fc.integer({ min: 300, max: 2_500 }) }),
    { minLength: 1, maxLength: 4 },
  ),
  delays: fc.array(fc.integer({ min: 0, max: 8 }), { minLength: 1, maxLength: 20 }),
});

type MakeGuard = (longestLeaseMs: number) => RestartGuard;

async function play(given: Scenario, guard: MakeGuard): Promise<RedOracle> {
  vi.clearAllTimers();
  const startedAtMs = performance.now();
  const masters = Array.from({ length: given.count }, () => new SimulatedMaster());
  const oracle = new RedOracle();
  let command = 0;
  const delayMs = (): number => given.delays[command++ % given.delays.length]!;
  const contenders = new AbortController();
  const { signal } = contenders;
  for (const [index, each] of given.contenders.entries()) {
    const { lock } = simulatedRedLock(masters, {
      clientId: `client-${index}`,
      lockWatchdogTimeout: each.lockWatchdogTimeout,
      nodeTimeout: 20,
      guard,
      delays: () => ({ upMs: delayMs(), downMs: delayMs() }),
      reaches: (master) => {
        const nowMs = performance.now() - startedAtMs;
        return !each.cuts.some(
          ({ masters: cut, fromMs, forMs }) =>
            cut.includes(master) && nowMs >= fromMs && nowMs < fromMs + forMs,
        );
      },
    });
    void (async () => {
      await pass(each.startAtMs);
      for (let round = 0; !signal.aborted; round++) {
        const lease = each.leaseMs ?? -1;
        const hold = await lock.acquire({ lease, signal }).catch(() => undefined);
        if (hold) await use(hold, `client ${index}, round ${round}`, each, oracle);
      }
    })();
  }
  for (const { which, atMs } of given.restarts) {
    // At most one of three, or two of five.
    const index = which % ((given.count - 1) / 2);
    setTimeout(() => {
      masters[index]!.restart();
    }, atMs);
  }
  return await playOut(oracle, contenders, DURATION_MS, 20);
}

async function use(hold: Hold, who: string, each: Contender, oracle: RedOracle): Promise<void> {
  const end = await work(hold, who, each, oracle);
  if (!each.releases) await pass(each.workMs); // who is slow
  end(); // whoever releases relies on it no longer
  await hold.release().catch(() => undefined);
}

it('whoever is cut off, and whichever master restarts empty, there are never two holders', async () => {
  let begun = 0;
  await fc.assert(
    fc.asyncProperty(scenario, async (given) => {
      const oracle = await play(given, learningGuard);
      begun += oracle.begun;
      expect(oracle.overlaps).toEqual([]);
    }),
    { numRuns: 40 },
  );
  expect(begun).toBeGreaterThan(40);
}, 60_000);

it.each<[string, MakeGuard]>([
  ['knows only the leases of its own client', fixedGuard],
  [
    'hears what is told, but does not mind who is silent',
    (longestLeaseMs) => {
      const learning = learningGuard(longestLeaseMs);
      const heard = ({ toldMs }: { toldMs: number | undefined }): boolean => toldMs !== undefined;
      return {
        ...learning,
        require: (witnesses, ...rest) => learning.require(witnesses.filter(heard), ...rest),
      };
    },
  ],
])(
  'the same finds two holders where the guard %s',
  async (_, guard) => {
    const property = fc.asyncProperty(scenario, async (given) => {
      expect((await play(given, guard)).overlaps).toEqual([]);
    });
    const { failed } = await fc.check(property, { numRuns: 1_000, endOnFailure: true, seed: 1 });
    expect(failed).toBe(true);
  },
  120_000,
);
