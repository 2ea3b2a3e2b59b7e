// Makes the ioredis clients by which a Holdfast talks to Redis: copies with options of ours, whatever the user gave.

import type { Cluster, ClusterOptions, Redis, RedisOptions } from 'ioredis';
import { failureKind, isReadOnly } from '../failure.js';
import { followCredentials, followCredentialsOfNodes } from './credentials.js';
import { withFailoversHeard } from './failovers.js';
import { asFailure } from './failures.js';
import { withEmptyAnswersIgnored, withSuccessorsKept } from './pool.js';
import { leavingReplicas } from './replicas.js';
import type { Ioredis } from './source.js';
import { lookupOf, startupNodesWithout } from './startup-nodes.js';

/** How long ioredis waits at most before it connects again, in milliseconds. */
export const LONGEST_RECONNECT_DELAY_MS = 1_250;

/** The options in the form that ioredis 6 wants under exact optional property types. */
type DuplicateOptions = ClusterOptions & { redisOptions: { replyMapping?: never } };

export function isCluster(client: Ioredis): client is Cluster {
  return client.isCluster;
}

/** The key prefix of the user's own client. */
export function keyPrefixOf(template: Ioredis): string {
  const ofNodes = isCluster(template) ? template.options.redisOptions?.keyPrefix : undefined;
  return template.options.keyPrefix ?? ofNodes ?? '';
}

/** How often the user's cluster asks which node has which slots, without a reason; undefined: never. */
export function slotsRefreshMsOf(template: Ioredis): number | undefined {
  return isCluster(template) ? template.options.slotsRefreshInterval : undefined;
}

/** A client of ours for the same Redis. `silenceLimitMs`: how long a Sentinel may take to answer at most. */
export function clientLike(template: Ioredis, silenceLimitMs: number): Ioredis {
  if (isCluster(template)) {
    const forAll = ofAllNodes(template.options);
    const nodes = startupNodesWithout(Object.keys(forAll), template);
    const dnsLookup = lookupOf(template.options, (error, host) => {
      cluster.emit('node error', error, host);
    });
    const options = { ...template.options, dnsLookup };
    const cluster: Cluster = template.duplicate(
      nodes,
      clusterOptions(options, forAll, silenceLimitMs),
    );
    followCredentialsOfNodes(cluster, () => template.options.redisOptions);
    return withSuccessorsKept(withEmptyAnswersIgnored(withAskingHandled(cluster)));
  }
  const { sentinelCommandTimeout = Infinity } = template.options;
  const redis = template.duplicate({
    ...nodeOptions(),
    connectTimeout: connectTimeoutOf(template.options),
    sentinelCommandTimeout: Math.min(sentinelCommandTimeout, silenceLimitMs),
  });
  followCredentials(redis.options, () => template.options);
  return withFailoversHeard(redis);
}

/** A client for subscriptions at the same node of a cluster. */
export function subscriberBeside(node: Redis): Redis {
  const subscriber = node.duplicate(nodeOptions() as RedisOptions & { replyMapping?: never });
  followCredentials(subscriber.options, () => node.options);
  return subscriber;
}

/** ioredis 6 would make them known on each connection, and tell of a server that knows of none as of one that cannot be reached. */
const NO_FIELDSETS: object = { himportFieldsets: undefined };

/** ioredis resends nothing and queues nothing for us: a command that may have run is repeated only by whoever knows that it may have. */
const NO_RESEND = {
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  enableAutoPipelining: false,
  // Also for subscribers, since we subscribe only after it. Without it, ioredis 5 may call a connection ready that has
  // closed meanwhile, and then never connects again (https://github.com/redis/ioredis/issues/2099).
  enableReadyCheck: true,
  // Names of locks are prefixed by us: ioredis would not prefix channels.
  keyPrefix: '',
  readOnly: false,
  monitor: false,
  lazyConnect: false,
  stringNumbers: false,
  // Time limits are ours: the caller's wait, or commandTimeout.
  commandTimeout: undefined,
  // (The timer of ioredis 5 outlives its connection, and ends the next one.)
  socketTimeout: undefined,
  // A master that became a replica: connect anew, to wherever the master is now. Whoever left a node at any other error would leave it
  // before the script that it does not know is sent in full.
  reconnectOnError: isReadOnly,
  // A subscriber only listens: the kernel has to find out that nobody is at the other end any more.
  keepAlive: 10_000,
  // How soon ioredis asks again whether a server is still loading. Its timer outlives the client's end, so it must be short.
  maxLoadingRetryTime: 500,
  // A socket that does not answer its FIN must not outlive the client.
  disconnectTimeout: 200,
} satisfies RedisOptions;

function nodeOptions(): Partial<RedisOptions> {
  return {
    ...NO_RESEND,
    ...NO_FIELDSETS,
    enableOfflineQueue: false,
    autoResubscribe: false,
    retryStrategy: reconnectDelayMs,
    sentinelRetryStrategy: reconnectDelayMs,
    reconnectOnError: leavingReplicas(),
    role: 'master',
    // With Sentinels: a former master, which goes on granting, is left as soon as they name another one.
    failoverDetector: true,
    sentinelReconnectStrategy: reconnectDelayMs,
  };
}

/** ioredis' own limit where none is given, in milliseconds. */
const DEFAULT_CONNECT_TIMEOUT_MS = 10_000;

/** The user's own; but 0 is no limit to ioredis, and a handshake of TLS that does not end would be waited for without end. */
function connectTimeoutOf({ connectTimeout = 0 }: RedisOptions): number {
  return connectTimeout > 0 ? connectTimeout : DEFAULT_CONNECT_TIMEOUT_MS;
}

/** What is ours of the connections to the nodes of a cluster. */
function ofAllNodes({ redisOptions = {} }: ClusterOptions): RedisOptions {
  return {
    ...NO_RESEND,
    connectTimeout: connectTimeoutOf(redisOptions),
    // Without an offline queue ioredis refuses commands, its own ready check too, for a node that is just
    // connecting; one that waits for its first command takes it.
    lazyConnect: true,
  };
}

/** What ioredis takes where nothing is given. */
const DEFAULT_SLOTS_REFRESH_TIMEOUT_MS = 1_000;

function clusterOptions(
  options: ClusterOptions,
  forAll: RedisOptions,
  silenceLimitMs: number,
): DuplicateOptions {
  const { slotsRefreshTimeout = DEFAULT_SLOTS_REFRESH_TIMEOUT_MS } = options;
  return {
    ...options,
    ...NO_FIELDSETS,
    // ioredis 5 does not merge these when it duplicates.
    redisOptions: { ...options.redisOptions, ...forAll } as DuplicateOptions['redisOptions'],
    keyPrefix: '',
    scaleReads: 'master',
    enableOfflineQueue: false,
    enableAutoPipelining: false,
    lazyConnect: false,
    // The two cases in which a command may already have run.
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    // MOVED and ASK are followed, as often and as soon as ioredis does by itself. What it puts aside outlives the caller, and close().
    maxRedirections: 16,
    retryDelayOnMoved: 0,
    retryDelayOnTryAgain: 100,
    // A node that does not say who has which slot keeps all others from being asked.
    slotsRefreshTimeout: Math.min(
      slotsRefreshTimeout,
      Math.max(silenceLimitMs, DEFAULT_SLOTS_REFRESH_TIMEOUT_MS),
    ),
    clusterRetryStrategy: toldReconnectDelayMs,
    // A node that is lost may be lost for good: ask the others for its slots, do not wait for it.
    clusterNodeRetryStrategy: () => null,
    // ioredis sets its timer anew when an answer comes after the client's end, and keeps the process alive. `IoredisClient` has its own.
    slotsRefreshInterval: 0,
    // ioredis' sharded subscribers lose channels when slots move; ours are connections to single nodes.
    shardedSubscribers: false,
  };
}

/** The event by which a cluster's client of ours tells that it may not send ASKING, with the error. */
export const ASKING_DENIED = 'asking denied';

/**
 * While a slot migrates, ioredis sends an ASKING of its own and drops its promise: if that connection is lost, the rejection would end
 * the process. What went wrong is known by the command behind the ASKING, except when ASKING is denied: that command is only redirected
 * back to the former node, so an event tells of the denial.
 */
function withAskingHandled(cluster: Cluster): Cluster {
  cluster.on('+node', (node: Redis) => {
    const asking = node.asking.bind(node);
    node.asking = (...args: Parameters<Redis['asking']>) => {
      const asked = asking(...args);
      asked.catch((error: unknown) => {
        if (failureKind(asFailure(error)) === 'denied') cluster.emit(ASKING_DENIED, error);
      });
      return asked;
    };
  });
  return cluster;
}

/** What a cluster's client of ours tells when an attempt to connect ends before any node was asked: the error. */
export const NOT_BEGUN = 'not begun';

/** Why an attempt ended before any node was asked (a host name is unknown, perhaps), ioredis tells its retry strategy and nobody else. */
function toldReconnectDelayMs(this: Cluster, attempt: number, reason?: Error): number {
  if (reason) this.emit(NOT_BEGUN, reason);
  return reconnectDelayMs(attempt);
}

/** Exponential from 50 ms, with jitter so that a fleet does not come back as one. */
function reconnectDelayMs(attempt: number): number {
  return (
    Math.min(62.5 * 2 ** (attempt - 1), LONGEST_RECONNECT_DELAY_MS) * (0.6 + 0.4 * Math.random())
  );
}
