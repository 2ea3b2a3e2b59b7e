// HOLDFAST_LIBRARY says on which client library tests and benchmarks run: ioredis@6 (the default), ioredis@5, redis@6 or redis@5. A Node
// process is told by: node --import ./test/support/library-under-test.mjs
//
// The tests give Redis as users of ioredis do. On node-redis, src/redis/ioredis/ reads that, but each connection is one of node-redis. What is
// built knows of no stand-in: it does not find ioredis, and takes node-redis for a URL.
import { existsSync } from 'node:fs';
import Module, { register } from 'node:module';

const libraryUnderTest = process.env.HOLDFAST_LIBRARY ?? 'ioredis@6';
if (!['ioredis@6', 'ioredis@5', 'redis@6', 'redis@5'].includes(libraryUnderTest))
  throw new Error(`HOLDFAST_LIBRARY is ${libraryUnderTest}`);

const isNodeRedis = libraryUnderTest.startsWith('redis@');
const source = new URL('node-redis-connection.ts', import.meta.url);
const standIn = existsSync(source) ? source.href : source.href.replace(/ts$/, 'js'); // compiled.ts leaves only the .js

/** The installed package that stands for another one. */
const packages =
  { 'ioredis@5': { ioredis: 'ioredis5' }, 'redis@5': { redis: 'redis5' } }[libraryUnderTest] ?? {};

/** Which module stands for the one that `importer` imports as `specifier`; undefined: itself. */
export function substituteFor(specifier, importer = '') {
  const isConnection =
    specifier === './connection.js' && /\/src\/redis\/ioredis\/library\.[jt]s$/.test(importer);
  return isNodeRedis && isConnection ? standIn : packages[specifier];
}

// What holdfast loads by `require`.
const resolveFilename = Module._resolveFilename;
Module._resolveFilename = function (request, parent, ...others) {
  const isHidden = isNodeRedis && request === 'ioredis' && /\/dist\/redis\//.test(parent?.filename);
  if (isHidden) throw Object.assign(new Error('hidden'), { code: 'MODULE_NOT_FOUND' });
  return resolveFilename.call(this, packages[request] ?? request, parent, ...others);
};

// What is imported. (Under vitest its configuration does this.)
if (!process.env.VITEST && libraryUnderTest !== 'ioredis@6')
  register(
    `data:text/javascript,${encodeURIComponent(`
      const isNodeRedis = ${String(isNodeRedis)};
      const standIn = ${JSON.stringify(standIn)};
      const packages = ${JSON.stringify(packages)};
      ${substituteFor.toString().replace('export ', '')}
      export function resolve(specifier, context, next) {
        return next(substituteFor(specifier, context.parentURL) ?? specifier, context);
      }`)}`,
  );
