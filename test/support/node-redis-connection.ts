// Stands for the connection of ioredis where the tests run on node-redis: the same options, a connection of node-redis.
import { createRequire } from 'node:module';
import { NodeRedisConnection, type NodeRedis } from '../../src/redis/node-redis/connection.js';
import type { Heard } from '../../src/redis/port.js';

export type Ioredis = unknown;

interface IoredisOptions {
  readonly host?: string;
  readonly port?: number;
  readonly path?: string;
  readonly username?: string;
  readonly password?: string;
  readonly tls?: object;
  readonly family?: number;
  readonly connectTimeout?: number;
}

const template = (createRequire(import.meta.url)('redis') as NodeRedis).createClient({});

export class IoredisConnection extends NodeRedisConnection {
  constructor(_ioredis: Ioredis, readOptions: () => object, heard: Heard) {
    super(template, () => asOfNodeRedis(readOptions()), heard);
  }
}

function asOfNodeRedis(options: IoredisOptions): object {
  const { host, port, path, username, password, tls, family, connectTimeout } = options;
  return {
    ...(username && { username }),
    ...(password && { password }),
    socket: {
      ...(path ? { path } : { host, port }),
      ...(tls && { ...tls, tls: true }),
      ...(family && { family }),
      ...(connectTimeout && { connectTimeout }),
    },
  };
}
