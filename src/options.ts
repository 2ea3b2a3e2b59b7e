// Reads the options of a client; what is wrong with them is an error before anything is sent.

import { OptionError } from './api/errors.js';
import {
  givenWait,
  invalid,
  isPlainObject,
  parseBoolean,
  parseCount,
  parseDuration,
  parseOptions,
  parseText,
  parseWait,
  type Wait,
  shown,
} from './api/options.js';
import { isClient, type RedisSource } from './redis/installed.js';

/**
 * Options of a {@link Holdfast}; times in milliseconds.
 *
 * @group The client
 */
export interface HoldfastOptions {
  /**
   * Where Redis is: a URL, options of ioredis or node-redis, or a client of one of them. A client is only read, never used or closed,
   * and need not be open. Each
   * new connection uses the credentials that the options, or the client's options, have by then.
   */
  redis: RedisSource;
  /** The lease of acquisitions that give no `lease`; the watchdog renews it every third of it. Default: 30,000; 100 to 2^31-1 (24 days). */
  lockWatchdogTimeout?: number | undefined;
  /**
   * Bounds a single attempt, a release, `extend()`, a query such as `isLocked()`, and `ping()`. Default: `lockWatchdogTimeout / 3`, 10,000;
   * 1 to 2^31-1.
   */
  commandTimeout?: number | undefined;
  /**
   * How long `lock()`, `acquire()`, `withLock()` and `withPermits()` wait if the call gives no `wait`, also those of a MultiLock or Redlock
   * that this client made: 0 or more, or `Infinity`. 0: one attempt, bounded by `commandTimeout`. `tryLock()` and `tryAcquire()` make one
   * attempt all the same. Default: 1.5 x `lockWatchdogTimeout`, 45,000, which outlasts the lease of a holder that has died; but `lock()`
   * waits forever, also while Redis is down.
   */
  wait?: number | undefined;
  /**
   * What the id of this client begins with, for debugging: 1 to 100 characters, none of them a control character. The last 32 characters of
   * the host's name, the process id and 12 hex digits follow, so no two clients share an id. Default: none, the id begins with the host.
   */
  clientId?: string | undefined;
  /** Stands before every lock name, after the `keyPrefix` of the client or options given as `redis`, if there is one. Default: none. */
  keyPrefix?: string | undefined;
  /**
   * Whether releases are published on classic channels even in a cluster that has sharded ones (Redis 7 or newer). For a cluster that you
   * share with a Redisson older than 3.22, or with one whose `shardedSubscriptionMode` is `OFF`. All clients of a lock must agree. Default:
   * false.
   */
  classicUnlockChannels?: boolean | undefined;
  /**
   * How many replicas must acknowledge an acquisition, and every command that extends a lease, before it counts: a failover to one of them
   * loses nothing. If fewer do so within `commandTimeout` and the caller's `wait`, an acquisition is undone and fails with
   * {@link UnavailableError}. Run one replica more than you ask for. Default: 0; a whole number of 0 or more.
   */
  replicas?: number | undefined;
  /**
   * A hold that lasts longer than this, in milliseconds, is a `warning`, once for each lock and minute. Default: off; 1 to 2^31-1.
   */
  longHold?: number | undefined;
  /**
   * Whether a hold of `acquire()` that was garbage-collected without a release is a `warning`, with the stack of its call. That stack costs
   * each call some time: for tests, and to look for a leak. Default: false.
   */
  traceHolds?: boolean | undefined;
}

/**
 * The state of the connection of a {@link Holdfast} to its Redis; {@link Holdfast.status} says what each means.
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
  /** How long the whole call may take, in milliseconds. Default: `commandTimeout`; 1 to 2^31-1. */
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
  'longHold',
  'traceHolds',
] as const;

/** The given options or their defaults; without `redis`, which the client library reads. */
export interface ParsedHoldfastOptions {
  /** What stands before host and process in the client's id; undefined: nothing. */
  readonly clientId: string | undefined;
  readonly keyPrefix: string;
  readonly lockWatchdogTimeoutMs: number;
  readonly commandTimeoutMs: number;
  /** How long calls wait that set no `wait`; undefined: each method has its own default. */
  readonly wait: Wait | undefined;
  /** How long a connection may be silent while answers are due. */
  readonly silenceLimitMs: number;
  readonly hasClassicUnlockChannels: boolean;
  readonly replicas: number;
  readonly longHoldMs: number | undefined;
  readonly tracesHolds: boolean;
}

export function parseHoldfastOptions(options: HoldfastOptions): ParsedHoldfastOptions {
  refuseWhereRedisIs(options);
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
  const { clientId, keyPrefix = '', classicUnlockChannels, replicas, longHold, traceHolds } = given;
  return {
    clientId: clientId === undefined ? clientId : parseClientId(clientId),
    keyPrefix: keyPrefix === '' ? '' : parseText(keyPrefix, 'keyPrefix'),
    lockWatchdogTimeoutMs,
    commandTimeoutMs,
    wait: given.wait === undefined ? undefined : givenWait(parseWait(given.wait)),
    // A dead connection must be noticed in time for another renewal.
    silenceLimitMs: Math.min(commandTimeoutMs, renewalIntervalMs),
    hasClassicUnlockChannels: parseBoolean(classicUnlockChannels ?? false, 'classicUnlockChannels'),
    replicas: parseCount(replicas ?? 0, 'replicas'),
    longHoldMs: longHold === undefined ? undefined : parseDuration(longHold, 'longHold', 1),
    tracesHolds: parseBoolean(traceHolds ?? false, 'traceHolds'),
  };
}

/** Options that say where Redis is, or how to connect to it; and names under which other libraries take a client. */
const OF_REDIS =
  'url uri host hostname hosts port path socket sentinels sentinelRootNodes rootNodes nodes cluster db database username user password tls client clients redisClient connection';

/** Refuses what belongs into the option `redis`, in place of all options or among them. */
function refuseWhereRedisIs(options: unknown): void {
  const right = 'where Redis is stands in the option "redis", such as new Holdfast({ redis: ';
  if (typeof options === 'string')
    throw new OptionError(`new Holdfast() was given ${shown(options)}: ${right}url })`);
  if (options instanceof URL)
    throw new OptionError(`new Holdfast() was given a URL: ${right}url.href })`);
  if (isClient(options))
    throw new OptionError(`new Holdfast() was given a client: ${right}client })`);
  if (!isPlainObject(options)) return;
  const name = Object.keys(options).find((each) => OF_REDIS.split(' ').includes(each));
  if (name === undefined) return;
  const example = /client|connection/i.test(name) ? name : `{ ${name}: … }`;
  throw new OptionError(`the options of new Holdfast() have no "${name}": ${right}${example} })`);
}

/** What begins the client's id. It is part of each owner on the server, and is shown in logs and on terminals: no line may be forged with it. */
function parseClientId(clientId: unknown): string {
  if (typeof clientId === 'string' && /^[^\p{Cc}\p{Cs}]{1,100}$/u.test(clientId)) return clientId;
  throw invalid(
    'clientId',
    clientId,
    'a string of 1 to 100 characters, without control characters',
  );
}

/** Reads the time limit that was given, in milliseconds. */
export function parsePing(options: PingOptions): number | undefined {
  const { timeout } = parseOptions('the options of ping()', options, ['timeout']);
  return timeout === undefined ? undefined : parseDuration(timeout, 'timeout', 1);
}
