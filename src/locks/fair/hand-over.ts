// What hand-over.lua answers.

/** As a time to live: the lock is free, and many lapsed places are still in the way. */
export const MORE_TO_DROP = -3;

/** What a hand-over came to. */
export interface HandOver {
  readonly isReleased: boolean;
  /** The time to live of the lock in milliseconds; -1: no expiry, -2: it is free, and nobody is in line. */
  readonly ttlMs: number;
}

interface AnsweredHandOver extends HandOver {
  /** The grant by which the lock was handed over, as its message says it, which may come later, or never. Empty: nobody got the lock. */
  readonly grant: string;
  /** A channel on which publishing was refused; `reason` says why. */
  readonly refused: string | undefined;
  readonly reason: string;
}

export function readHandOver(reply: unknown): AnsweredHandOver {
  const [released, grant, ttlMs, refused, reason = ''] = reply as HandOverReply;
  return { isReleased: released === 1, ttlMs, grant, refused, reason };
}

type HandOverReply = [number, string, number, string?, string?];
