// npm's node-redisson: it learns of releases by pub/sub, or by a stream.

import { Redisson } from 'node-redisson';
import type { Peer, PeerClient, PeerOptions, Release } from './peer.js';

export const nodeRedisson: Peer = {
  id: 'node-redisson',
  label: 'node-redisson',
  role: 'competitor',
  pollMs: 0,
  connect: (options) => connect(options, 'pubsub'),
};

export const nodeRedissonTuned: Peer = {
  id: 'node-redisson-streams',
  label: 'node-redisson, on streams',
  role: 'competitor',
  tuned: "`eventAdapter: 'streams'`",
  pollMs: 0,
  connect: (options) => connect(options, 'streams'),
};

async function connect(
  { urls, leaseMs }: PeerOptions,
  eventAdapter: 'pubsub' | 'streams',
): Promise<PeerClient> {
  const { hostname: host, port, username, password } = new URL(urls[0]!);
  const options = { host, port: Number(port), username, password };
  const client = new Redisson({
    redis: { options },
    eventAdapter,
    ...(leaseMs && { lockWatchdogTimeout: BigInt(leaseMs) }),
  });
  quieten(client as unknown as Insides);
  await client.redis.ping();
  const acquire = async (name: string): Promise<Release> => {
    const lock = client.getLock(name); // an owner of its own
    await lock.lock();
    return () => lock.unlock();
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
    close: () => void client.quit(),
  };
}

/** Its private members. */
interface Insides {
  readonly commandExecutor: Record<'redis' | 'subscribeRedis', Connection>;
}

interface Connection {
  on(event: 'error', listener: () => void): unknown;
  rRenewExpiration(...args: unknown[]): Promise<unknown>;
}

/**
 * It has no error listener, so ioredis prints each error with its stack, as when a client is closed under stuck callers. It also prints
 * each renewal that fails, and stops renewing; if the answer is 0 it stops in silence.
 */
function quieten({ commandExecutor: { redis, subscribeRedis } }: Insides): void {
  for (const connection of [redis, subscribeRedis]) connection.on('error', () => undefined);
  const renew = redis.rRenewExpiration.bind(redis);
  redis.rRenewExpiration = (...args) => renew(...args).catch(() => 0);
}
