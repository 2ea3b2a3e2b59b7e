// node-redis behind the port: reads the user's options, or those of the user's client, anew for each connection.

import { OptionError } from '../../api/errors.js';
import { isPlainObject } from '../../api/options.js';
import { textOf, type Library } from '../port.js';
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
import { NodeRedisConnection, type NodeRedis, type NodeRedisOptions } from './connection.js';

/** The options that are read: of one server's client, of a cluster's, or of Sentinels'. */
interface Options extends NodeRedisOptions {
  readonly rootNodes?: unknown;
  readonly defaults?: NodeRedisOptions;
  readonly sentinelRootNodes?: unknown;
  readonly nodeClientOptions?: NodeRedisOptions;
  readonly sentinelClientOptions?: NodeRedisOptions;
  readonly nodeAddressMap?: unknown;
}

/** A client of `createClient()` or `createCluster()`. Those of `createSentinel()` and `createClientPool()` have neither of these fields. */
interface Client {
  readonly options?: Options;
  /** (Private to the types of a cluster: nothing else says where it connects to.) */
  readonly _options?: Options;
}

/** The options of where a socket connects to, which we set. */
const PLACE = ['host', 'port', 'path'];

const WHOSE = 'option "redis": its ';

/** The options of `createClient()` of node-redis 5 and 6. */
const NAMES = knownNames(
  `url socket username password name database keyPrefix credentialsProvider RESP modules functions scripts
  commandsQueueMaxLength disableOfflineQueue readonly pingInterval commandOptions clientSideCache himportRegistry
  disableClientInfo clientInfoTag emitInvalidate maintNotifications maintEndpointType maintRelaxedCommandTimeout
  maintRelaxedSocketTimeout`,
  {
    ...{ host: 'socket.host', hostname: 'socket.host', port: 'socket.port', path: 'socket.path' },
    ...{
      tls: 'socket.tls',
      ssl: 'socket.tls',
      family: 'socket.family',
      sentinels: 'sentinelRootNodes',
    },
    ...{
      db: 'database',
      user: 'username',
      pass: 'password',
      connectionName: 'name',
      prefix: 'keyPrefix',
    },
  },
);

const SOCKET_NAMES = knownNames(
  `host port path family tls connectTimeout socketTimeout reconnectStrategy keepAlive keepAliveInitialDelay noDelay
  localAddress localPort lookup hints timeout signal servername ca cert key pfx passphrase rejectUnauthorized
  checkServerIdentity minVersion maxVersion ciphers`,
  { hostname: 'host', ssl: 'tls', address: 'host' },
);

/** Whether the source is a client of node-redis, or options in its form. */
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
    open(address, purpose, heard) {
      const read = (): NodeRedisOptions => {
        const { socket = {}, ...options } = withoutUrl(optionsFor(address, purpose));
        const others = Object.entries(socket).filter(([name]) => !PLACE.includes(name));
        return { ...options, socket: { ...Object.fromEntries(others), ...address } };
      };
      return new NodeRedisConnection(template, read, heard);
    },
  };
}

function givenBy(source: object): Given<NodeRedisOptions> {
  if (isPlainObject(source)) return ofOptions(source);
  const { options, _options } = source as Client;
  if (_options?.rootNodes) return ofCluster(_options);
  // (A client has turned its URL into the other options, and accepts more kinds of URLs than we do.)
  if (options) return ofServer(() => ({ ...options, url: undefined }));
  throw new OptionError(
    'option "redis" is a pool or a Sentinel client of node-redis, which hides where it connects to: it must be what createClient() or createCluster() returns, or plain options: for Sentinels { name, sentinelRootNodes, nodeClientOptions }',
  );
}

function ofOptions(options: Options): Given<NodeRedisOptions> {
  if ('rootNodes' in options) return ofCluster(options);
  if ('sentinelRootNodes' in options) return ofSentinels(options);
  checkNames('option "redis"', options, NAMES);
  const given = ofServer(() => options);
  checkPlace('option "redis"', options);
  return given;
}

function checkPlace(whose: string, options: NodeRedisOptions): void {
  const place = 'url' in options ? { url: options.url } : {};
  checkAddress(whose, { ...place, ...options.socket }, ['url', ...PLACE]);
}

function ofServer(read: () => NodeRedisOptions): Given<NodeRedisOptions> {
  const { address, database, ...named } = placeOf(WHOSE, read());
  return { target: { kind: 'single', address, database }, ...named, optionsFor: read };
}

function ofSentinels(options: Options): Given<NodeRedisOptions> {
  const { sentinelRootNodes, name, nodeClientOptions = {} } = options;
  checkNames(`${WHOSE}nodeClientOptions`, nodeClientOptions, NAMES);
  const { database, connectionName } = placeOf(`${WHOSE}nodeClientOptions' `, nodeClientOptions);
  return {
    target: {
      kind: 'sentinel',
      database,
      ...sentinelsIn(WHOSE, 'sentinelRootNodes', sentinelRootNodes, name),
      isFixed: false,
      remap: remapOf(options.nodeAddressMap),
    },
    keyPrefix: prefixOf(options.keyPrefix),
    connectionName,
    optionsFor: (_address, purpose) =>
      (purpose === 'sentinel' ? options.sentinelClientOptions : options.nodeClientOptions) ?? {},
  };
}

function ofCluster(options: Options): Given<NodeRedisOptions> {
  const rootNodes: unknown = options.rootNodes;
  if (!Array.isArray(rootNodes) || rootNodes.length === 0)
    throw new OptionError(`${WHOSE}rootNodes must be an array of nodes, such as [{ url }]`);
  const ofRoot = 'option "redis": a root node of the cluster';
  const roots = rootNodes.map((root: NodeRedisOptions) => {
    checkNames(ofRoot, root, NAMES);
    const { address, database } = placeOf(`${ofRoot}: its `, root);
    checkPlace(ofRoot, root);
    checkClusterDatabase('a root node of the cluster', database);
    return { address, root };
  });
  checkNames(`${WHOSE}defaults`, options.defaults ?? {}, NAMES);
  checkClusterDatabase('the defaults of the cluster', options.defaults?.database);
  return {
    target: {
      kind: 'cluster',
      startup: roots.map(({ address }) => address),
      remap: remapOf(options.nodeAddressMap),
    },
    keyPrefix: prefixOf(options.keyPrefix),
    connectionName: options.defaults?.name,
    optionsFor(address) {
      // The options of a root node are for its own connections only, as in node-redis itself.
      const own = roots.find((each) => textOf(each.address) === textOf(address))?.root ?? {};
      const [ofAll, ofOne] = [withoutUrl(options.defaults ?? {}), withoutUrl(own)];
      return { ...ofAll, ...ofOne, socket: { ...ofAll.socket, ...ofOne.socket } };
    },
  };
}

/** The options that are read once. (The others may have getters, and are read for each attempt.) */
function placeOf(whose: string, { url, socket, database, keyPrefix, name }: NodeRedisOptions) {
  const ofUrl = url === undefined ? undefined : parseRedisUrl(`${whose}url`, url);
  if (socket) checkSocket(whose, socket);
  const isInUrl = ofUrl !== undefined && ofUrl.database !== 0;
  return {
    address: ofUrl?.address ?? addressOf(whose, socket),
    database: isInUrl ? ofUrl.database : wholeNumber(`${whose}database`, database ?? 0),
    keyPrefix: prefixOf(keyPrefix ?? ofUrl?.keyPrefix),
    connectionName: name ?? ofUrl?.connectionName,
  };
}

function checkSocket(whose: string, socket: NonNullable<NodeRedisOptions['socket']>): void {
  checkNames(`${whose}socket`, socket, SOCKET_NAMES);
  const tls = 'tls' in socket ? (socket.tls as unknown) : undefined;
  // node-redis would connect without TLS.
  if (tls !== undefined && typeof tls !== 'boolean')
    throw new OptionError(
      `${whose}socket.tls must be true or false; what tls.connect() takes stands beside it: socket: { tls: true, ca, … }`,
    );
}

/** The options with the parts of their URL in its place. (We read it: an error of node-redis would show the URL.) */
function withoutUrl({ url, ...options }: NodeRedisOptions): NodeRedisOptions {
  if (url === undefined) return options;
  const { address, isTls, family, username, password } = parseRedisUrl(`${WHOSE}url`, url);
  const isWithCredentials = username !== undefined || password !== undefined;
  return {
    ...options,
    // The URL goes before the other options, as in node-redis itself.
    ...(isWithCredentials && { credentialsProvider: undefined }),
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    socket: {
      ...options.socket,
      ...(family !== undefined && { family }),
      ...address,
      ...(isTls && { tls: true }),
    },
  };
}

function prefixOf(prefix: NodeRedisOptions['keyPrefix'] = ''): string {
  return typeof prefix === 'string' ? prefix : Buffer.from(prefix).toString();
}
