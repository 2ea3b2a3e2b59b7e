// node-redis as a library of ours: its user's options, or those of a client of theirs, which is only read. They are read anew for each connection.

import { OptionError } from '../../api/errors.js';
import { isPlainObject, shown } from '../../api/shown.js';
import { textOf, type Address, type Library, type Purpose } from '../port.js';
import {
  addressOf,
  checkClusterDatabase,
  defined,
  parseRedisUrl,
  remapOf,
  sentinelsIn,
  wholeNumber,
  without,
} from '../redis-url.js';
import {
  NodeRedisConnection,
  type NodeRedis,
  type NodeRedisOptions,
  type Prefix,
} from './connection.js';

/** Where a socket connects to: we say that. */
const PLACE = ['host', 'port', 'path'];

interface ClusterOptions {
  readonly rootNodes: readonly NodeRedisOptions[];
  readonly defaults?: NodeRedisOptions;
  readonly nodeAddressMap?: unknown;
  readonly keyPrefix?: Prefix;
}

interface SentinelOptions {
  readonly name: string;
  readonly sentinelRootNodes: readonly { readonly host: string; readonly port: number }[];
  readonly nodeClientOptions?: NodeRedisOptions;
  readonly sentinelClientOptions?: NodeRedisOptions;
  readonly nodeAddressMap?: unknown;
  readonly keyPrefix?: Prefix;
}

/** What is said of a Redis: where it is, and the options of each connection as they are now, for credentials expire. */
interface Given extends Omit<Library, 'open'> {
  readonly optionsFor: (address: Address, purpose: Purpose) => NodeRedisOptions;
}

/** A client of node-redis: one of `createClient()`, `createCluster()`, `createSentinel()` or `createClientPool()`. */
interface Client {
  readonly isOpen: boolean;
  readonly duplicate?: unknown;
  readonly options?: NodeRedisOptions;
  /** (The options of a cluster's are private to its types: nothing else tells where it connects to.) */
  readonly _options?: ClusterOptions;
}

/** Whether it is a client of node-redis, or options in its form. */
export function isOfNodeRedis(source: unknown): source is object {
  if (typeof source !== 'object' || source === null) return false;
  if (isPlainObject(source))
    return ['url', 'socket', 'rootNodes', 'sentinelRootNodes'].some((name) => name in source);
  return 'isOpen' in source;
}

/**
 * @param load - gives node-redis itself
 * @throws OptionError the source cannot be used
 */
export function nodeRedisLibrary(source: object, load: () => NodeRedis): Library {
  const { optionsFor, ...given } = givenBy(source);
  // Each `createClient()` would build a class with hundreds of methods, which takes 30 ms; a duplicate shares it.
  const template = load().createClient({ maintNotifications: 'disabled' });
  return {
    ...given,
    open: (address, purpose, heard) =>
      new NodeRedisConnection(
        template,
        () => {
          const { socket, ...options } = normal(optionsFor(address, purpose));
          return { ...options, socket: { ...without(socket ?? {}, PLACE), ...address } };
        },
        heard,
      ),
  };
}

function givenBy(source: object): Given {
  if (isPlainObject(source)) {
    if ('rootNodes' in source) return ofCluster(source as unknown as ClusterOptions);
    if ('sentinelRootNodes' in source) return ofSentinels(source as unknown as SentinelOptions);
    return ofOptions(() => source);
  }
  const client = source as Client;
  if (client._options?.rootNodes) return ofCluster(client._options);
  if (client.options && typeof client.duplicate === 'function')
    return ofOptions(() => client.options ?? {}, true);
  throw new OptionError(
    'option "redis" is a pool or a Sentinel client of node-redis, which hides where it connects to: it must be what createClient() or createCluster() returns, or plain options: for Sentinels { name, sentinelRootNodes, nodeClientOptions }',
  );
}

/** `isRead`: a client has read the URL into the other options. (It takes more kinds of URLs than we do.) */
function ofOptions(options: () => NodeRedisOptions, isRead = false): Given {
  const { address, database, keyPrefix, name } = placeOf('option "redis": its ', options(), isRead);
  return {
    target: { kind: 'single', address, database },
    keyPrefix,
    connectionName: name,
    optionsFor: () => (isRead ? { ...options(), url: undefined } : options()),
  };
}

function ofSentinels(options: SentinelOptions): Given {
  const whose = 'option "redis": its ';
  const { name, sentinelRootNodes, nodeClientOptions = {} } = options;
  const node = placeOf(`${whose}nodeClientOptions' `, nodeClientOptions);
  return {
    target: {
      kind: 'sentinel',
      database: node.database,
      ...sentinelsIn(whose, 'sentinelRootNodes', sentinelRootNodes, name),
      isFixed: false,
      remap: remapOf(options.nodeAddressMap),
    },
    keyPrefix: prefixOf(options),
    connectionName: node.name,
    optionsFor: (_address, purpose) =>
      (purpose === 'sentinel' ? options.sentinelClientOptions : options.nodeClientOptions) ?? {},
  };
}

function ofCluster(options: ClusterOptions): Given {
  const given: unknown = options.rootNodes;
  if (!Array.isArray(given) || given.length === 0)
    throw new OptionError(
      `option "redis": its rootNodes is ${shown(given)}: it must be an array of at least one node, as in [{ url }]`,
    );
  const roots = options.rootNodes.map((root) => {
    const { address, database } = placeOf('option "redis": a root node of the cluster: its ', root);
    checkClusterDatabase('a root node of the cluster', database);
    return { address, root };
  });
  checkClusterDatabase('the defaults of the cluster', options.defaults?.database);
  return {
    target: {
      kind: 'cluster',
      startup: roots.map(({ address }) => address),
      remap: remapOf(options.nodeAddressMap),
      refreshMs: 0,
    },
    keyPrefix: prefixOf(options),
    connectionName: options.defaults?.name,
    optionsFor(address) {
      const { defaults = {} } = options;
      // What a root node brings is for its own connections only, as in node-redis itself.
      const own = roots.find((each) => textOf(each.address) === textOf(address))?.root ?? {};
      const [ofAll, ofOne] = [normal(defaults), normal(own)];
      return { ...ofAll, ...ofOne, socket: { ...ofAll.socket, ...ofOne.socket } };
    },
  };
}

/** What is read of the options once. (The others may have getters, which are for each attempt.) */
function placeOf(
  whose: string,
  options: NodeRedisOptions,
  isRead = false,
): { address: Address; database: number; keyPrefix: string; name: string | undefined } {
  const { url, socket, database, keyPrefix, name } = options;
  const ofUrl = isRead || url === undefined ? undefined : parseRedisUrl(`${whose}url`, url);
  return {
    address: ofUrl?.address ?? addressOf(whose, socket),
    database:
      ofUrl && ofUrl.database !== 0
        ? ofUrl.database
        : wholeNumber(`${whose}database`, database ?? 0),
    keyPrefix: prefixOf({ keyPrefix: keyPrefix ?? ofUrl?.keyPrefix }),
    name: name ?? ofUrl?.connectionName,
  };
}

/** The options with what their URL says in its place. (Read by us: an error of node-redis' would show the URL.) */
function normal({ url, ...options }: NodeRedisOptions): NodeRedisOptions {
  if (url === undefined) return options;
  const { address, isTls, username, password, family } = parseRedisUrl(
    'option "redis": its url',
    url,
  );
  const isWithCredentials = username !== undefined || password !== undefined;
  return {
    ...options,
    // The URL goes before the other options, as in node-redis itself.
    ...(isWithCredentials && { credentialsProvider: undefined }),
    ...defined({ username, password }),
    socket: {
      ...options.socket,
      ...defined({ family }),
      ...address,
      ...(isTls && { tls: true }),
    },
  };
}

function prefixOf({ keyPrefix = '' }: { readonly keyPrefix?: Prefix | undefined }): string {
  return typeof keyPrefix === 'string' ? keyPrefix : Buffer.from(keyPrefix).toString();
}
