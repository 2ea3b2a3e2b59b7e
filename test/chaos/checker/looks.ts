// The answers of the servers: the holder of each lock, and the contents of a semaphore or a read-write lock.
import { grouped } from './history.js';

/** A server's answer about a lock at some instant between `from` and `until`. */
export interface Look {
  readonly from: number;
  readonly until: number;
  readonly server: number;
  readonly lock: string;
  /** Nobody, or one owner; several for a semaphore or a read-write lock. A lapsed owner is not a holder. */
  readonly holders: readonly Holder[];
  readonly ttlMs: number;
  /** Of a semaphore or a read-write lock that is in use. */
  readonly books?: Books | undefined;
  /** The last fencing token; undefined: none. */
  readonly counter?: bigint | undefined;
}

interface Holder {
  readonly owner: string;
  /** How often it holds the lock; for a semaphore or a read-write lock the number of permits. */
  readonly count: number;
}

/** The answer's entry of this owner, if it was a holder. */
export function heldBy({ holders }: Look, owner: string | undefined): Holder | undefined {
  return holders.find((holder) => holder.owner === owner);
}

/** The answers at which each owner was a holder, with its entries. */
export function looksByOwner(looks: readonly Look[]): Map<string, { look: Look; count: number }[]> {
  const entries = looks.flatMap((look) => look.holders.map((holder) => ({ look, ...holder })));
  return grouped(entries, ({ owner }) => owner);
}

// The contents of a semaphore or a read-write lock: the owners of permits, their ends, how many are in use, and the next in line.

/** The replies to: HGETALL of the lock, TIME, ZRANGE of its leases, ZRANGE of the first in line, HGETALL of the places. */
export type Ledger = readonly [
  fields: Readonly<Record<string, string>>,
  time: readonly [seconds: string, microseconds: string],
  leases: readonly string[],
  first: readonly string[],
  places: Readonly<Record<string, string>>,
];

export interface Books {
  readonly capacity: number;
  /** How many permits the counter says are in use; includes those of lapsed holders. */
  readonly used: number;
  /** A contradiction; undefined: none. */
  readonly mistake: string | undefined;
  /** The next to be let in. */
  readonly first: Holder | undefined;
}

/** The holders whose leases last. Holders are in both keys, and if either is missing there are none. */
export function liveHolders([fields, [seconds, microseconds], leases]: Ledger): Holder[] {
  const nowMs = Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
  return pairs(leases)
    .filter(([owner, endsAtMs]) => owner in fields && Number(endsAtMs) > nowMs)
    .map(([owner]) => ({ owner, count: weightOf(fields[owner]!) }));
}

/** undefined: one of the keys is missing, so the other one does not count. */
export function booksOf([fields, , leases, [next], places]: Ledger): Books | undefined {
  const { capacity, used, ...weights } = fields;
  if (capacity === undefined || used === undefined) return undefined;
  if (leases.length === 0 && Object.keys(weights).length > 0) return undefined;
  const owners = Object.keys(weights);
  const sum = owners.reduce((total, owner) => total + weightOf(weights[owner]!), 0);
  const leased = new Set(pairs(leases).map(([owner]) => owner));
  const without = owners.find((owner) => !leased.has(owner));
  const beyond = [...leased].find((owner) => !(owner in weights));
  const mistake =
    sum !== Number(used)
      ? `${used} permits were in use, and its holders had ${sum}`
      : without !== undefined
        ? `${without} held permits without a lease`
        : beyond !== undefined
          ? `${beyond} had a lease without permits`
          : undefined;
  const wants = next === undefined ? undefined : /^w(\d+) /.exec(places[next] ?? '')?.[1];
  const first = wants === undefined ? undefined : { owner: next!, count: Number(wants) };
  return { capacity: Number(capacity), used: Number(used), mistake, first };
}

/** With a "?" at the end while a hand-over is not confirmed. */
function weightOf(field: string): number {
  return Number.parseInt(field, 10);
}

function pairs(flat: readonly string[]): [string, string][] {
  return Array.from({ length: flat.length / 2 }, (_, i) => [flat[2 * i]!, flat[2 * i + 1]!]);
}
