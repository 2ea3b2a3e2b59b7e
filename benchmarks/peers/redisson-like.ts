// Somebody who takes the locks of holdfast as Redisson does: tries, listens, and looks again when a message comes or the
// holder's lease ends. It stands in no line, and nobody waits for it.

import { randomUUID } from 'node:crypto';
import { connected } from './connected.js';
import type { Peer, PeerClient, PeerOptions } from './peer.js';

const LEASE_MS = 30_000;

/** As Redisson's RedissonLock.tryLockInnerAsync and unlockInnerAsync do it, without what an answer that got lost takes. */
const TRY = `
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return nil
end
return redis.call('PTTL', KEYS[1])`;
const UNLOCK = `
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', KEYS[2], '0')
return 1`;

export const redissonLike: Peer = {
  id: 'redisson-like',
  label: 'a waiter that listens, as Redisson does',
  role: 'competitor',
  pollMs: 0,
  async connect({ urls }: PeerOptions): Promise<PeerClient> {
    const redis = await connected(urls[0]!);
    const subscriber = await connected(urls[0]!);
    const owner = `${randomUUID()}:1`;
    let told = (): void => undefined;
    subscriber.on('message', () => {
      told();
    });
    const tryLock = (name: string): Promise<number | null> =>
      redis.eval(TRY, 1, name, LEASE_MS, owner) as Promise<number | null>;
    return {
      async acquire(name) {
        const channel = `redisson_lock__channel:{${name}}`;
        let ttlMs = await tryLock(name);
        if (ttlMs !== null) {
          await subscriber.subscribe(channel);
          for (;;) {
            const next = new Promise<void>((resolve) => (told = resolve));
            ttlMs = await tryLock(name);
            if (ttlMs === null) break;
            const patience = setTimeout(told, ttlMs);
            await next;
            clearTimeout(patience);
          }
          await subscriber.unsubscribe(channel);
        }
        return () => redis.eval(UNLOCK, 2, name, channel, owner);
      },
      withLock: () => Promise.reject(new Error('it only waits')),
      keep: () => Promise.reject(new Error('it renews nothing')),
      close() {
        redis.disconnect();
        subscriber.disconnect();
      },
    };
  },
};
