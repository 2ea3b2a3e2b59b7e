// ioredis as a library of ours: its user's options, or those of a client of theirs, which is only read. They are read anew for each connection.

import { OptionError } from '../../api/errors.js';
import { isPlainObject, shown } from '../../api/shown.js';
import { textOf, type Address, type Library, type Purpose, type Target } from '../port.js';
import {
  addressOf,
  checkClusterDatabase,
  defined,
  parseRedisUrl,
  remapOf,
  sentinelsIn,
  wholeNumber,
  without,
  type Place,
  type RedisUrl,
} from '../redis-url.js';
import { IoredisConnection, type Ioredis } from './connection.js';

/** The options of ioredis that we read; all others are passed on. */
interface IoredisOptions extends Place {
  readonly db?: number | string | null;
  readonly tls?: object | null;
  readonly keyPrefix?: string | null;
  readonly connectionName?: string | null;
  readonly natMap?: unknown;
  readonly sentinels?: unknown;
  readonly name?: string | null;
  readonly updateSentinels?: boolean | null;
  readonly sentinelUsername?: string | null;
  readonly sentinelPassword?: string | null;
  readonly sentinelTLS?: object | null;
  readonly enableTLSForSentinelMode?: boolean | null;
}

interface IoredisClusterOptions {
  readonly redisOptions?: IoredisOptions | null;
  readonly natMap?: unknown;
  readonly keyPrefix?: string | null;
  readonly slotsRefreshInterval?: number | null;
}

/** A client of ioredis. It is known by its shape, since ioredis may be installed more than once, and has forks. */
interface IoredisClient {
  readonly options: IoredisOptions | IoredisClusterOptions;
  readonly status: string;
  readonly isCluster?: boolean;
  readonly startupNodes?: unknown;
  readonly duplicate: unknown;
  /** What it knows of its connection; while there is none, `prevCondition` is that of the one before. */
  readonly condition?: { readonly select?: number } | null;
  readonly prevCondition?: { readonly select?: number } | null;
}

/** What is said of a Redis: where it is, and the options of each connection as they are now, for tokens expire. */
interface Given extends Omit<Library, 'open'> {
  readonly optionsFor: (address: Address, purpose: Purpose) => IoredisOptions;
}

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
    open: (address, purpose, heard) =>
      new IoredisConnection(
        ioredis,
        () => ({ ...optionsFor(address, purpose), ...placed(address) }),
        heard,
      ),
  };
}

function givenBy(source: unknown): Given {
  if (typeof source === 'string') return ofUrl(parseRedisUrl('option "redis"', source));
  if (isIoredisClient(source)) {
    if (source.status === 'end')
      throw new OptionError(
        'option "redis" is a client of ioredis that was closed: give one that is open, or its options',
      );
    if (source.isCluster) return ofCluster(source);
    checkSelected(source);
    return ofOptions(() => source.options, 'the instance’s ');
  }
  // The user's own object is read each time: it may have getters.
  if (isPlainObject(source)) return ofOptions(() => source, 'its ');
  throw new OptionError(
    `option "redis" is ${shown(source)}: it must be a URL such as redis://localhost:6379, options such as { host, port }, or a client of ioredis or node-redis`,
  );
}

function ofUrl({
  address,
  database,
  isTls,
  keyPrefix = '',
  connectionName,
  ...others
}: RedisUrl): Given {
  const options = { ...others, ...(isTls && { tls: {} }) };
  return {
    target: { kind: 'single', address, database },
    keyPrefix,
    connectionName,
    optionsFor: () => options,
  };
}

function ofOptions(options: () => IoredisOptions, whose: string): Given {
  const target = targetOf(options(), `option "redis": ${whose}`);
  return {
    target,
    keyPrefix: options().keyPrefix ?? '',
    connectionName: options().connectionName ?? undefined,
    optionsFor(_address, purpose) {
      const { tls, ...theirs } = options();
      if (purpose === 'sentinel') {
        const { sentinelUsername: username, sentinelPassword: password, sentinelTLS } = theirs;
        const others = without(theirs, ['username', 'password', 'Connector']);
        return { ...others, ...defined({ username, password, tls: sentinelTLS }) };
      }
      const isPlain = target.kind === 'sentinel' && !theirs.enableTLSForSentinelMode;
      return isPlain ? theirs : { ...theirs, ...defined({ tls }) };
    },
  };
}

function targetOf(options: IoredisOptions, whose: string): Target {
  const { sentinels, name, natMap } = options;
  const database = wholeNumber(`${whose}db`, options.db ?? 0);
  const address = addressOf(whose, options);
  if (!sentinels) return { kind: 'single', address, database };
  return {
    kind: 'sentinel',
    database,
    ...sentinelsIn(whose, 'sentinels', sentinels, name),
    isFixed: options.updateSentinels === false,
    remap: remapOf(natMap),
  };
}

/** (The start-up nodes are private to ioredis' types: nothing else tells where a user's Cluster connects to.) */
function ofCluster(cluster: IoredisClient): Given {
  const { startupNodes } = cluster;
  const options = cluster.options as IoredisClusterOptions;
  if (!Array.isArray(startupNodes) || startupNodes.length === 0)
    throw new OptionError('option "redis" is a Cluster without start-up nodes: it must have one');
  checkClusterDatabase('the redisOptions of the cluster', options.redisOptions?.db);
  const nodes = startupNodes.map(startupNode);
  return {
    target: {
      kind: 'cluster',
      startup: nodes.map(({ address }) => address),
      remap: remapOf(options.natMap),
      refreshMs: options.slotsRefreshInterval ?? 0,
    },
    keyPrefix: options.keyPrefix ?? options.redisOptions?.keyPrefix ?? '',
    connectionName: options.redisOptions?.connectionName ?? undefined,
    optionsFor(address) {
      const node = nodes.find((each) => textOf(each.address) === textOf(address));
      return { ...options.redisOptions, ...node?.options };
    },
  };
}

function startupNode(node: unknown): { address: Address; options: object } {
  const what = 'option "redis": a start-up node of the cluster';
  if (typeof node === 'object' && node) {
    const { host, port, path, ...options } = node as IoredisOptions;
    checkClusterDatabase('a start-up node of the cluster', options.db);
    const fallback = { host: '127.0.0.1', port: 6379 };
    return { address: addressOf(`${what}: its `, { host, port, path }, fallback), options };
  }
  const { address, database, isTls, ...options } = parseRedisUrl(what, String(node));
  checkClusterDatabase('a start-up node of the cluster', database);
  return { address, options: { ...options, ...(isTls && { tls: {} }) } };
}

/** Our connections are made from the options of an instance. The database that its `select()` chose is not among them, and may change. */
function checkSelected({ condition, prevCondition, options }: IoredisClient): void {
  const selected = (prevCondition ?? condition)?.select;
  const { db } = options as IoredisOptions;
  if (selected === undefined || selected === Number(db ?? 0)) return;
  throw new OptionError(
    `option "redis" is an instance that has selected database ${String(selected)}, and its options name ${String(db ?? 0)}: give it "db" in its options`,
  );
}

function placed(address: Address): object {
  return 'path' in address ? { path: address.path } : { ...address, path: undefined };
}
