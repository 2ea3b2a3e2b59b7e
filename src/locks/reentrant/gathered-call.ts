// An acquire or a release that waits to be sent with others, and what many of them are to gather.lua.

import type { TimeLimit } from '../../runtime/clock.js';
import type { Argument } from '../../redis/driver.js';
import { UnsentError } from '../../redis/failure.js';
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
  /** How long anybody is interested. */
  readonly limit: TimeLimit;
  /** What its script answers, in the caller's words. */
  readonly read: (reply: unknown) => unknown;
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** Whether anybody still is interested; whoever is not any more is answered. */
export function isWanted({ limit, reject }: GatheredCall): boolean {
  if (limit.leftMs > 0) return true;
  reject(new UnsentError('nobody waits for it any more'));
  return false;
}

/** Over as soon as any of them has given up: the others are sent without it then, should the script have to be sent in full. */
export function limitOf(calls: readonly GatheredCall[]): TimeLimit {
  return {
    get leftMs() {
      return Math.min(...calls.map(({ limit }) => limit.leftMs));
    },
  };
}

/** In a cluster keys go together that are in one slot for sure. (Calls for the same lock keep their order.) */
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

/** What acquires one lock. */
export function acquireScript(
  { lock }: LockKeys,
  ownerId: string,
  leaseMs: number,
  fencing: Fencing,
): { script: Script; keys: string[]; args: Argument[] } {
  if (fencing === NO_FENCING)
    return { script: scripts.acquire, keys: [lock], args: [ownerId, leaseMs] };
  const args = [ownerId, leaseMs, ...fencing.args];
  return { script: scripts.acquireFenced, keys: [lock, ...fencing.keys], args };
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
  // The same for all that are told: what else than a server's kind it depends on is in the name's hash tag.
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
