// What locks, holds and clients show of themselves in a log line or a console: what this process knows, and no secret.

import { inspect, type InspectOptions } from 'node:util';

/**
 * What `JSON.stringify` and `util.inspect` show of a lock: what its client knows, without asking the server.
 *
 * @group Descriptions
 */
export interface LockDescription {
  /** `Lock`, `FairLock`, `FencedLock`, `FencedFairLock`, `MultiLock`, `RedLock`, `FencedRedLock`, `ReadLock` or `WriteLock`. */
  kind: string;
  /** The name that was given to `getLock`. */
  name: string;
  /** Whether any caller of this client holds it; or none does, but the client keeps it for its next caller. */
  state: 'held by this client' | 'kept by this client' | 'not held by this client';
  /** The owner on the server, if this client holds it: `<clientId>:<n>`. */
  ownerId?: string;
  /** For how long this process may rely on its hold, if this client holds it: whole milliseconds. */
  remainingMs?: number;
}

/**
 * What `JSON.stringify` and `util.inspect` show of a read-write lock. The description of each half shows more.
 *
 * @group Descriptions
 */
export interface ReadWriteLockDescription {
  /** `ReadWriteLock`. */
  kind: string;
  /** The name that was given to `getReadWriteLock`. */
  name: string;
  /** Whether any caller of this client holds the read lock. */
  readLock: LockDescription['state'];
  /** Whether any caller of this client holds the write lock. */
  writeLock: LockDescription['state'];
}

/**
 * What `JSON.stringify` and `util.inspect` show of a hold.
 *
 * @group Descriptions
 */
export interface HoldDescription {
  /** The lock's name that was given to `getLock`. */
  lockName: string;
  /** Whether the hold has the lock, was released, or was lost. */
  state: 'held' | 'released' | 'lost';
  /** The owner on the server: `<clientId>:<n>`. */
  ownerId: string;
  /** For how long this process may rely on the lock, in whole milliseconds; 0 after it was lost or released. */
  remainingMs: number;
  /** The fencing token in decimal digits, if the lock is a fenced one: JSON knows no `bigint`. */
  token?: string;
}

/** A hold's fencing token as events and descriptions show it: in decimal digits, or left out if there is none. */
export function shownToken(token: bigint | undefined): { token?: string } {
  return token === undefined ? {} : { token: String(token) };
}

/**
 * What `JSON.stringify` and `util.inspect` show of a client.
 *
 * @group Descriptions
 */
export interface HoldfastDescription {
  /** Identifies the client on the server. */
  clientId: string;
  /** The state of its connection, as `Holdfast.status` has it. */
  state: 'connecting' | 'ready' | 'degraded' | 'refused' | 'closed';
  /** How many locks the client holds. */
  heldCount: number;
  /** How many locks it keeps for its next caller, while none of its callers holds them. */
  keptCount: number;
}

/**
 * A hold of this client, for `Holdfast.held()`. A MultiLock's members are listed one by one.
 *
 * @group Descriptions
 */
export interface HeldLock {
  /** The lock's name that was given to `getLock`. */
  lockName: string;
  /** The lock's kind, as {@link LockDescription.kind}; or `Semaphore`. */
  kind: string;
  /** The owner on the server: `<clientId>:<n>`. */
  ownerId: string;
  /** The hold, as in its events: `<clientId>#<n>`. */
  holdId: string;
  /** When the hold began. */
  since: Date;
  /** For how long this process may rely on it without a renewal, in whole milliseconds. */
  remainingMs: number;
  /** Whether the watchdog renews the lease. */
  watched: boolean;
  /** The free text that the call was given as `label`. */
  label?: string;
  /** The fencing token in decimal digits, if the lock is a fenced one. */
  token?: string;
}

/**
 * The counts of a client, for `Holdfast.stats()`. `renewals`, `gathered` and `outages` count since `since`.
 *
 * @group Descriptions
 */
export interface HoldfastStats {
  /** When the client was created. */
  since: Date;
  /** How many holds the client has. */
  held: number;
  /** How many locks the client keeps for its next caller, while none of its callers holds them. */
  kept: number;
  /** How many calls wait, because another owner has the lock. */
  waiting: number;
  /** For how many locks calls of this client wait. */
  lines: number;
  /** How many channels the client is subscribed to. It keeps them for two seconds after the last wait. */
  channels: number;
  /** The renewals by the watchdog, of locks and of places in line. */
  renewals: {
    /** The lease was extended. */
    kept: number;
    /** The server did not have the lease any more. */
    lost: number;
    /** The server did not answer; sent again soon. */
    unanswered: number;
    /** Of those kept: the answer came when the lease that it set was over. */
    late: number;
  };
  /** How many acquisitions and releases were sent together with others, in one call for up to 64 locks. */
  gathered: number;
  /** How many times a connection was lost while all were up. */
  outages: number;
  /** Whether the client learns at once that the key of a lock that it holds has gone. */
  tracking: TrackingState;
}

/**
 * Whether the servers tell a client at once of each change of the keys of its locks (`CLIENT TRACKING`). The client has them do so for locks
 * that it has held for about a second, and reports of all servers the one that is worst. `failed` means that deleted keys are noticed at the
 * next renewal; it is no outage, and no `error` event tells of it.
 *
 * - `unused`: there was no such lock in the last half-minute
 * - `unproven`: no server refuses, but not each has told of a change so far. The first renewal of a lock is a change: a server that has told
 *   nothing by then is probably behind a proxy that does not pass it on
 * - `proven`: each has told of a change, on the very connections that are open now
 * - `failed`: a server does not tell, for this `reason`; the client goes on trying
 *
 * @group Descriptions
 */
export type TrackingState =
  | {
      /** No server is known not to tell. */
      readonly state: 'unused' | 'unproven' | 'proven';
    }
  | {
      /** A server does not tell. */
      readonly state: 'failed';
      /** The words of the server, or why there is no connection; in a cluster for each node that does not tell. */
      readonly reason: string;
    };

/** The text that `util.inspect` shows of an object: `Lock { name: 'orders', … }`. */
export function inspected(
  className: string,
  description: object,
  depth: number,
  options: InspectOptions,
): string {
  if (depth < 0) return `[${className}]`;
  return `${className} ${inspect(description, options)}`;
}
