// The driver for ioredis 5 and 6.

import type { Driver } from '../driver.js';
import { IoredisClient } from './client.js';
import { clientFactory } from './clients.js';
import type { RedisSource } from './source.js';

export type { RedisSource };

/** @throws OptionError the source is none */
export function ioredisDriver(source: RedisSource): Driver {
  const { keyPrefix, create } = clientFactory(source);
  return {
    keyPrefix,
    connect: (silenceLimitMs) => new IoredisClient(create(silenceLimitMs)),
  };
}
