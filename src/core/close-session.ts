// The end of a session: what waits is ended, what is held is taken back and released, and what is left is removed. A server that is
// not there may come back in time.

import { setImmediate } from 'node:timers';
import pLimit from 'p-limit';
import type { ClosedError, LockLostError, LossReason, SeenHolder } from '../api/errors.js';
import { WaitLimit, type Call } from '../runtime/wait-limit.js';
import type { Cleanup, Removable } from './cleanup.js';
import { lockLost, type LostLock } from './loss.js';
import { retry } from './retry.js';

/** A grant, as the session deals with it. */
export interface SessionGrant {
  readonly lock: Removable & { readonly name: string };
  readonly ownerId: string;
  readonly isReleased: boolean;
  /** Whether others may read beside it. */
  readonly isShared: boolean;
  readonly heldForMs: number;
  readonly seen: SeenHolder;
  /** Milliseconds for which this process may rely on it. */
  remaining(): number;
  /** How many of its holds only read, or how many do not. */
  countOf(isShared: boolean): number;
  lose(lossReason: LossReason): LockLostError;
  /** The client was closed, and has released it, or not: then as far as `error` says. */
  closed(error?: Error): void;
}

/** A hold of a lock of another client that is a member of a lock of this one. */
export interface MemberHold extends LostLock {
  revoke(error: LockLostError): Promise<void>;
}

/** What is closed. */
interface Closing {
  readonly commandTimeoutMs: number;
  readonly connection: Parameters<typeof retry>[0];
  readonly acquisitions: ReadonlySet<Call>;
  readonly grants: ReadonlySet<SessionGrant>;
  readonly memberHolds: ReadonlySet<MemberHold>;
  readonly cleanup: Cleanup;
  closedError(lockName?: string): ClosedError;
  bounded<T>(
    lockName: string,
    what: string,
    operation: (waitLimit: WaitLimit) => Promise<T>,
  ): Promise<T>;
}

/** `concurrency`: how many holds are released at a time; `others`: what has to end before, since it may leave something, too. */
export async function closeSession(
  session: Closing,
  concurrency: number,
  others?: Promise<void>,
): Promise<void> {
  for (const call of [...session.acquisitions]) call.end('closed');
  const limit = pLimit(concurrency);
  const grants = [...session.grants];
  const releases = grants.map((grant) => {
    if (!grant.isReleased) grant.lose('closed');
    return limit(() => release(session, grant));
  });
  for (const hold of session.memberHolds) releases.push(hold.revoke(lockLost(hold, 'closed')));
  // The calls that were ended give their places and owners up in this turn of the loop.
  releases.push(new Promise(setImmediate)); // node:timers', as a test may have faked the global one
  if (others) releases.push(others);
  const waitLimit = new WaitLimit({ limitMs: session.commandTimeoutMs });
  try {
    await waitLimit.within(Promise.allSettled(releases));
  } catch {
    limit.clearQueue(); // Redis does not answer: the leases end by themselves
  }
  for (const grant of grants) grant.closed(session.closedError(grant.lock.name));
  // Also if there is no time left: nothing may be tried again later.
  await session.cleanup.close(waitLimit).catch(() => undefined);
  waitLimit.dispose();
}

/** Releases what was held, and so tells what became of releases that had passed it on. */
async function release(session: Closing, grant: SessionGrant): Promise<void> {
  const { lock, ownerId, heldForMs } = grant;
  let isFirst = true as boolean;
  try {
    const isReleased = await session.bounded(lock.name, 'not known to be released', (waitLimit) =>
      retry(session.connection, waitLimit, { name: lock.name }, (isRepeat) => {
        isFirst = !isRepeat;
        return lock.release(ownerId);
      }),
    );
    const lost = { lockName: lock.name, ownerId, heldForMs };
    grant.closed(isReleased || !isFirst ? undefined : lockLost(lost, 'deleted'));
  } catch (error) {
    grant.closed(error as Error);
  }
}
