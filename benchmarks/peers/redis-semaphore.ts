// npm's redis-semaphore: Mutex, and RedlockMutex where there are several masters.

import { Mutex, RedlockMutex, TimeoutError, type LockOptions } from 'redis-semaphore';
import { connected } from './connected.js';
import { insist } from './insist.js';
import type { Peer, PeerClient, PeerOptions, Release } from './peer.js';

export const redisSemaphore: Peer = {
  id: 'redis-semaphore',
  label: 'redis-semaphore',
  role: 'competitor',
  pollMs: 10,
  connect: (options) => connect(options, {}),
};

export const redisSemaphoreTuned: Peer = {
  id: 'redis-semaphore-tuned',
  label: 'redis-semaphore, tuned',
  role: 'competitor',
  tuned: '`retryInterval: 1`',
  isTunedForWaiting: true,
  pollMs: 1,
  connect: (options) => connect(options, { retryInterval: 1 }),
};

async function connect({ urls, leaseMs }: PeerOptions, settings: LockOptions): Promise<PeerClient> {
  const servers = await Promise.all(urls.map(connected));
  const options = { ...settings, ...(leaseMs && { lockTimeout: leaseMs }) };
  let isClosed = false;
  const acquire = async (name: string): Promise<Release> => {
    const mutex =
      servers.length === 1
        ? new Mutex(servers[0]!, name, options)
        : new RedlockMutex(servers, name, options);
    await insist(
      () => mutex.acquire(),
      (error) => error instanceof TimeoutError,
      () => isClosed,
    );
    return () => mutex.release();
  };
  return {
    acquire,
    async withLock(name, work) {
      const release = await acquire(name);
      try {
        await work();
      } finally {
        await release();
      }
    },
    async keep(name) {
      await acquire(name);
    },
    close() {
      isClosed = true;
      for (const redis of servers) redis.disconnect();
    },
  };
}
