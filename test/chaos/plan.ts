// What a round does, as far as a seed can say it: who works on what, and which faults happen when. The timing of what
// follows from it is the machine's.
import { fencedMasters } from './fenced-masters.js';
import { NEMESES } from './nemeses/all.js';
import { STEPS_SERVER_CLOCK } from './nemeses/clock.js';
import type { Nemesis } from './nemeses/nemesis.js';
import { Random } from './random.js';

export const KINDS = [
  'reentrant',
  'fair',
  'mixed',
  'fenced',
  'multi',
  'red',
  'semaphore',
  'read-write',
] as const;
/** Which locks a round is about; `mixed`: reentrant and fair ones of the same names; `fenced`: both, or one of them, with tokens. */
export type Kind = (typeof KINDS)[number];

export const TOPOLOGIES = ['single', 'sentinel', 'cluster', 'masters'] as const;
/** What servers there are; `masters`: independent ones, for Redlocks. */
export type Topology = (typeof TOPOLOGIES)[number];

export interface PlannedFault {
  readonly nemesis: string;
  readonly atMs: number;
  readonly forMs: number;
  /** Which worker, client or server it is about, modulo how many there are. */
  readonly target: number;
  /** How much of it, from 0 to 1. */
  readonly amount: number;
}

/** How locks give tokens. */
export interface Fencing {
  /** How many of them are fair, from 0 to 1. */
  readonly fairShare: number;
  /** How long a token is remembered; undefined: as long as by default. */
  readonly tokenTtlMs: number | undefined;
}

/** How many may be inside of a semaphore. */
export interface Permits {
  readonly declared: number;
  /** Whether callers set other numbers now and then. */
  readonly isChanged: boolean;
}

export interface Plan {
  readonly kind: Kind;
  readonly seed: number;
  readonly topology: Topology;
  readonly masters: number;
  /** By how much the clock of each master is ahead; undefined: none is. */
  readonly clocksAheadMs?: readonly number[];
  /** Whether servers write everything to disk before they answer, and so lose nothing when they are killed. */
  readonly isDurable: boolean;
  readonly locks: readonly string[];
  readonly workers: number;
  readonly clientsPerWorker: number;
  readonly callersPerClient: number;
  readonly watchdogMs: number;
  readonly commandTimeoutMs: number;
  /** How long one master of a Redlock may take. */
  readonly nodeTimeoutMs: number;
  /** How long nothing happens at first, then how long faults begin, then how long nothing happens any more. */
  readonly phases: { readonly startMs: number; readonly faultsMs: number; readonly calmMs: number };
  readonly faults: readonly PlannedFault[];
  /** undefined: they give none. */
  readonly fencing?: Fencing;
  /** Of semaphores. */
  readonly permits?: Permits;
}

export interface PlanWishes {
  /** Whether Redlocks give tokens; by default some do. */
  readonly isFenced?: boolean | undefined;
  readonly topology?: Topology | undefined;
  readonly faultsMs?: number | undefined;
  /** Only these faults. */
  readonly nemeses?: readonly string[] | undefined;
}

export function planRound(kind: Kind, seed: number, wishes: PlanWishes = {}): Plan {
  const random = new Random(seed, kind);
  const drawn = drawnTopology(kind, random);
  const topology = wishes.topology && kind !== 'red' ? wishes.topology : drawn;
  const watchdogMs = random.whole(600, 1_500);
  const phases = {
    startMs: 1_500,
    faultsMs: wishes.faultsMs ?? 15_000,
    // What is healed needs some time to be well again: then there must be some left in which nothing excuses anything.
    calmMs: 3_500 + 2 * watchdogMs,
  };
  const lockCount = kind === 'multi' ? random.whole(2, 4) : random.whole(1, 3);
  const fenced = fencedMasters({ kind, seed, watchdogMs }, wishes);
  const hasTokens = kind === 'fenced' || fenced.fencing !== undefined;
  const possible = NEMESES.filter(
    ({ name, kinds, topologies, isOfTokens }) =>
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
    workers: random.whole(2, 4),
    clientsPerWorker: random.whole(1, 2),
    callersPerClient: random.whole(2, 4),
    watchdogMs,
    commandTimeoutMs: Math.round(watchdogMs * random.between(0.3, 1.5)),
    nodeTimeoutMs: Math.round(watchdogMs * random.between(0.1, 0.25)),
    phases,
    faults: faults(random, possible, watchdogMs, phases),
  };
  if (kind === 'fenced') return { ...plan, fencing: fencing(random, plan) };
  if (kind !== 'semaphore') return plan;
  return { ...plan, permits: { declared: random.whole(1, 6), isChanged: random.chance(0.5) } };
}

/** Whether a lock has several holders, each with a weight and a lease of its own. */
export function isWeighted({ kind }: Plan): boolean {
  return kind === 'semaphore' || kind === 'read-write';
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
function faults(
  random: Random,
  possible: readonly Nemesis[],
  watchdogMs: number,
  { startMs, faultsMs }: Plan['phases'],
): PlannedFault[] {
  if (possible.length === 0) return [];
  const planned: PlannedFault[] = [];
  for (let track = random.whole(2, 4); track > 0; track--) {
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
