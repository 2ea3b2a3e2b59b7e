// What the scripts of a weighted lock answer.

import type { JoinReply } from '../fair/place-lock.js';

/** Why permits can never be had as they were asked for: others declared another capacity, or it is less than what is wanted. */
export interface Refusal {
  readonly why: 'declared' | 'exceeded';
  readonly capacity: number;
}

export function readWeightedJoin(reply: unknown): JoinReply | Refusal {
  if (reply === 1) return { outcome: 'acquired' };
  if (reply === 2) return { outcome: 'handed over' };
  const answer = reply as ['declared' | 'exceeded', number] | [string, number, string];
  if (answer.length === 2) return { why: answer[0], capacity: answer[1] };
  const [holder, holderTtlMs, ticket] = answer;
  return { outcome: 'held', holder, holderTtlMs, ticket };
}

/** As `checkInMs`: call again at once; so many were let in or dropped that others had to be left for another call. */
export const MORE_TO_LET_IN = -3;

/** What a change of one owner's weight or lease came to. */
export interface WeightedHandOver {
  readonly isHeld: boolean;
  /** When somebody in line has to look again, in milliseconds; -1: nobody is left in line, -2: the same, and nobody was let in. */
  readonly checkInMs: number;
  /** Who was let in, `<nonce> <owner>` each; the messages may come later, or never. */
  readonly grants: readonly string[];
  /** A channel on which publishing was refused; `reason` says why. */
  readonly refused: string | undefined;
  readonly reason: string;
}

export function readWeightedHandOver(reply: unknown): WeightedHandOver {
  const [held, checkInMs, grants, refused, reason = ''] = reply as [
    ...[number, number, string[], string?, string?],
  ];
  return { isHeld: held === 1, checkInMs, grants, refused, reason };
}

/** Who holds permits, or waits for them. */
interface Weighed {
  readonly ownerId: string;
  readonly weight: number;
}

/** Who holds permits of a weighted lock, and who waits for them. */
export interface WeightedView {
  readonly capacity: number;
  readonly holders: readonly (Weighed & { readonly endsInMs: number })[];
  readonly waiters: readonly Weighed[];
}

export function readWeightedView(reply: unknown): WeightedView {
  const [capacity, holders, waiters] = reply as [number, (string | number)[], string[]];
  return {
    capacity,
    holders: inGroups(holders, 3).map(([ownerId, weight, endsInMs]) => ({
      ownerId: String(ownerId),
      weight: Number(weight),
      endsInMs: Number(endsInMs),
    })),
    waiters: inGroups(waiters, 2).map(([ownerId, weight]) => ({
      ownerId: String(ownerId),
      weight: Number(weight),
    })),
  };
}

function inGroups<T>(flat: readonly T[], size: number): T[][] {
  const groups: T[][] = [];
  for (let i = 0; i < flat.length; i += size) groups.push(flat.slice(i, i + size));
  return groups;
}

/** The messages in what was published for a client, a JSON array of strings; anybody who may publish may say anything. */
export function messagesIn(payload: string): readonly string[] {
  try {
    const messages: unknown = JSON.parse(payload);
    return Array.isArray(messages) ? messages.filter((message) => typeof message === 'string') : [];
  } catch {
    return [];
  }
}
