// What is measured beside the locks: floors, which show the least possible cost, a waiter like Redisson's, and no lock at all.
import { createHash, randomUUID } from 'node:crypto';
import { connected, type Peer, type PeerClient, type PeerOptions, type Release } from './peer.js';

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
  redis.on('error', () => undefined); // a server that falls silent is part of the measurement
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

// The floor of one process: a first come, first served mutex in memory, invisible to other processes.

export const localMutex: Peer = {
  id: 'local-mutex',
  label: 'a mutex in memory',
  role: 'floor',
  pollMs: 0,
  connect() {
    const lines = new Map<string, (() => void)[]>();
    const acquire = async (name: string): Promise<Release> => {
      const line = lines.get(name);
      if (line) await new Promise<void>((enter) => line.push(enter));
      else lines.set(name, []);
      return () => {
        const next = lines.get(name)!.shift();
        if (next) next();
        else lines.delete(name);
        return Promise.resolve();
      };
    };
    return Promise.resolve({
      acquire,
      async withLock(name, work) {
        const release = await acquire(name);
        await work();
        await release();
      },
      keep: () => Promise.reject(new Error('there is nothing to renew')),
      close: () => undefined,
    });
  },
};

// The floor of a hand-over: the second caller listens, and the first one, when it leaves, calls one script that publishes one message. No
// lock on Redis that notifies its waiters can be faster.

const PUBLISH = "return redis.call('PUBLISH', ARGV[1], ARGV[2])";
const PUBLISH_SHA1 = createHash('sha1').update(PUBLISH).digest('hex');
/** As long as the message of a fair lock to the next holder. */
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
          return () => redis.evalsha(PUBLISH_SHA1, 0, name, MESSAGE);
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

// A caller that takes the locks of holdfast as Redisson does: it tries, listens, and queries again when a message comes or the holder's
// lease ends. It has no place in line, and nobody waits for it.

/** Like Redisson's RedissonLock.tryLockInnerAsync and unlockInnerAsync, without the handling of a lost answer. */
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

// No lock at all: here the counter of violations must find some.

export const nothing: Peer = {
  id: 'nothing',
  label: 'no lock at all',
  role: 'floor',
  pollMs: 0,
  connect: () =>
    Promise.resolve({
      acquire: () => Promise.resolve(() => Promise.resolve()),
      withLock: (_name, work) => work(),
      keep: () => Promise.resolve(),
      close: () => undefined,
    }),
};
