// The restart guard: how long a master must have been up for its vote to count. A restarted master may have forgotten a lock, and must not
// vote before every lease that it may have forgotten is over.
//
// No client knows the leases of all others. So each master remembers the longest lease requested from it and reports it with its answers,
// and the guard is the longest reported lease. For leases of up to `MAX_UNHEARD_LEASE_MS` that is safe as long as no majority of the
// masters restarts within that time:
//
//   Suppose that A relies on the lock, as a majority confirmed its lease, and that a majority votes for B. The two majorities share a
//   master. It has forgotten A, so it has restarted within A's lease. If any master of A's majority that has not restarted since had
//   answered B, it would have reported A's lease; then the guard would be at least that, and the vote of the shared master would not
//   count. Hence every master of A's majority either did not answer B or has restarted. If such masters are no majority, that is
//   impossible. It is also impossible if all masters have answered, since then a majority would have restarted. In all other cases the
//   vote of a restarted master does not count until it has been up for longer than A's lease, however long that is.
//
// In short: a restarted master cannot stand in for one that does not answer. If a majority did restart, nothing can be concluded, and the
// longest reported lease must do; otherwise a new set of masters, one of them down, would be unusable for long. (A young connection does
// not prove a restart: a client that may not ask masters for their uptime waits.) A longer lease, of up to a day, is safe as long as one
// master answers that was asked for it and has not restarted. (Masters that have been up for a day decide an election without waiting for
// the others' answers.)
//
// (A's request must not reach a master only after that master answered B, while another master has already voted for A and restarted. But
// for that, the request would have to be under way for longer than B's own guard, and A would have to wait for the answer for as long.)

import type { NodeAnswer } from '../../api/errors.js';

/** What is known about one master in an election. */
interface NodeUptime {
  /** Its least possible uptime, in milliseconds; Infinity: unknown. */
  readonly upMs: number;
  /** Whether it reported its uptime itself; otherwise `upMs` is the age of the connection, and it may have been up for far longer. */
  readonly isAgeTold: boolean;
  /** The longest lease that it reported, in milliseconds; undefined: it did not answer. */
  readonly toldMs: number | undefined;
}

/** The required uptime of a master, in milliseconds, and whether it would be shorter if all masters answered. */
export interface RequiredUptime {
  readonly upMs: number;
  readonly waitsForOthers: boolean;
}

export interface RestartGuard {
  /** A master with a shorter uptime is not even asked; in milliseconds. */
  readonly leastMs: number;
  /** A master with this uptime has forgotten nothing that matters, whatever the others would report; in milliseconds. */
  readonly mostMs: number;
  /**
   * After these answers: how long a master must have been up for its vote, or a token written to it, to count. `isFinal`: no more answers
   * will come.
   */
  require(uptimes: readonly NodeUptime[], quorum: number, isFinal: boolean): RequiredUptime;
}

/** Leases of up to this many milliseconds are safe, whichever masters do not answer. */
export const MAX_UNHEARD_LEASE_MS: number = 10 * 60 * 1_000;

/** A master with this uptime, in milliseconds, has forgotten nothing: its vote counts before all others have answered. */
const LONG_UP_MS = 24 * 60 * 60 * 1_000;

/** The answer recorded for a master that does not count yet; undefined: it counts, since `votesInMs` is over. */
export function guarded(
  node: string,
  votesInMs: number,
  waitsForOthers: boolean,
): NodeAnswer | undefined {
  if (votesInMs <= 0) return undefined;
  return { node, answer: 'guarded', votesInMs: Math.ceil(votesInMs), waitsForOthers };
}

/** A guard that the user has set. */
export function fixedGuard(guardMs: number): RestartGuard {
  const requirement = { upMs: guardMs, waitsForOthers: false };
  return { leastMs: guardMs, mostMs: guardMs, require: () => requirement };
}

/** A guard of at least `leastMs` that adapts to the leases that the masters report. */
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

/** Whether an owner may hold the lock by a majority of masters that did not answer or have restarted, so that none reported its lease. */
function mayBeUnheard(uptimes: readonly NodeUptime[], quorum: number): boolean {
  const silent = uptimes.filter(({ toldMs }) => toldMs === undefined);
  const restarted = uptimes.filter(({ upMs }) => upMs < MAX_UNHEARD_LEASE_MS);
  const knownToHave = restarted.filter(({ isAgeTold }) => isAgeTold);
  if (silent.length === 0 || knownToHave.length >= quorum) return false;
  const forgetful = restarted.filter(({ toldMs }) => toldMs !== undefined);
  return silent.length + forgetful.length >= quorum;
}
