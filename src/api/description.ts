// What locks, holds and clients tell of themselves, in a log line or a console: what this process knows, and no secret.

import { inspect, type InspectOptionsStylized } from 'node:util';

/**
 * What a lock tells of itself by `JSON.stringify` and `util.inspect`: what its client knows, without asking the server.
 *
 * @group Descriptions
 */
export interface LockDescription {
  /** `Lock`, `FairLock`, `FencedLock`, `FencedFairLock`, `MultiLock`, `RedLock`, `FencedRedLock`, `ReadLock` or `WriteLock`. */
  kind: string;
  /** Its name, as it was given to `getLock`. */
  name: string;
  /** Whether any caller of this client holds it. */
  state: 'held by this client' | 'not held by this client';
  /** The owner as which this client holds it, if it does. */
  ownerId?: string;
  /** For how long this process may rely on its hold, in milliseconds, if this client holds it. */
  remainingMs?: number;
}

/**
 * What a read-write lock tells of itself by `JSON.stringify` and `util.inspect`. The description of each half tells more.
 *
 * @group Descriptions
 */
export interface ReadWriteLockDescription {
  /** `ReadWriteLock`. */
  kind: string;
  /** Its name, as it was given to `getReadWriteLock`. */
  name: string;
  /** Whether any caller of this client reads. */
  readLock: LockDescription['state'];
  /** Whether any caller of this client writes. */
  writeLock: LockDescription['state'];
}

/**
 * What a hold tells of itself by `JSON.stringify` and `util.inspect`.
 *
 * @group Descriptions
 */
export interface HoldDescription {
  /** The lock's name, as it was given to `getLock`. */
  lockName: string;
  /** Whether it holds the lock, was released, or was lost. */
  state: 'held' | 'released' | 'lost';
  /** The owner on the server: `<clientId>:<n>`. */
  ownerId: string;
  /** For how long this process may rely on the lock, in milliseconds. */
  remainingMs: number;
  /** The fencing token in decimal digits, if the lock is a fenced one: JSON knows no `bigint`. */
  token?: string;
}

/** A hold's fencing token as events and descriptions have it: in decimal digits, or left out where there is none. */
export function shownToken(token: bigint | undefined): { token?: string } {
  return token === undefined ? {} : { token: String(token) };
}

/**
 * What a client tells of itself by `JSON.stringify` and `util.inspect`.
 *
 * @group Descriptions
 */
export interface HoldfastDescription {
  /** What identifies the client on the server. */
  clientId: string;
  /** Whether its connection for commands is ready. */
  state: 'connecting' | 'ready' | 'degraded' | 'refused' | 'closed';
  /** How many locks it holds. */
  heldCount: number;
}

/** As `util.inspect` shows an object of a class: `Lock { name: 'orders', … }`. */
export function inspected(
  className: string,
  description: object,
  depth: number,
  options: InspectOptionsStylized,
): string {
  if (depth < 0) return options.stylize(`[${className}]`, 'special');
  return `${className} ${inspect(description, options)}`;
}
