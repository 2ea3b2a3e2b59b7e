// An acquire or a release that waits to be sent with others, and how many of them become one call of gather.lua.

import type { TimeLimit } from '../../runtime/clock.js';
import type { Argument } from '../../redis/port.js';
import { UnwantedError } from '../../redis/failure.js';
import { hashTag, type LockKeys } from '../../redis/keys.js';
import { scripts, type Script } from '../../redis/scripts.generated.js';
import { NO_FENCING, type Fencing } from './fencing.js';

/** How those who wait are told of a release; empty: they are not. */
export type Publish = 'PUBLISH' | 'SPUBLISH' | '';

export interface GatheredCall {
  readonly keys: LockKeys;
  readonly ownerId: string;
  /** For how long the lock is to be acquired; 0: it is to be released. */
  readonly leaseMs: number;
  readonly fencing: Fencing;
  readonly publish: Publish;
  /** For how long the caller still waits for the answer. */
  readonly limit: TimeLimit;
  /** Turns the script's reply into the caller's answer. */
  readonly read: (reply: unknown) => unknown;
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** Whether the caller still waits; if not, rejects its promise. */
export function isWanted({ limit, reject }: GatheredCall): boolean {
  if (limit.leftMs > 0) return true;
  reject(new UnwantedError());
  return false;
}

/**
 * The limit of a call for several: it is over when the first of them is. A script that the server does not know is then not sent in full,
 * and those who still wait are sent alone.
 */
export function limitOf(calls: readonly GatheredCall[]): TimeLimit {
  return {
    get leftMs() {
      return Math.min(...calls.map(({ limit }) => limit.leftMs));
    },
  };
}

/** Where slots count: groups the calls whose keys are in one slot for sure. Calls for the same lock keep their order. */
export function bySlot(calls: readonly GatheredCall[]): Iterable<GatheredCall[]> {
  const groups = new Map<string, GatheredCall[]>();
  for (const call of calls) {
    const tag = hashTag(call.keys.lock);
    const group = groups.get(tag);
    if (group) group.push(call);
    else groups.set(tag, [call]);
  }
  return groups.values();
}

/** The script that acquires one lock, with its keys and arguments. */
export function acquireScript(
  { lock }: LockKeys,
  ownerId: string,
  leaseMs: number,
  fencing: Fencing,
): { script: Script; keys: string[]; args: Argument[] } {
  const args = [ownerId, leaseMs, ...fencing.args];
  return { script: scripts.acquire, keys: [lock, ...fencing.keys], args };
}

/** The keys that gather.lua takes. */
export function keysFor(calls: readonly GatheredCall[]): string[] {
  return calls.flatMap(({ keys, fencing }) =>
    fencing === NO_FENCING ? keys.lock : [keys.lock, ...fencing.keys],
  );
}

/** What gather.lua takes besides keys: as few arguments as can be, since each costs about as much as its work on the server. */
export function argumentsFor(calls: readonly GatheredCall[]): Argument[] {
  const commonLeaseMs =
    calls.find(({ leaseMs, fencing }) => leaseMs > 0 && fencing === NO_FENCING)?.leaseMs ?? 0;
  // One command for all calls that publish: it depends on the server and, in a cluster, on the hash tag, which these calls share.
  const told = calls.find(({ publish }) => publish !== '');
  const owners: Argument[] = [];
  let kinds = '';
  for (const { ownerId, leaseMs, fencing, publish } of calls) {
    owners.push(ownerId);
    if (leaseMs === 0) kinds += publish === '' ? 'w' : 'r';
    else if (fencing !== NO_FENCING) {
      kinds += 'f';
      owners.push(leaseMs, ...fencing.args);
    } else if (leaseMs === commonLeaseMs) kinds += 'a';
    else {
      kinds += 'o';
      owners.push(leaseMs);
    }
  }
  return [kinds, commonLeaseMs, told?.publish ?? '', ...owners];
}
