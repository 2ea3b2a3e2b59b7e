// Random waits, leases, delays and crashes: at no instant two who may rely on a Redlock.
import fc from 'fast-check';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Hold } from '../../../src/api/lock.js';
import { pass, playOut, RedOracle, work } from '../../support/red-oracle.js';
import { SimulatedMaster, simulatedRedLock } from '../../support/red-simulation.js';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

interface Contender {
  readonly waitMs: number;
  /** undefined: the watchdog's. */
  readonly leaseMs: number | undefined;
  readonly startAtMs: number;
  readonly workMs: number;
  readonly rounds: number;
  readonly extendMs: number | undefined;
  readonly releases: boolean;
}

interface Scenario {
  readonly masterCount: number;
  readonly lockWatchdogTimeout: number;
  readonly nodeTimeout: number;
  /** Delays of the commands, one after another, in percent of the lease: up to twice the lease. */
  readonly delays: readonly { upPercent: number; downPercent: number }[];
  readonly contenders: readonly Contender[];
  readonly restarts: readonly { master: number; afterMs: number }[];
}

const contender: fc.Arbitrary<Contender> = fc.record({
  waitMs: fc.constantFrom(0, 100, 2_000, Infinity),
  leaseMs: fc.option(fc.integer({ min: 20, max: 500 }), { nil: undefined }),
  startAtMs: fc.integer({ min: 0, max: 300 }),
  workMs: fc.integer({ min: 0, max: 900 }),
  rounds: fc.integer({ min: 1, max: 3 }),
  extendMs: fc.option(fc.integer({ min: 20, max: 500 }), { nil: undefined, freq: 3 }),
  releases: fc.boolean(),
});

const scenario: fc.Arbitrary<Scenario> = fc.record({
  masterCount: fc.constantFrom(1, 3, 4, 5),
  lockWatchdogTimeout: fc.constantFrom(100, 300, 500),
  nodeTimeout: fc.constantFrom(5, 50, 400),
  delays: fc.array(
    fc.record({
      upPercent: fc.oneof(
        { weight: 4, arbitrary: fc.constant(1) },
        fc.integer({ max: 200, min: 0 }),
      ),
      downPercent: fc.oneof(
        { weight: 4, arbitrary: fc.constant(1) },
        fc.integer({ max: 200, min: 0 }),
      ),
    }),
    { minLength: 1, maxLength: 40 },
  ),
  contenders: fc.array(contender, { minLength: 2, maxLength: 5 }),
  // Further apart than any lease, as the guard has it: no two masters forget the same holder.
  restarts: fc.array(
    fc.record({ master: fc.nat({ max: 4 }), afterMs: fc.integer({ min: 0, max: 400 }) }),
    { maxLength: 4 },
  ),
});

/** No contender uses a lease that another does not know of. */
const LONGEST_LEASE_MS = 500;

async function play(given: Scenario): Promise<RedOracle> {
  const { lockWatchdogTimeout, nodeTimeout } = given;
  const masters = Array.from({ length: given.masterCount }, () => new SimulatedMaster());
  const oracle = new RedOracle();
  let command = 0;
  const delays = (): { upMs: number; downMs: number } => {
    const { upPercent, downPercent } = given.delays[command++ % given.delays.length]!;
    const percentMs = lockWatchdogTimeout / 100;
    return { upMs: upPercent * percentMs, downMs: downPercent * percentMs };
  };
  const contenders = new AbortController();
  const { signal } = contenders;
  for (const [index, each] of given.contenders.entries()) {
    const { lock } = simulatedRedLock(masters, {
      clientId: `client-${index}`,
      lockWatchdogTimeout,
      nodeTimeout,
      restartGuard: LONGEST_LEASE_MS,
      delays,
    });
    void (async () => {
      await pass(each.startAtMs);
      for (let round = 0; round < each.rounds; round++) {
        const { waitMs: wait, leaseMs: lease } = each;
        const request = { wait, signal, ...(lease !== undefined && { lease }) };
        const hold = await lock.tryAcquire(request).catch(() => undefined);
        if (hold) await use(hold, `client ${index}, round ${round}`, each, oracle);
      }
    })();
  }
  void (async () => {
    for (const { master, afterMs } of given.restarts) {
      await pass(afterMs);
      masters[master % masters.length]!.restart();
      await pass(LONGEST_LEASE_MS);
    }
  })();
  return await playOut(oracle, contenders, 6_000, 5);
}

async function use(hold: Hold, who: string, each: Contender, oracle: RedOracle): Promise<void> {
  const end = await work(hold, who, each, oracle);
  if (each.releases) {
    end(); // whoever releases relies on it no longer
    await hold.release().catch(() => undefined);
    return;
  }
  // One that is forgotten is watched for as long as it is valid, and given up at last.
  await pass(1_000);
  end();
  void hold.release().catch(() => undefined);
}

it('a lock over several masters was granted to several: never two holders for any (wait, lease, delay)', async () => {
  let begun = 0;
  await fc.assert(
    fc.asyncProperty(scenario, async (given) => {
      vi.clearAllTimers();
      const oracle = await play(given);
      begun += oracle.begun;
      expect(oracle.overlaps).toEqual([]);
    }),
    { numRuns: 60 },
  );
  expect(begun).toBeGreaterThan(60);
}, 60_000);
