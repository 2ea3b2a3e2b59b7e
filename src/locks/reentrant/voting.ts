// What one master answers when it is asked for its vote for a Redlock, and the last fencing token that it knows.

import type { AcquireReply } from '../../core/replies.js';
import type { TimeLimit } from '../../runtime/clock.js';

export interface VoteReply {
  /**
   * For a fenced lock, `token` is the least that this master asks of the next token: larger than its last one, and no less than its clock.
   * It is only proposed; the write-back gives it out.
   */
  readonly reply: AcquireReply;
  /** The longest lease that this master was asked for before this vote and that may not be over, in milliseconds; 0: it knows of none. */
  readonly longestLeaseMs: number;
}

/** The last fencing token of a lock on one server. */
export interface LastToken {
  /** The key of the last token on the server. */
  readonly key: string;
  /** The last token; undefined: none was given, or it is forgotten. */
  last(): Promise<bigint | undefined>;
  /**
   * Stores `token` and returns undefined if it is larger than the last one; otherwise changes nothing and returns the last one.
   *
   * @param limit - how long its caller will wait
   */
  raise(token: bigint, limit?: TimeLimit): Promise<bigint | undefined>;
}

/** The scripts count in numbers, which are exact up to 2^53, and go no further. */
export const LARGEST_TOKEN: bigint = 2n ** 53n - 1n;

/** The tokens within this distance of the largest are the last few: as many as there are microseconds in twelve days. */
const LAST_FEW = 2n ** 40n;

/** Whether so few tokens come after this one that it cannot come from a clock: by clocks tokens last until the year 2255. */
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
