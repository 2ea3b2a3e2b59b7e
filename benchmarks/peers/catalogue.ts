// All contenders, by name.

import { fair, fenced, kept, onNodeRedis, plain, readWrite, semaphore } from './holdfast.js';
import { localMutex, nothing, publish, raw, rawOnNodeRedis, redissonLike } from './floors.js';
import { nodeRedisson, nodeRedissonTuned } from './node-redisson.js';
import type { Peer } from './peer.js';
import {
  redisSemaphore,
  redisSemaphorePermits,
  redisSemaphorePermitsTuned,
  redisSemaphoreTuned,
} from './redis-semaphore.js';
import { redlock, redlockTuned } from './redlock.js';
import { redlockUniversal, redlockUniversalTuned } from './redlock-universal.js';

/** The libraries of npm, each with its defaults and once tuned. */
const COMPETITORS: readonly Peer[] = [
  redlock,
  redlockTuned,
  redisSemaphore,
  redisSemaphoreTuned,
  redisSemaphorePermits,
  redisSemaphorePermitsTuned,
  redlockUniversal,
  redlockUniversalTuned,
  nodeRedisson,
  nodeRedissonTuned,
];

export const PEERS: readonly Peer[] = [
  raw,
  rawOnNodeRedis,
  localMutex,
  publish,
  nothing,
  plain,
  onNodeRedis,
  kept,
  fair,
  fenced,
  readWrite,
  semaphore,
  redissonLike,
  ...COMPETITORS,
];

export function peerOf(id: string): Peer {
  const peer = PEERS.find((known) => known.id === id);
  if (!peer) throw new Error(`there is no peer "${id}"`);
  return peer;
}
