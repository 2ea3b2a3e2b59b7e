// npm's redis-semaphore: Mutex, RedlockMutex with several masters, and Semaphore.

import { Mutex, RedlockMutex, Semaphore, TimeoutError, type LockOptions } from 'redis-semaphore';
import {
  connected,
  insist,
  type Peer,
  type PeerClient,
  type PeerOptions,
  type Release,
} from './peer.js';

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

export const redisSemaphorePermits: Peer = {
  id: 'redis-semaphore-permits',
  label: 'redis-semaphore Semaphore',
  role: 'competitor',
  isShared: true,
  pollMs: 10,
  connect: (options) => connect(options, {}),
};

export const redisSemaphorePermitsTuned: Peer = {
  id: 'redis-semaphore-permits-tuned',
  label: 'redis-semaphore Semaphore, tuned',
  role: 'competitor',
  isShared: true,
  tuned: '`retryInterval: 1`',
  isTunedForWaiting: true,
  pollMs: 1,
  connect: (options) => connect(options, { retryInterval: 1 }),
};

async function connect(
  { urls, leaseMs, permits }: PeerOptions,
  settings: LockOptions,
): Promise<PeerClient> {
  const servers = await Promise.all(urls.map(connected));
  const options = { ...settings, ...(leaseMs && { lockTimeout: leaseMs }) };
  let isClosed = false;
  const lockOf = (name: string): Mutex | RedlockMutex => {
    if (servers.length > 1) return new RedlockMutex(servers, name, options);
    return permits === undefined
      ? new Mutex(servers[0]!, name, options)
      : new Semaphore(servers[0]!, name, permits, options);
  };
  const acquire = async (name: string): Promise<Release> => {
    const mutex = lockOf(name);
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
