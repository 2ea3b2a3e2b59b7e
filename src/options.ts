// The options of a client, and how they are read: what is wrong with them is said before anything is sent.

import {
  parseBoolean,
  parseCount,
  parseDuration,
  parseOptions,
  parseText,
  parseWait,
} from './api/options.js';
import type { RedisSource } from './redis/installed.js';

/**
 * Options of a {@link Holdfast}; times in milliseconds.
 *
 * @group The client
 */
export interface HoldfastOptions {
  /**
   * A URL, options of ioredis or node-redis, or a client of one of them. A client is only read, never used or closed. Each new connection is
   * made with the credentials that the options, or the client's options, have by then.
   */
  redis: RedisSource;
  /** The lease of calls that give none; the watchdog renews it every third of it. Default: 30,000 ms; from 100 to 2^31-1 (24 days). */
  lockWatchdogTimeout?: number | undefined;
  /** Bounds a single attempt, a release, and every look at a lock. Default: a third of `lockWatchdogTimeout`; up to 2^31-1. */
  commandTimeout?: number | undefined;
  /**
   * The `wait` of calls that give none: of `lock()`, `acquire()`, `withLock()` and `withPermits()`, also those of a MultiLock or Redlock
   * that this client made. 0: one attempt, bounded by `commandTimeout`. `tryLock()` and `tryAcquire()` wait for 0 ms all the same. Default:
   * `Infinity`.
   */
  wait?: number | undefined;
  /**
   * What the id of this client begins with, for people who look for a holder: 12 hex digits follow, so that no two clients share an id.
   * Default: `<host>-<pid>`.
   */
  clientId?: string | undefined;
  /** Stands in front of every lock name, after the `keyPrefix` of the client or options given as `redis`, if there is one. Default: none. */
  keyPrefix?: string | undefined;
  /**
   * Whether releases are published on classic channels also in a cluster that has sharded ones (Redis 7 or newer). For a cluster
   * shared with a Redisson older than 3.22, or one whose `shardedSubscriptionMode` is `OFF`; all clients of a lock must agree.
   * Default: false.
   */
  classicUnlockChannels?: boolean | undefined;
  /**
   * How many replicas must have acknowledged an acquisition before it counts, and likewise every command that prolongs a lease: a
   * failover to one of them loses nothing. If fewer do so within `commandTimeout` and the caller's wait, an acquisition is undone and
   * rejects with {@link UnavailableError}. Default: 0.
   */
  replicas?: number | undefined;
}

/**
 * The state of the connection of a {@link Holdfast} to its Redis. `degraded`: a master of the cluster cannot be reached; `ping()` names it.
 *
 * @group The client
 */
export type HoldfastStatus = 'connecting' | 'ready' | 'degraded' | 'refused' | 'closed';

/**
 * Options of `ping()`.
 *
 * @group The client
 */
export interface PingOptions {
  /** How long it may take altogether, in milliseconds. Default: `commandTimeout`. */
  timeout?: number | undefined;
}

const KNOWN_OPTIONS = [
  'redis',
  'lockWatchdogTimeout',
  'commandTimeout',
  'wait',
  'clientId',
  'keyPrefix',
  'classicUnlockChannels',
  'replicas',
] as const;

/** The options that were given, or their defaults; without `redis`, which the client library reads. */
export interface ParsedHoldfastOptions {
  /** What the client's id begins with; undefined: where it runs. */
  readonly clientId: string | undefined;
  readonly keyPrefix: string;
  readonly lockWatchdogTimeoutMs: number;
  readonly commandTimeoutMs: number;
  readonly defaultWaitMs: number;
  /** For how long a connection may be silent while answers are due. */
  readonly silenceLimitMs: number;
  readonly hasClassicUnlockChannels: boolean;
  readonly replicas: number;
}

export function parseHoldfastOptions(options: HoldfastOptions): ParsedHoldfastOptions {
  const given = parseOptions('the options of new Holdfast()', options, KNOWN_OPTIONS);
  const lockWatchdogTimeoutMs = parseDuration(
    given.lockWatchdogTimeout ?? 30_000,
    'lockWatchdogTimeout',
    100,
  );
  const renewalIntervalMs = Math.ceil(lockWatchdogTimeoutMs / 3);
  const commandTimeoutMs = parseDuration(
    given.commandTimeout ?? renewalIntervalMs,
    'commandTimeout',
    1,
  );
  const { clientId, keyPrefix = '', classicUnlockChannels, replicas } = given;
  return {
    clientId: clientId === undefined ? clientId : parseText(clientId, 'clientId'),
    keyPrefix: keyPrefix === '' ? '' : parseText(keyPrefix, 'keyPrefix'),
    lockWatchdogTimeoutMs,
    commandTimeoutMs,
    defaultWaitMs: parseWait(given.wait ?? Infinity),
    // A dead connection must be noticed in time for another renewal.
    silenceLimitMs: Math.min(commandTimeoutMs, renewalIntervalMs),
    hasClassicUnlockChannels: parseBoolean(classicUnlockChannels ?? false, 'classicUnlockChannels'),
    replicas: parseCount(replicas ?? 0, 'replicas'),
  };
}

/** The time limit that was given, in milliseconds. */
export function parsePing(options: PingOptions): number | undefined {
  const { timeout } = parseOptions('the options of ping()', options, ['timeout']);
  return timeout === undefined ? undefined : parseDuration(timeout, 'timeout', 1);
}
