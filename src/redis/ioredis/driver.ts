// The driver for ioredis 5 and 6.

import type { Driver } from '../driver.js';
import { IoredisClient } from './client.js';
import { clientLike, keyPrefixOf, slotsRefreshMsOf } from './clients.js';
import { templateOf, type RedisSource } from './source.js';

/** @throws OptionError the source cannot be used */
export function ioredisDriver(source: RedisSource): Driver {
  const template = templateOf(source);
  return {
    keyPrefix: keyPrefixOf(template),
    connect: (silenceLimitMs) =>
      new IoredisClient(clientLike(template, silenceLimitMs), slotsRefreshMsOf(template)),
  };
}
