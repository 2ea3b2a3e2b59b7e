// Closes a session: ends what waits, takes back and releases what is held, and removes what is left. A server that is down has
// `commandTimeout` to come back.

import { setImmediate } from 'node:timers';
import pLimit from 'p-limit';
import type { ClosedError, LockLostError, LossReason, SeenHolder } from '../api/errors.js';
import type { Clock } from '../runtime/clock.js';
import { WaitLimit, type Call, type WaitLimitOptions } from '../runtime/wait-limit.js';
import type { Cleanup, Removable } from './cleanup.js';
import { lockLost, type LostLock } from './loss.js';
import { retry } from './retry.js';

/** A grant, as the session deals with it. */
export interface SessionGrant {
  readonly lock: Removable & { readonly name: string };
  readonly ownerId: string;
  readonly isReleased: boolean;
  /** Whether other owners may hold the lock beside it (a reader, a permit). */
  readonly isShared: boolean;
  readonly heldForMs: number;
  readonly seen: SeenHolder;
  /** Milliseconds for which this process may rely on it. */
  remaining(): number;
  /** How many of its holds are shared, or how many are not. */
  countOf(isShared: boolean): number;
  lose(lossReason: LossReason): LockLostError;
  /** Resolves when the release that is under way is settled, whatever came of it. */
  released(): Promise<void>;
  /** The client was closed, and has released the grant; with `error`: it has not, or that is not known. */
  closed(error?: Error): void;
}

/** A hold of another client's lock, which is a member of a MultiLock of this client. */
export interface MemberHold extends LostLock {
  revoke(error: LockLostError): Promise<void>;
}

/** The session that is closed. */
interface Closing {
  readonly clock: Clock;
  readonly commandTimeoutMs: number;
  readonly connection: Parameters<typeof retry>[0];
  readonly acquisitions: Set<Call>;
  readonly grants: ReadonlySet<SessionGrant>;
  readonly memberHolds: ReadonlySet<MemberHold>;
  readonly cleanup: Cleanup;
  closedError(lockName?: string): ClosedError;
  bounded<T>(
    lockName: string,
    what: string,
    operation: (waitLimit: WaitLimit) => Promise<T>,
    options: Partial<WaitLimitOptions>,
  ): Promise<T>;
}

/**
 * @param concurrency - how many grants are released at a time
 * @param others - the end of what else may leave owners to be removed; it is awaited before the last clean-up
 */
export async function closeSession(
  session: Closing,
  concurrency: number,
  others?: Promise<void>,
): Promise<void> {
  for (const call of [...session.acquisitions]) call.end('closed');
  const limit = pLimit(concurrency);
  const grants = [...session.grants];
  const releases = grants.map((grant) => {
    // A second release beside one that is under way would take from that what it finds out.
    if (grant.isReleased) return grant.released();
    grant.lose('closed');
    return limit(() => release(session, grant));
  });
  for (const hold of session.memberHolds) releases.push(hold.revoke(lockLost(hold, 'closed')));
  // Within this turn of the event loop the calls that were ended give up their places, and leave their owners to the clean-up.
  releases.push(new Promise(setImmediate)); // from node:timers, since a test may have faked the global one
  if (others) releases.push(others);
  const waitLimit = new WaitLimit({ clock: session.clock, limitMs: session.commandTimeoutMs });
  try {
    await waitLimit.within(Promise.allSettled(releases));
  } catch {
    // Redis does not answer: the leases end by themselves.
    limit.clearQueue();
    for (const call of [...session.acquisitions]) call.end('timeout');
  }
  for (const grant of grants) grant.closed(session.closedError(grant.lock.name));
  // Also if there is no time left: it is what ends the retries.
  await session.cleanup.close(waitLimit).catch(() => undefined);
  waitLimit.dispose();
}

/** Releases a grant; the answer also settles the earlier releases that had passed that grant on. */
async function release(session: Closing, grant: SessionGrant): Promise<void> {
  const { lock, ownerId, heldForMs } = grant;
  try {
    // Gone on a repeat: the first try was executed, its answer was lost.
    const send = async (isRepeat: boolean): Promise<boolean> =>
      (await lock.release(ownerId)) || isRepeat;
    const isReleased = await session.bounded(
      lock.name,
      'not known to be released',
      (waitLimit) => retry(session.connection, waitLimit, { name: lock.name }, send),
      { registry: session.acquisitions },
    );
    const lost = { lockName: lock.name, ownerId, heldForMs };
    grant.closed(isReleased ? undefined : lockLost(lost, 'deleted'));
  } catch (error) {
    grant.closed(error as Error);
  }
}
