// When a client leaves a server that turns out to be a replica, for wherever its address leads by then.

import { isReadOnly } from '../failure.js';

/** How often, at the least, it is tried whether the address leads to the master. */
const LONGEST_PAUSE_MS = 5_000;

/** Between two attempts is this part of the time for which they have led to replicas. */
const PART = 0.1;

/**
 * For one client: tells by its errors when it is to connect anew. A master that was replaced is left at once, and again while its name
 * still leads there; an address that is a replica's for good is tried less and less often, since each attempt costs both sides a handshake.
 */
export function leavingReplicas(): (error: Error) => boolean {
  let sinceMs = -Infinity;
  let heardMs = -Infinity;
  let leftMs = -Infinity;
  return (error) => {
    if (!isReadOnly(error)) return false;
    const nowMs = performance.now();
    if (nowMs - heardMs > LONGEST_PAUSE_MS) sinceMs = nowMs; // it was at a master meanwhile, or nobody asked
    heardMs = nowMs;
    if (nowMs - leftMs < Math.min((nowMs - sinceMs) * PART, LONGEST_PAUSE_MS)) return false;
    leftMs = nowMs;
    return true;
  };
}
