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
  /** undefined: none was given, or it is forgotten. */
  last(): Promise<bigint | undefined>;
  /**
   * Makes it the last one there. Returns undefined when it was larger than the last one; otherwise that, and nothing is changed.
   *
   * @param limit - how long its caller will wait
   */
  raise(token: bigint, limit?: TimeLimit): Promise<bigint | undefined>;
}

export function readVote(reply: unknown): VoteReply {
  const [longestLeaseMs, text, holderTtlMs] = reply as [number, string?, number?];
  if (text === undefined) return { reply: { outcome: 'acquired' }, longestLeaseMs };
  if (holderTtlMs === undefined)
    return { reply: { outcome: 'acquired', token: BigInt(text) }, longestLeaseMs };
  return { reply: { outcome: 'held', holder: text, holderTtlMs }, longestLeaseMs };
}
