// For how long a master must have been up for its vote to count: one that restarted may have forgotten a lock, and must not
// vote before every lease that it may have forgotten is over.
//
// Nobody knows the leases of all others. So each master remembers the longest that it was asked for and tells it with its
// answer, and the guard is the longest that is told. For leases of up to `MAX_UNHEARD_LEASE_MS` that is safe as long as no
// majority of the masters restarts within that time:
//
//   Suppose that A relies on the lock, as a majority confirmed its lease, and that a majority votes for B. The two share a
//   master. It has forgotten A, so it has restarted within A's lease. Had any master of A's majority answered B that has not
//   restarted since, then it would have told A's lease; so the guard would be at least that, and the vote of the shared
//   master would not count. Hence A's majority are masters that did not answer B, and such that restarted. Where these
//   together are no majority, that is impossible. So it is where all have answered, since then a majority would have
//   restarted. Anywhere else the vote of a master does not count until it has been up for longer than A's lease, whatever that is.
//
// In short: a master that restarted does not make up for one that does not answer. Where a majority did restart, nothing
// follows, and the longest lease that is told has to do; otherwise a new set of masters, one of which is down, would be of no
// use for long. (That its connection is young does not mean that a master restarted: who may not ask masters for their age waits.) A
// longer lease, of up to a day, is safe as long as a master answers that was asked for it and has not restarted. (Masters that have been up
// for a day decide an election without waiting for the others' answers.)
//
// (A's question must not reach a master only after that answered B, when another has already voted for A and restarted: it
// would have to be on its way for longer than B's own guard, and A would have to wait for the answer for as long.)

import type { NodeAnswer } from '../../api/errors.js';

/** What is known of one master in an election. */
interface NodeUptime {
  /** For how long it has been up at least, in milliseconds; Infinity where that is not known. */
  readonly upMs: number;
  /** Whether it has told that itself; otherwise it has been connected for that long, and may have been up for far longer. */
  readonly isAgeTold: boolean;
  /** The longest lease that it told of, in milliseconds; undefined: it did not answer. */
  readonly toldMs: number | undefined;
}

/** For how long a master must have been up, in milliseconds, and whether it is less as soon as all masters answer. */
export interface RequiredUptime {
  readonly upMs: number;
  readonly waitsForOthers: boolean;
}

export interface RestartGuard {
  /** A master that has been up for less is not even asked; in milliseconds. */
  readonly leastMs: number;
  /** A master that has been up for as long has forgotten nothing that counts, whatever the others would tell; in milliseconds. */
  readonly mostMs: number;
  /**
   * For how long a master must have been up for its vote, or a token written to it, to count, after these answers. `isFinal`: there will be
   * no more.
   */
  require(uptimes: readonly NodeUptime[], quorum: number, isFinal: boolean): RequiredUptime;
}

/** Leases of up to this many milliseconds are safe whichever masters do not answer. */
export const MAX_UNHEARD_LEASE_MS: number = 10 * 60 * 1_000;

/** A master that has been up for as long has forgotten nothing: its vote counts before all others have answered. */
const LONG_UP_MS = 24 * 60 * 60 * 1_000;

/** What is said of a master that does not count so far; undefined: it does, since `votesInMs` is over. */
export function guarded(
  node: string,
  votesInMs: number,
  waitsForOthers: boolean,
): NodeAnswer | undefined {
  if (votesInMs <= 0) return undefined;
  return { node, answer: 'guarded', votesInMs: Math.ceil(votesInMs), waitsForOthers };
}

/** A guard that the user has chosen. */
export function fixedGuard(guardMs: number): RestartGuard {
  const requirement = { upMs: guardMs, waitsForOthers: false };
  return { leastMs: guardMs, mostMs: guardMs, require: () => requirement };
}

/** A guard of at least `leastMs` that learns from the masters. */
export function learningGuard(leastMs: number): RestartGuard {
  return {
    leastMs,
    mostMs: Math.max(leastMs, MAX_UNHEARD_LEASE_MS),
    require: (uptimes, quorum, isFinal) => {
      const told = uptimes.flatMap(({ toldMs }) => toldMs ?? []);
      const longestMs = Math.max(leastMs, ...told);
      if (!isFinal) return { upMs: Math.max(longestMs, LONG_UP_MS), waitsForOthers: true };
      const waitsForOthers = longestMs < MAX_UNHEARD_LEASE_MS && mayBeUnheard(uptimes, quorum);
      return { upMs: waitsForOthers ? MAX_UNHEARD_LEASE_MS : longestMs, waitsForOthers };
    },
  };
}

/** Whether somebody may have the lock by a majority of masters that did not answer or restarted, so that none of them told the lease. */
function mayBeUnheard(uptimes: readonly NodeUptime[], quorum: number): boolean {
  const silent = uptimes.filter(({ toldMs }) => toldMs === undefined);
  const restarted = uptimes.filter(({ upMs }) => upMs < MAX_UNHEARD_LEASE_MS);
  const knownToHave = restarted.filter(({ isAgeTold }) => isAgeTold);
  if (silent.length === 0 || knownToHave.length >= quorum) return false;
  const forgetful = restarted.filter(({ toldMs }) => toldMs !== undefined);
  return silent.length + forgetful.length >= quorum;
}
