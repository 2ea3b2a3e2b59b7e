// Which client library a user's Redis is for. Each is optional, and loaded only if it is needed.

import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { OptionError } from '../api/errors.js';
import type { Ioredis } from './ioredis/connection.js';
import { ioredisLibrary, isIoredisClient } from './ioredis/library.js';
import type { NodeRedis } from './node-redis/connection.js';
import { isOfNodeRedis, nodeRedisLibrary } from './node-redis/library.js';
import { LIBRARY, type Library, type LibrarySource } from './port.js';

/**
 * Where Redis is: a URL; a client of ioredis (`Redis`, `Cluster`) or of node-redis (`createClient()`, `createCluster()`), whose options are
 * read and which stays yours; or plain options: those of node-redis if they have `url`, `socket`, `rootNodes` or `sentinelRootNodes`, else
 * those of ioredis. In tests, a `MemoryRedis` of `holdfast/testing`.
 *
 * @group The client
 */
export type RedisSource = string | object;

const IOREDIS = 'ioredis 5.11 or newer, or 6';
const NODE_REDIS = 'node-redis 5.12 or newer, or 6';

// (In a bundle of CommonJS there is no URL of the module: then what is installed where the program stands counts.)
const { url } = import.meta as Partial<ImportMeta>;
const require = createRequire(url ?? resolve(process.argv[1] ?? '.'));

/** @throws OptionError the source cannot be used, or the library for it is not installed */
export function libraryFor(source: unknown): Library {
  if (isLibrarySource(source)) return source[LIBRARY]();
  checkKnown(source);
  if (isOfNodeRedis(source)) return nodeRedisLibrary(source, loadNodeRedis);
  if (typeof source !== 'string' || installed('ioredis') !== undefined || !hasNodeRedis())
    return ioredisLibrary(source, loadIoredis);
  return nodeRedisLibrary({ url: source }, loadNodeRedis);
}

function isLibrarySource(source: unknown): source is LibrarySource {
  return typeof source === 'object' && source !== null && LIBRARY in source;
}

/** Clients of other libraries that look like one that we know, or that users ask for. */
function checkKnown(source: unknown): void {
  if (typeof source !== 'object' || source === null) return;
  const what =
    'customCommand' in source
      ? 'a client of GLIDE, which tells nobody when its connection is lost'
      : isIoredisClient(source) && source.constructor.name === 'RedisMock'
        ? 'a client of ioredis-mock, which has no server that several clients share'
        : undefined;
  if (what === undefined) return;
  throw new OptionError(
    `option "redis" is ${what}: give a client of ioredis or node-redis, a URL, or options`,
  );
}

function loadIoredis(): Ioredis {
  const ioredis = installed('ioredis') as Partial<Ioredis> | undefined;
  if (ioredis?.Redis === undefined) throw missing(IOREDIS, 'ioredis', ioredis !== undefined);
  return ioredis as Ioredis;
}

function loadNodeRedis(): NodeRedis {
  const nodeRedis = (installed('redis') ?? installed('@redis/client')) as NodeRedis | undefined;
  if (!nodeRedis) throw missing(NODE_REDIS, 'redis', false);
  // It has this since version 5. (To make a client would connect it in the oldest ones.)
  if (!('createSentinel' in nodeRedis)) throw missing(NODE_REDIS, 'redis', true);
  return nodeRedis;
}

function hasNodeRedis(): boolean {
  return (installed('redis') ?? installed('@redis/client')) !== undefined;
}

function installed(name: string): unknown {
  try {
    return require(name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'MODULE_NOT_FOUND') return undefined;
    throw error;
  }
}

function missing(what: string, name: string, isOld: boolean): OptionError {
  const found = isOld ? `finds ${versionOf(name)}` : 'does not find it';
  const other =
    name === 'ioredis'
      ? `; or ${NODE_REDIS}: npm install redis`
      : `; or ${IOREDIS}: npm install ioredis`;
  return new OptionError(
    `option "redis" needs ${what}, and holdfast ${found}: npm install ${name}${other}`,
  );
}

function versionOf(name: string): string {
  try {
    const path = require.resolve(`${name}/package.json`);
    return `${(require(path) as { version: string }).version} (${path})`;
  } catch {
    return 'an older one';
  }
}
