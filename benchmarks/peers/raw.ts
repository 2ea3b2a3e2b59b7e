// The floor: what anybody writes in ten lines. SET NX PX and a compare-and-delete script, on every server at the same
// time. No waiting, no renewal, no knowledge of a loss.

import { createHash, randomUUID } from 'node:crypto';
import { connected } from './connected.js';
import type { Peer, Release } from './peer.js';

const LEASE_MS = 30_000;
const COMPARE_AND_DELETE =
  "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
const SHA1 = createHash('sha1').update(COMPARE_AND_DELETE).digest('hex');

interface Server {
  set(name: string, token: string): Promise<string | null>;
  compareAndDelete(name: string, token: string): Promise<unknown>;
  close(): void;
}

export const raw = rawOn(byIoredis, 'raw', 'SET NX PX + compare-and-delete');
export const rawOnNodeRedis = rawOn(byNodeRedis, 'raw-node-redis', `${raw.label}, node-redis`);

function rawOn(connect: (url: string) => Promise<Server>, id: string, label: string): Peer {
  return {
    id,
    label,
    role: 'floor',
    pollMs: 0,
    async connect({ urls }) {
      const servers = await Promise.all(urls.map(connect));
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
          for (const server of servers) server.close();
        },
      };
    },
  };
}

async function byIoredis(url: string): Promise<Server> {
  const redis = await connected(url);
  await redis.script('LOAD', COMPARE_AND_DELETE);
  return {
    set: (name, token) => redis.set(name, token, 'PX', LEASE_MS, 'NX'),
    compareAndDelete: (name, token) => redis.evalsha(SHA1, 1, name, token),
    close() {
      redis.disconnect();
    },
  };
}

async function byNodeRedis(url: string): Promise<Server> {
  const { createClient } = await import('redis'); // only here: the other workers start sooner
  const redis = createClient({ url });
  redis.on('error', () => undefined); // a server that falls silent is part of what is measured
  await redis.connect();
  await redis.scriptLoad(COMPARE_AND_DELETE);
  const expiration = { type: 'PX', value: LEASE_MS } as const;
  return {
    set: (name, token) => redis.set(name, token, { condition: 'NX', expiration }),
    compareAndDelete: (name, token) => redis.evalSha(SHA1, { keys: [name], arguments: [token] }),
    close() {
      redis.destroy();
    },
  };
}

async function take(server: Server, name: string, token: string): Promise<Release> {
  if ((await server.set(name, token)) !== 'OK') throw new Error(`"${name}" is taken`);
  return async () => {
    if ((await server.compareAndDelete(name, token)) !== 1) throw new Error(`"${name}" was lost`);
  };
}

async function takeAll(servers: readonly Server[], name: string, token: string): Promise<Release> {
  const releases = await Promise.all(servers.map((server) => take(server, name, token)));
  return () => Promise.all(releases.map((release) => release()));
}
