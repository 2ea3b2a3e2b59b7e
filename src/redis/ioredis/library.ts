// ioredis behind the port: reads the user's options, or those of the user's client, anew for each connection.

import type { ClusterOptions, RedisOptions } from 'ioredis';
import { OptionError } from '../../api/errors.js';
import { isPlainObject, shown } from '../../api/options.js';
import { textOf, type Library, type Target } from '../port.js';
import {
  addressOf,
  checkAddress,
  checkClusterDatabase,
  checkNames,
  knownNames,
  parseRedisUrl,
  remapOf,
  sentinelsIn,
  wholeNumber,
  type Given,
} from '../redis-url.js';
import { IoredisConnection, type Ioredis } from './connection.js';

/** A client of ioredis, recognized by its shape, since ioredis may be installed more than once, and has forks. */
interface IoredisClient {
  readonly options: object;
  readonly status: string;
  readonly isCluster?: boolean;
  readonly duplicate: unknown;
  /** (Private to ioredis' types: nothing else says where a user's Cluster connects to.) */
  readonly startupNodes?: unknown;
  /** The state of its connection; while there is none, `prevCondition` is that of the one before. */
  readonly condition?: { readonly select?: number } | null;
  readonly prevCondition?: { readonly select?: number } | null;
}

/** The options of a `Redis` of ioredis 5 and 6. */
const NAMES = knownNames(
  `host port path family db username password tls name role keyPrefix connectionName keepAlive noDelay
  connectTimeout commandTimeout socketTimeout blockingTimeout blockingTimeoutGrace disconnectTimeout maxLoadingRetryTime
  retryStrategy reconnectOnError autoResubscribe autoResendUnfulfilledCommands maxRetriesPerRequest enableOfflineQueue
  enableReadyCheck enableAutoPipelining autoPipeliningIgnoredCommands lazyConnect readOnly monitor stringNumbers scripts
  disableClientInfo clientInfoTag protocol replyMapping himportFieldsets showFriendlyErrorStack offlineQueue commandQueue
  sentinels sentinelUsername sentinelPassword sentinelRetryStrategy sentinelReconnectStrategy sentinelCommandTimeout
  sentinelMaxConnections sentinelTLS enableTLSForSentinelMode preferredSlaves natMap updateSentinels failoverDetector`,
  {
    ...{ hostname: 'host', server: 'host', address: 'host', prefix: 'keyPrefix' },
    ...{ user: 'username', pass: 'password', auth: 'password', auth_pass: 'password' },
    ...{ database: 'db', ssl: 'tls', masterName: 'name', sentinelName: 'name' },
    ...{
      ca: 'tls.ca',
      cert: 'tls.cert',
      key: 'tls.key',
      rejectUnauthorized: 'tls.rejectUnauthorized',
    },
  },
);

export function isIoredisClient(source: unknown): source is IoredisClient {
  if (typeof source !== 'object' || source === null) return false;
  const { duplicate, options, status } = source as Partial<IoredisClient>;
  return typeof duplicate === 'function' && typeof options === 'object' && status !== undefined;
}

/**
 * @param load - gives ioredis itself
 * @throws OptionError the source cannot be used
 */
export function ioredisLibrary(source: unknown, load: () => Ioredis): Library {
  const { optionsFor, ...given } = givenBy(source);
  const ioredis = load();
  return {
    ...given,
    open(address, purpose, heard) {
      const place = { host: undefined, port: undefined, path: undefined, ...address };
      const read = (): object => ({ ...optionsFor(address, purpose), ...place });
      return new IoredisConnection(ioredis, read, heard);
    },
  };
}

function givenBy(source: unknown): Given<object> {
  if (typeof source === 'string') {
    const options = ofUrl('option "redis"', source);
    return ofOptions(() => options);
  }
  // (Only its options are read: it need not be open.)
  if (isIoredisClient(source)) {
    if (source.isCluster) return ofCluster(source.options, source.startupNodes);
    checkSelected(source);
    return ofOptions(() => source.options);
  }
  // The user's own object is read each time: it may have getters.
  if (isPlainObject(source)) {
    checkNames('option "redis"', source, NAMES);
    const given = ofOptions(() => source);
    if (!('Connector' in source))
      // which knows where to connect itself
      checkAddress('option "redis"', source, ['host', 'port', 'path', 'sentinels']);
    return given;
  }
  throw new OptionError(
    `option "redis" is ${shown(source)}${source === undefined ? ' (is an environment variable missing?)' : ''}: it must be a URL as text, such as redis://localhost:6379, options such as { host, port }, or a client of ioredis or node-redis`,
  );
}

function ofUrl(what: string, text: string): RedisOptions {
  const { address, database, isTls, ...others } = parseRedisUrl(what, text);
  return { ...others, ...address, db: database, ...(isTls && { tls: {} }) };
}

function ofOptions(read: () => RedisOptions): Given<object> {
  const whose = 'option "redis": its ';
  const now = read();
  const database = wholeNumber(`${whose}db`, now.db ?? 0);
  const address = addressOf(whose, now);
  const target: Target = !now.sentinels
    ? { kind: 'single', address, database }
    : {
        kind: 'sentinel',
        database,
        ...sentinelsIn(whose, 'sentinels', now.sentinels, now.name),
        isFixed: now.updateSentinels === false,
        remap: remapOf(now.natMap),
      };
  return {
    target,
    keyPrefix: now.keyPrefix ?? '',
    connectionName: now.connectionName ?? undefined,
    optionsFor(_address, purpose) {
      const options = read();
      if (purpose === 'sentinel') {
        const { sentinelUsername: username, sentinelPassword: password, sentinelTLS } = options;
        return { ...options, username, password, tls: sentinelTLS, Connector: undefined };
      }
      const isPlain = target.kind === 'sentinel' && !options.enableTLSForSentinelMode;
      return isPlain ? { ...options, tls: undefined } : options;
    },
  };
}

function ofCluster(options: ClusterOptions, startupNodes: unknown): Given<object> {
  if (!Array.isArray(startupNodes) || startupNodes.length === 0)
    throw new OptionError('option "redis" is a Cluster without start-up nodes: it must have one');
  const what = 'option "redis": a start-up node of the cluster';
  const nodes = startupNodes.map((given: RedisOptions | string | number) => {
    const node = typeof given === 'object' ? given : ofUrl(what, String(given));
    checkClusterDatabase('a start-up node of the cluster', node.db);
    const place = { ...node, host: node.host ?? '127.0.0.1' };
    return { node, address: addressOf(`${what}: its `, place) };
  });
  const { redisOptions } = options;
  checkClusterDatabase('the redisOptions of the cluster', redisOptions?.db);
  return {
    target: {
      kind: 'cluster',
      startup: nodes.map(({ address }) => address),
      remap: remapOf(options.natMap),
    },
    keyPrefix: options.keyPrefix ?? redisOptions?.keyPrefix ?? '',
    connectionName: redisOptions?.connectionName ?? undefined,
    optionsFor(address) {
      const own = nodes.find((each) => textOf(each.address) === textOf(address))?.node;
      return { ...options.redisOptions, ...own };
    },
  };
}

/** The options of an instance, for our connections. The database that its `select()` chose is not among them, and may change. */
function checkSelected({ condition, prevCondition, options }: IoredisClient): void {
  const selected = (prevCondition ?? condition)?.select;
  const db = String((options as RedisOptions).db ?? 0);
  if (selected === undefined || selected === Number(db)) return;
  throw new OptionError(
    `option "redis" is an instance that has selected database ${String(selected)}, and its options name ${db}: give it "db" in its options`,
  );
}
