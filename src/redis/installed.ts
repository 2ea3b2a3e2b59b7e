// Chooses the client library for a user's Redis. Each library is optional, and loaded only if it is needed.

import nodeModule from 'node:module';
import { resolve } from 'node:path';
import { OptionError } from '../api/errors.js';
import { isPlainObject } from '../api/options.js';
import type { Ioredis } from './ioredis/connection.js';
import { ioredisLibrary, isIoredisClient } from './ioredis/library.js';
import type { NodeRedis } from './node-redis/connection.js';
import { isOfNodeRedis, nodeRedisLibrary } from './node-redis/library.js';
import { LIBRARY, type Library, type LibrarySource } from './port.js';

/**
 * Where Redis is, in one of these forms:
 *
 * - a URL, such as `redis://user:password@host:6379/0`, or `rediss://` for TLS; `valkey://` and `valkeys://` are the same
 * - a client of ioredis (`Redis`, `Cluster`) or of node-redis (`createClient()`, `createCluster()`); only its options are read
 * - plain options: of node-redis if they have `url`, `socket`, `rootNodes` or `sentinelRootNodes`, otherwise of ioredis
 * - in tests, a `MemoryRedis` of `holdfast/testing`
 *
 * @group The client
 */
export type RedisSource = string | object;

// (A CommonJS bundle has no module URL: then the packages count that are installed beside the program. In one piece, since SWC translates
// no other form of `import.meta`.)
const url = (import.meta as Partial<ImportMeta>).url;
// By the module's own name, since webpack replaces an imported `createRequire` by its own.
const require = nodeModule.createRequire(url ?? resolve(process.argv[1] ?? '.'));

const NODE_REDIS = ['redis', '@redis/client'];

/** @throws OptionError the source cannot be used, or the library for it is not installed */
export function libraryFor(source: unknown): Library {
  if (isLibrarySource(source)) return source[LIBRARY]();
  checkKnown(source);
  if (typeof source === 'string' && usesNodeRedis()) return libraryFor({ url: source });
  // (Making a client to see what it can do would connect it in the oldest versions.)
  if (isOfNodeRedis(source))
    return nodeRedisLibrary(source, () => loaded(NODE_REDIS, 'createSentinel') as NodeRedis);
  return ioredisLibrary(source, () => loaded(['ioredis'], 'Redis') as Ioredis);
}

/** Whether a URL is for node-redis: only if ioredis is not installed. */
export function usesNodeRedis(): boolean {
  return !found(['ioredis']) && found(NODE_REDIS) !== undefined;
}

function isLibrarySource(source: unknown): source is LibrarySource {
  return typeof source === 'object' && source !== null && LIBRARY in source;
}

/** Whether it is a client that the option `redis` takes. */
export function isClient(source: unknown): boolean {
  return (
    isLibrarySource(source) ||
    isIoredisClient(source) ||
    (isOfNodeRedis(source) && !isPlainObject(source))
  );
}

/** Refuses clients of other libraries that look like one that we know, or that users ask for. */
function checkKnown(source: unknown): void {
  if (typeof source === 'function' && LIBRARY in (source.prototype as object))
    throw new OptionError(`option "redis" is the class ${source.name}: give new ${source.name}()`);
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

/** Loads the first package that is installed. `isNew`: an export that only a new enough version has. */
function loaded(names: readonly string[], isNew: string): object {
  const [name, library] = found(names) ?? [];
  if (library && isNew in library) return library;
  const what = name === undefined ? 'finds none' : `finds an older one (${require.resolve(name)})`;
  throw new OptionError(
    `option "redis" needs ${names.join(' or ')}, and holdfast ${what}: npm install ioredis (5.11 or newer, or 6), or npm install redis (5.12 or newer, or 6)`,
  );
}

function found(names: readonly string[]): readonly [string, object] | undefined {
  for (const name of names)
    try {
      return [name, require(name) as object];
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'MODULE_NOT_FOUND') throw error;
    }
  return undefined;
}
