// The floor: what anybody writes in ten lines. SET NX PX and a compare-and-delete script, on every server at the same
// time. No waiting, no renewal, no knowledge of a loss.

import { createHash, randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import { connected } from './connected.js';
import type { Peer, PeerClient, PeerOptions } from './peer.js';

const LEASE_MS = 30_000;
const COMPARE_AND_DELETE =
  "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
const SHA1 = createHash('sha1').update(COMPARE_AND_DELETE).digest('hex');

export const raw: Peer = {
  id: 'raw',
  label: 'SET NX PX + compare-and-delete',
  role: 'floor',
  pollMs: 0,
  async connect({ urls }: PeerOptions): Promise<PeerClient> {
    const servers = await Promise.all(urls.map(connected));
    for (const redis of servers) await redis.script('LOAD', COMPARE_AND_DELETE);
    const [only] = servers;
    const clientId = randomUUID();
    let count = 0;
    const acquire =
      servers.length === 1
        ? (name: string) => take(only!, name, `${clientId}:${++count}`)
        : (name: string) => takeAll(servers, name, `${clientId}:${++count}`);
    return {
      acquire,
      async withLock(name, work) {
        const release = await acquire(name);
        await work();
        await release();
      },
      keep: () => Promise.reject(new Error('it renews nothing')),
      close() {
        for (const redis of servers) redis.disconnect();
      },
    };
  },
};

async function take(redis: Redis, name: string, token: string): Promise<() => Promise<void>> {
  const reply = await redis.set(name, token, 'PX', LEASE_MS, 'NX');
  if (reply !== 'OK') throw new Error(`"${name}" is taken`);
  return async () => {
    if ((await redis.evalsha(SHA1, 1, name, token)) !== 1) throw new Error(`"${name}" was lost`);
  };
}

async function takeAll(
  servers: readonly Redis[],
  name: string,
  token: string,
): Promise<() => Promise<unknown>> {
  const releases = await Promise.all(servers.map((redis) => take(redis, name, token)));
  return () => Promise.all(releases.map((release) => release()));
}
