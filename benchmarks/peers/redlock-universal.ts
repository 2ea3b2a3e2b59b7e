// npm's redlock-universal: createLock(), and createRedlock() with several masters.

import {
  createLock,
  createRedlock,
  IoredisAdapter,
  LockAcquisitionError,
  type CreateLockConfig,
  type CreateRedlockConfig,
  type Lock,
} from 'redlock-universal';
import { connected, insist, keptBy, type Peer, type PeerClient, type PeerOptions } from './peer.js';

type Settings = Pick<CreateLockConfig, 'performance' | 'circuitBreaker'> &
  Pick<CreateRedlockConfig, 'retryAttempts' | 'retryDelay'>;

export const redlockUniversal: Peer = {
  id: 'redlock-universal',
  label: 'redlock-universal',
  role: 'competitor',
  pollMs: 100,
  connect: (options) => connect(options, {}),
};

export const redlockUniversalTuned: Peer = {
  id: 'redlock-universal-tuned',
  label: 'redlock-universal, tuned',
  role: 'competitor',
  tuned: "`performance: 'lean'`, `retryDelay: 1`",
  pollMs: 1,
  connect: (options) => connect(options, { performance: 'lean', retryDelay: 1 }),
};

async function connect({ urls, leaseMs }: PeerOptions, settings: Settings): Promise<PeerClient> {
  const servers = await Promise.all(urls.map(connected));
  const adapters = servers.map((redis) => new IoredisAdapter(redis));
  const options = { ...settings, ...(leaseMs && { ttl: leaseMs }) };
  const locks = new Map<string, Lock>();
  let isClosed = false;
  const lockOf = (key: string): Lock => {
    let lock = locks.get(key);
    if (!lock) {
      lock =
        adapters.length === 1
          ? createLock({ ...options, key, adapter: adapters[0]! })
          : createRedlock({ ...options, key, adapters });
      locks.set(key, lock);
    }
    return lock;
  };
  const insistOn = <T>(call: () => Promise<T>): Promise<T> =>
    insist(
      call,
      (error) => error instanceof LockAcquisitionError,
      () => isClosed,
    );
  const withLock = (name: string, work: () => Promise<void>): Promise<void> =>
    insistOn(() => lockOf(name).using(work));
  return {
    async acquire(name) {
      const lock = lockOf(name);
      const handle = await insistOn(() => lock.acquire());
      return () => lock.release(handle);
    },
    withLock,
    keep: (name) => keptBy((work) => withLock(name, work)),
    close() {
      isClosed = true;
      for (const redis of servers) redis.disconnect();
    },
  };
}
