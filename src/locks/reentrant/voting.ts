// What one master answers to somebody who wants its vote for a Redlock, and what becomes of its fencing tokens there.

import type { AcquireReply } from '../../core/replies.js';
import type { TimeLimit } from '../../runtime/clock.js';

export interface VoteReply {
  /** Of a fenced lock, with a token: no holder that this master knows of had one so large. Not given out so far. */
  readonly reply: AcquireReply;
  /** The longest lease that was asked of it for this lock and may not be over, before this vote; 0: none that it knows of. */
  readonly longestLeaseMs: number;
}

/** The last fencing token of a lock on one server. */
export interface LastToken {
  /** Where it is. */
  readonly key: string;
  /** undefined: none was given, or it is forgotten. */
  last(): Promise<bigint | undefined>;
  /**
   * Makes it the last one there. Returns undefined when it was larger than the last one; otherwise that, and nothing is changed.
   *
   * @param limit - how long its caller will wait
   */
  raise(token: bigint, limit?: TimeLimit): Promise<bigint | undefined>;
}

/** The scripts count in numbers, which are exact up to 2^53, and go no further. */
export const LARGEST_TOKEN: bigint = 2n ** 53n - 1n;

/** As many as there are microseconds in twelve days. */
const LAST_FEW = 2n ** 40n;

/** Whether there are so few tokens after it that no clock can be meant: they last until the year 2255. */
export function isNearTheEnd(token: bigint): boolean {
  return token > LARGEST_TOKEN - LAST_FEW;
}

export function readVote(reply: unknown): VoteReply {
  const [longestLeaseMs, text, holderTtlMs] = reply as [number, string?, number?];
  if (text === undefined) return { reply: { outcome: 'acquired' }, longestLeaseMs };
  if (holderTtlMs === undefined)
    return { reply: { outcome: 'acquired', token: BigInt(text) }, longestLeaseMs };
  return { reply: { outcome: 'held', holder: text, holderTtlMs }, longestLeaseMs };
}
