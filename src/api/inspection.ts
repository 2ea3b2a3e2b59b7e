// What `inspect` and `list` tell of a lock: what the server knows of its holders and its line.

import { invalid, isWholeNumber, parseOptions, parseText, shown } from './options.js';
import { type HolderState, OptionError } from './errors.js';

/**
 * The kinds that the server tells apart: plain, fair and fenced locks, members of MultiLocks and of Redlocks are all a `lock`.
 *
 * @group Inspection
 */
export type InspectedKind = 'lock' | 'semaphore' | 'read-write';

/**
 * An owner that holds a lock, or that waits in its line.
 *
 * @group Inspection
 */
export interface InspectedOwner {
  /** The owner: `<clientId>:<n>`. */
  ownerId: string;
  /** The client. By default it names its host and process: `<host>-<pid>-<12 hex digits>`. For an owner of Redisson, its id. */
  clientId: string;
  /** When it asked for the lock, by the client's own clock; left out: not known, as for an owner of Redisson. */
  since?: Date;
  /** What is left of its lease, or of its place in line, in milliseconds; -1: no expiry. */
  leaseLeftMs: number;
  /** Of a read-write lock: what the owner does, or wants. */
  mode?: 'read' | 'write';
  /** Of a semaphore: how many permits the owner has, or wants. */
  permits?: number;
}

/**
 * A holder of a lock.
 *
 * @group Inspection
 */
export interface InspectedHolder extends InspectedOwner {
  /** How the owner has it. */
  state: HolderState;
  /**
   * Since when the owner holds it, by the client's own clock; after a lost connection, perhaps from some time before. Left out: not known, as
   * for an owner that was handed the lock in the line, and for those of Redisson; or it holds it no more.
   */
  heldSince?: Date;
  /** How often the owner has acquired the lock; only for the kind `lock`: 0 if it has released it, left out if it is kept or exported. */
  holdCount?: number;
}

/**
 * A lock as the server has it.
 *
 * @group Inspection
 */
export interface Inspection {
  /** The name, as for `getLock`: without the client's `keyPrefix`. */
  name: string;
  /** What kind of lock it is. */
  kind: InspectedKind;
  /** Who holds it; empty: nobody, but somebody waits in line. */
  holders: InspectedHolder[];
  /** Who waits in line, first come first. Callers that wait for a plain lock do not stand in line: see `waitingClients`. */
  waiters: InspectedOwner[];
  /**
   * How many clients listen for the release of the lock: those with a waiting caller, or with one in the last two seconds. In a cluster with
   * classic channels, only those at the node that was asked.
   */
  waitingClients: number;
  /** The last fencing token that was given out, if the lock was ever fenced: decimal digits. */
  token?: string;
  /** Of a semaphore: its permits. */
  permits?: {
    /** How many there are. */
    capacity: number;
    /** How many of them are free. */
    available: number;
  };
  /** Whether there are more holders or waiters than the 1,000 that are listed. */
  isCut: boolean;
}

/** How a holder has the lock, in words that stand before its owner. `until`: until when a lock that was released stays taken. */
export function howHeld(state: HolderState, until = 'its lease ends'): string {
  if (state === 'released') return `taken until ${until}, released by`;
  if (state === 'kept') return 'kept, perhaps idle, by';
  return state === 'exported' ? 'exported, and not adopted so far, by' : 'held by';
}

/**
 * Options of `list()`.
 *
 * @group Inspection
 */
export interface ListOptions {
  /** Only locks whose names begin with this text. Default: all. */
  prefix?: string | undefined;
  /** Only locks of these kinds. Default: all. */
  kinds?: readonly InspectedKind[] | undefined;
  /** At most this many locks: a whole number of at least 1. Default: all. */
  limit?: number | undefined;
}

const KINDS: readonly InspectedKind[] = ['lock', 'semaphore', 'read-write'];

/** The options of `list()`, checked. */
export interface ListRequest {
  readonly prefix: string;
  readonly kinds: readonly InspectedKind[];
  readonly limit: number;
}

export function parseList(options: ListOptions): ListRequest {
  const given = parseOptions('the options of list()', options, ['prefix', 'kinds', 'limit']);
  const { prefix = '', kinds = KINDS, limit = Infinity } = given;
  if (!Array.isArray(kinds) || kinds.length === 0)
    throw invalid('kinds', kinds, `an array of any of ${KINDS.join(', ')}`);
  for (const kind of kinds as unknown[])
    if (!(KINDS as unknown[]).includes(kind))
      throw new OptionError(`kinds has ${shown(kind)}: it may have ${KINDS.join(', ')}`);
  if (limit !== Infinity && !isWholeNumber(limit, 1))
    throw invalid('limit', limit, 'a whole number of at least 1');
  return {
    prefix: prefix === '' ? '' : parseText(prefix, 'prefix'),
    kinds: kinds as InspectedKind[],
    limit: limit,
  };
}
