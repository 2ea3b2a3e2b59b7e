// The floor of a hand-over: who comes second listens, and who leaves calls one script that publishes one message. No lock
// on Redis whose waiters are told can be faster.

import { createHash } from 'node:crypto';
import { connected } from './connected.js';
import type { Peer, PeerClient, PeerOptions } from './peer.js';

const PUBLISH = "return redis.call('PUBLISH', ARGV[1], ARGV[2])";
const SHA1 = createHash('sha1').update(PUBLISH).digest('hex');
/** As long as what a fair lock tells whom it is handed to. */
const MESSAGE = '7f0c2b7e-5d0c-4f43-9d5f-0d6a1c3a5b11:140737488355327 29999 17';

export const publish: Peer = {
  id: 'publish',
  label: 'one PUBLISH',
  role: 'floor',
  pollMs: 0,
  async connect({ urls }: PeerOptions): Promise<PeerClient> {
    const redis = await connected(urls[0]!);
    const subscriber = await connected(urls[0]!);
    await redis.script('LOAD', PUBLISH);
    const listening = new Map<string, () => void>();
    subscriber.on('message', (channel: string) => listening.get(channel)?.());
    return {
      async acquire(name) {
        if ((await redis.setnx(`${name}:first`, '1')) === 1) {
          return () => redis.evalsha(SHA1, 0, name, MESSAGE);
        }
        await new Promise<void>((resolve, reject) => {
          listening.set(name, resolve);
          subscriber.subscribe(name).catch(reject);
        });
        return () => redis.del(`${name}:first`);
      },
      withLock: () => Promise.reject(new Error('it locks nothing')),
      keep: () => Promise.reject(new Error('it locks nothing')),
      close() {
        redis.disconnect();
        subscriber.disconnect();
      },
    };
  },
};
