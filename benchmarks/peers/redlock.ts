// npm's redlock.

import Redlock, { ExecutionError, type Settings } from 'redlock';
import { connected, insist, keptBy, type Peer, type PeerClient, type PeerOptions } from './peer.js';

/** The lease of the examples in its README: it has no default. */
const LEASE_MS = 5_000;

export const redlock: Peer = {
  id: 'redlock',
  label: 'redlock',
  role: 'competitor',
  pollMs: 300, // retryDelay 200, retryJitter 100
  connect: (options) => connect(options, {}),
};

export const redlockTuned: Peer = {
  id: 'redlock-tuned',
  label: 'redlock, tuned',
  role: 'competitor',
  tuned: '`retryCount: -1`, `retryDelay: 1`, `retryJitter: 1`',
  isTunedForWaiting: true,
  pollMs: 2,
  connect: (options) => connect(options, { retryCount: -1, retryDelay: 1, retryJitter: 1 }),
};

async function connect(
  { urls, leaseMs = LEASE_MS }: PeerOptions,
  settings: Settings,
): Promise<PeerClient> {
  const servers = await Promise.all(urls.map(connected));
  const client = new Redlock(servers, settings);
  client.on('error', () => undefined); // a vote that it did not get, reported once more
  let isClosed = false;
  const insistOn = <T>(call: () => Promise<T>): Promise<T> =>
    insist(
      call,
      (error) => error instanceof ExecutionError,
      () => isClosed,
    );
  const withLock = (name: string, work: () => Promise<void>): Promise<void> =>
    insistOn(() => client.using([name], leaseMs, work));
  return {
    async acquire(name) {
      const lock = await insistOn(() => client.acquire([name], leaseMs));
      return () => lock.release();
    },
    withLock,
    keep: (name) => keptBy((work) => withLock(name, work)),
    close() {
      isClosed = true;
      for (const redis of servers) redis.disconnect();
    },
  };
}
