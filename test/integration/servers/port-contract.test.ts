// Each client library keeps the promises of the port, in each version that holdfast supports.
import { createRequire } from 'node:module';
import type { Ioredis } from '../../../src/redis/ioredis/connection.js';
import { ioredisLibrary } from '../../../src/redis/ioredis/library.js';
import type { NodeRedis } from '../../../src/redis/node-redis/connection.js';
import { nodeRedisLibrary } from '../../../src/redis/node-redis/library.js';
import type { Library } from '../../../src/redis/port.js';
import { portContract, type ContractOptions } from '../../support/port-contract.js';

const require = createRequire(import.meta.url);

function ofIoredis(name: string) {
  return (options: ContractOptions): Library => {
    const { ca } = options;
    const tls = ca === undefined ? undefined : { ...(ca !== '' && { ca }) };
    return ioredisLibrary(
      withGetters(options, { host: 'any', protocol: 3, ...(tls && { tls }) }),
      () => {
        return require(name) as Ioredis;
      },
    );
  };
}

function ofNodeRedis(name: string) {
  return (options: ContractOptions): Library => {
    const { ca } = options;
    const host = 'any'; // each connection is opened to an address of its own
    const socket = { host, ...(ca !== undefined && { tls: true, ...(ca !== '' && { ca }) }) };
    return nodeRedisLibrary(withGetters(options, { RESP: 3, socket }), () => {
      return require(name) as NodeRedis;
    });
  };
}

/** The same object with more properties, without reading its getters. */
function withGetters(options: ContractOptions, more: object): object {
  const own: PropertyDescriptorMap = Object.getOwnPropertyDescriptors(options);
  delete own['ca'];
  return Object.defineProperties({ ...more }, own);
}

portContract('ioredis 6', ofIoredis('ioredis'));
portContract('ioredis 5', ofIoredis('ioredis5'));
portContract('node-redis 6', ofNodeRedis('redis'));
portContract('node-redis 5', ofNodeRedis('redis5'));
