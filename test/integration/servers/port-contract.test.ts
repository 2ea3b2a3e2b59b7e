// Each client library keeps the promises of the port, in each version and protocol that holdfast supports.
import { createRequire } from 'node:module';
import type { Ioredis } from '../../../src/redis/ioredis/connection.js';
import { ioredisLibrary } from '../../../src/redis/ioredis/library.js';
import type { NodeRedis } from '../../../src/redis/node-redis/connection.js';
import { nodeRedisLibrary } from '../../../src/redis/node-redis/library.js';
import type { Library } from '../../../src/redis/port.js';
import { portContract, type ContractOptions } from '../../support/port-contract.js';

const require = createRequire(import.meta.url);

function ofIoredis(name: string, more: object = {}) {
  return (options: ContractOptions): Library => {
    const { ca } = options;
    const tls = ca === undefined ? undefined : { ...(ca !== '' && { ca }) };
    return ioredisLibrary(withGetters(options, { ...more, ...(tls && { tls }) }), () => {
      return require(name) as Ioredis;
    });
  };
}

function ofNodeRedis(name: string, RESP: 2 | 3) {
  return (options: ContractOptions): Library => {
    const { ca } = options;
    const socket = ca === undefined ? {} : { tls: true, ...(ca !== '' && { ca }) };
    return nodeRedisLibrary(withGetters(options, { RESP, socket }), () => {
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
portContract('ioredis 6 by RESP2', ofIoredis('ioredis', { protocol: 2 }));
portContract('ioredis 5', ofIoredis('ioredis5'));
portContract('node-redis 6', ofNodeRedis('redis', 3));
portContract('node-redis 6 by RESP2', ofNodeRedis('redis', 2));
portContract('node-redis 5', ofNodeRedis('redis5', 2));
portContract('node-redis 5 by RESP3', ofNodeRedis('redis5', 3));
