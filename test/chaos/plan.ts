// What a round does, as far as a seed can say it: who works on what, and which faults happen when. The timing of what
// follows from it is the machine's.

export const KINDS = [
  'reentrant',
  'kept',
  'fair',
  'mixed',
  'fenced',
  'exported',
  'multi',
  'red',
  'semaphore',
  'read-write',
] as const;
/**
 * Which locks a round is about; `kept`: reentrant ones that clients keep between their holds, and others of the same names; `mixed`: reentrant
 * and fair ones of the same names; `fenced`: both, or one of them, with tokens; `exported`: like `mixed`, and holds pass from client to client, and from process to process.
 */
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
  /** Whether leases are so long that a holder whose lock is taken away is told of it long before a renewal finds it. */
  readonly isLong?: boolean;
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
  /** For how long a client keeps a lock that it may keep; undefined: none is kept. */
  readonly keepMs?: number;
}

export interface PlanWishes {
  /** Whether Redlocks give tokens; by default some do. */
  readonly isFenced?: boolean | undefined;
  /** Whether leases are long; by default they are in some rounds, unless `nemeses` are given. */
  readonly isLong?: boolean | undefined;
  readonly topology?: Topology | undefined;
  readonly faultsMs?: number | undefined;
  /** Only these faults. */
  readonly nemeses?: readonly string[] | undefined;
}

/** How many times as long leases are where they are long: renewals are seconds apart. */
export const LONG = 10;

/** The lease by which callers and faults measure how long they take. */
export function paceMs({
  watchdogMs,
  isLong,
}: {
  readonly watchdogMs: number;
  readonly isLong?: boolean | undefined;
}): number {
  return isLong ? watchdogMs / LONG : watchdogMs;
}

/** Whether a lock has several holders, each with a weight and a lease of its own. */
export function isWeighted({ kind }: Pick<Plan, 'kind'>): boolean {
  return kind === 'semaphore' || kind === 'read-write';
}
