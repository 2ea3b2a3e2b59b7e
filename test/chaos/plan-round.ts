// Draws what a round does from its seed. The faults that are drawn know the stage, and the stage knows the plan: so this is no
// part of plan.ts.
import { NEMESES } from './nemeses/all.js';
import { STEPS_SERVER_CLOCK } from './nemeses/processes.js';
import {
  LONG,
  paceMs,
  type Fencing,
  type Kind,
  type Plan,
  type PlannedFault,
  type PlanWishes,
  type Topology,
} from './plan.js';
import { Random } from './random.js';
import type { Nemesis } from './stage/stage.js';

export function planRound(kind: Kind, seed: number, wishes: PlanWishes = {}): Plan {
  const random = new Random(seed, kind);
  const drawn = drawnTopology(kind, random);
  const topology = wishes.topology && kind !== 'red' ? wishes.topology : drawn;
  const isLong = hasLongLeases(seed, wishes);
  const leaseMs = random.whole(...leasesMs(kind, isLong));
  const watchdogMs = isLong ? LONG * leaseMs : leaseMs;
  const phases = {
    // Masters that were started do not vote before the leases are over that they may have forgotten.
    startMs: 1_500 + (isLong && kind === 'red' ? watchdogMs : 0),
    faultsMs: wishes.faultsMs ?? 15_000,
    // What is healed needs some time to be well again: then there must be some left in which nothing excuses anything.
    calmMs: isLong ? LONG_CALM_MS : 3_500 + 2 * watchdogMs,
  };
  const lockCount = kind === 'multi' ? random.whole(2, 4) : random.whole(1, 3);
  const fenced = fencedMasters({ kind, seed, watchdogMs }, wishes);
  const hasTokens = kind === 'fenced' || fenced.fencing !== undefined;
  const possible = NEMESES.filter(
    ({ name, kinds, topologies, isOfTokens, whenLong }) =>
      (isLong ? whenLong !== undefined : whenLong !== 'only') &&
      (wishes.nemeses?.includes(name) ?? true) &&
      (kinds?.includes(kind) ?? true) &&
      (topologies?.includes(topology) ?? true) &&
      (!isOfTokens || hasTokens),
  );
  const plan = {
    ...fenced,
    kind,
    seed,
    topology,
    masters: random.chance(0.5) ? 3 : 5,
    isDurable: random.chance(0.4),
    locks: random.some(NAMES, lockCount),
    workers: random.whole(2, kind === 'kept' ? 3 : 4),
    clientsPerWorker: kind === 'exported' ? 2 : random.whole(1, 2),
    callersPerClient: kind === 'kept' ? random.whole(1, 2) : random.whole(2, 4), // who is in the way of others keeps nothing
    watchdogMs,
    commandTimeoutMs: Math.round(watchdogMs * random.between(0.3, 1.5)),
    nodeTimeoutMs: Math.round(watchdogMs * random.between(0.1, 0.25)),
    phases,
    faults: isLong
      ? planTakings(random, possible, { watchdogMs: leaseMs, phases })
      : planFaults(random, possible, { watchdogMs: leaseMs, phases }),
    ...(isLong && { isLong }),
  };
  if (kind === 'fenced') return { ...plan, fencing: fencing(random, plan) };
  if (kind === 'kept') return { ...plan, keepMs: random.whole(...keepsMs(plan)) };
  if (kind !== 'semaphore') return plan;
  return { ...plan, permits: { declared: random.whole(1, 6), isChanged: random.chance(0.5) } };
}

/** How long leases are, where they are not long. */
function leasesMs(kind: Kind, isLong: boolean): [least: number, most: number] {
  if (isLong) return kind === 'red' ? [600, 700] : [1_000, 1_500];
  return [600, kind === 'kept' ? 2_500 : 1_500];
}

/** A lock may be kept for a ninth of the watchdog's timeout; for much less than that, nobody would use it again in time. */
function keepsMs(plan: Plan): [least: number, most: number] {
  const leaseMs = paceMs(plan);
  return [Math.ceil(leaseMs / 18), Math.floor(leaseMs / 9)];
}

// Rounds in which locks are taken away from their holders: with the usual leases, a renewal would tell them in time whatever else fails to.

/** How many rounds are of this kind. */
const LONG_SHARE = 0.3;
/** Nothing here is measured by how soon all is well again. */
const LONG_CALM_MS = 2_500;

/** Drawn apart from everything else: the plans of other rounds stay what they were. */
function hasLongLeases(seed: number, { isLong, nemeses }: PlanWishes): boolean {
  return isLong ?? (nemeses === undefined && new Random(seed, 'long leases').chance(LONG_SHARE));
}

/** Where a server's clock steps, no token is forgotten by itself: else it could not be told whether one may be smaller. */
function fencing(random: Random, { faults, watchdogMs }: Plan): Fencing {
  const fairShare = random.pick([0, 0.5, 1]);
  const isBrief =
    random.chance(0.5) && !faults.some(({ nemesis }) => nemesis === STEPS_SERVER_CLOCK);
  return { fairShare, tokenTtlMs: isBrief ? watchdogMs : undefined };
}

/** Also such as make keys and channels look odd. */
const NAMES = ['orders', 'account:42', 'a{tag}b', '{ship}ping', 'größe', 'with space', 'x', '}y{'];

function drawnTopology(kind: Kind, random: Random): Topology {
  const drawn = random.weighted([
    { weight: 6, name: 'single' as const },
    { weight: 2, name: 'cluster' as const },
    { weight: 2, name: 'sentinel' as const },
  ]).name;
  return kind === 'red' ? 'masters' : drawn;
}

/** Several faults may be under way at a time: each track has one after the other. */
export function planFaults(
  random: Random,
  possible: readonly Pick<Nemesis, 'name' | 'weight' | 'leases'>[],
  { watchdogMs, phases: { startMs, faultsMs } }: Pick<Plan, 'watchdogMs' | 'phases'>,
  tracks = random.whole(2, 4),
): PlannedFault[] {
  if (possible.length === 0) return [];
  const planned: PlannedFault[] = [];
  for (let track = tracks; track > 0; track--) {
    let atMs = startMs;
    for (;;) {
      atMs += random.between(20, 900);
      const { name, leases } = random.weighted(possible);
      const forMs = watchdogMs * random.between(...leases);
      const fault = {
        nemesis: name,
        atMs,
        forMs,
        target: random.whole(0, 1e6),
        amount: random.next(),
      };
      if (atMs > startMs + faultsMs) break;
      planned.push({ ...fault, forMs: Math.min(forMs, startMs + faultsMs - atMs) });
      atMs += forMs;
    }
  }
  return planned.sort((one, other) => one.atMs - other.atMs);
}

/** Locks are taken away, and in half of these rounds something else goes wrong as well: whose connections are down is not told. */
function planTakings(
  random: Random,
  possible: readonly Nemesis[],
  plan: Pick<Plan, 'watchdogMs' | 'phases'>,
): PlannedFault[] {
  const takings = possible.filter(({ whenLong }) => whenLong === 'only');
  const others = random.chance(0.5) ? possible.filter(({ whenLong }) => whenLong === 'too') : [];
  return [
    ...planFaults(random, takings, plan, random.whole(2, 3)),
    ...planFaults(random, others, plan, 1),
  ].sort((one, other) => one.atMs - other.atMs);
}

// Redlocks that give tokens, in some of the rounds over several masters: their clocks differ then, but by less than the restart guard.

/** How many of these rounds have tokens. */
const SHARE = 0.4;
/** Of the shortest guard that there is: a lease of the watchdog's. */
const MOST_AHEAD = 0.6;
const MOST_MASTERS = 5;

/** Drawn apart from everything else: the plans of rounds without tokens stay what they were. */
function fencedMasters(
  { kind, seed, watchdogMs }: Pick<Plan, 'kind' | 'seed' | 'watchdogMs'>,
  { isFenced }: PlanWishes,
): Pick<Plan, 'fencing' | 'clocksAheadMs'> {
  const random = new Random(seed, 'fenced masters');
  const isDrawn = random.chance(SHARE);
  if (kind !== 'red' || !(isFenced ?? isDrawn)) return {};
  const clocksAheadMs = Array.from({ length: MOST_MASTERS }, () =>
    Math.round(random.between(0, MOST_AHEAD * watchdogMs)),
  );
  return { fencing: { fairShare: 0, tokenTtlMs: undefined }, clocksAheadMs };
}
