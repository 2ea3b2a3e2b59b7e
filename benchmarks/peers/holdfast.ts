// holdfast: the locks of getLock(), getFairLock(), getFencedLock() and getReadWriteLock(), the permits of getSemaphore(), and getRedLock()
// with several masters.
import type * as holdfast from '../../src/index.js';
import type { Holdfast as HoldfastClient, Lock, PermitHold } from '../../src/index.js';
import { setTimeout as sleep } from 'node:timers/promises';
import pLimit from 'p-limit';
import type { Peer, PeerClient, PeerOptions } from './peer.js';

export const plain: Peer = {
  id: 'holdfast',
  label: 'holdfast getLock',
  role: 'ours',
  pollMs: 0,
  connect: (options) =>
    connect(options, (clients, name) =>
      clients.length === 1 ? clients[0]!.getLock(name) : redLock(clients, name),
    ),
};

/** The same, with the options of node-redis. */
export const onNodeRedis: Peer = {
  id: 'holdfast-node-redis',
  label: 'holdfast getLock, node-redis',
  role: 'ours',
  pollMs: 0,
  async connect({ urls }) {
    const clients = await connectedTo(urls.map((url) => ({ url })));
    return lockClient(clients, ([client], name) => client!.getLock(name));
  },
};

/** How long the kept locks stay with their client after the last hold, in milliseconds; with a lease that is given, as long as may be. */
const KEEP_MS = 1_000;

/** After so many rounds of use, with pauses, a client that hears wishes keeps its locks. */
const MOST_ROUNDS = 10;

export const kept: Peer = {
  id: 'holdfast-kept',
  label: `holdfast getLock, keep: ${KEEP_MS.toLocaleString('en')}`,
  role: 'ours',
  pollMs: 0,
  async connect(options) {
    const clients = await connected(options);
    const keep = options.leaseMs === undefined ? KEEP_MS : Math.floor(options.leaseMs / 9);
    const getLock: GetLock = ([client], name) => client!.getLock(name, { keep });
    const client = lockClient(clients, getLock);
    const isKept = (name: string): boolean =>
      getLock(clients, name).toJSON().state === 'kept by this client';
    return {
      ...client,
      async warmUp(names) {
        const limit = pLimit(256);
        let count = 0;
        for (let round = 1; round <= MOST_ROUNDS && count < names.length; round++) {
          if (round > 1) await sleep(50); // the client is about to hear wishes
          // The first pair makes a name a used one, the second may be marked.
          await limit.map([...names], async (name) => {
            await (
              await client.acquire(name)
            )();
            await (
              await client.acquire(name)
            )();
          });
          count = names.filter(isKept).length;
        }
        return count;
      },
    };
  },
};

export const fair: Peer = {
  id: 'holdfast-fair',
  label: 'holdfast getFairLock',
  role: 'ours',
  pollMs: 0,
  connect: (options) => connect(options, ([client], name) => client!.getFairLock(name)),
};

export const fenced: Peer = {
  id: 'holdfast-fenced',
  label: 'holdfast getFencedLock',
  role: 'ours',
  pollMs: 0,
  connect: (options) => connect(options, ([client], name) => client!.getFencedLock(name)),
};

export const readWrite: Peer = {
  id: 'holdfast-read-write',
  label: 'holdfast getReadWriteLock',
  role: 'ours',
  isShared: true,
  pollMs: 0,
  async connect(options) {
    const [client] = await connected(options);
    return {
      ...lockClient([client!], ([one], name) => one!.getReadWriteLock(name).writeLock()),
      async acquireToRead(name) {
        const hold = await client!.getReadWriteLock(name).readLock().acquire();
        return () => hold.release();
      },
    };
  },
};

export const semaphore: Peer = {
  id: 'holdfast-semaphore',
  label: 'holdfast getSemaphore',
  role: 'ours',
  isShared: true,
  pollMs: 0,
  async connect(options) {
    const [client] = await connected(options);
    const permits = options.permits ?? 1;
    const acquire = (name: string): Promise<PermitHold> =>
      client!.getSemaphore(name, { permits }).acquire();
    return {
      async acquire(name) {
        const hold = await acquire(name);
        return () => hold.release();
      },
      withLock: (name, work) => client!.getSemaphore(name, { permits }).withPermits(work),
      async keep(name) {
        await acquire(name);
      },
      close: () => void client!.close(),
    };
  },
};

type GetLock = (clients: readonly HoldfastClient[], name: string) => Lock;

async function connect(options: PeerOptions, getLock: GetLock): Promise<PeerClient> {
  return lockClient(await connected(options), getLock);
}

function connected({ urls, leaseMs }: PeerOptions): Promise<HoldfastClient[]> {
  return connectedTo(urls, leaseMs);
}

async function connectedTo(
  sources: readonly (string | object)[],
  leaseMs?: number,
): Promise<HoldfastClient[]> {
  const clients = sources.map(
    (redis) =>
      new Holdfast({ redis, wait: Infinity, ...(leaseMs && { lockWatchdogTimeout: leaseMs }) }),
  );
  await Promise.all(clients.map((client) => client.getLock('bench:connected').isLocked()));
  return clients;
}

function lockClient(clients: readonly HoldfastClient[], getLock: GetLock): PeerClient {
  return {
    async acquire(name) {
      const hold = await getLock(clients, name).acquire();
      return () => hold.release();
    },
    withLock: (name, work) => getLock(clients, name).withLock(work),
    async keep(name) {
      await getLock(clients, name).acquire();
    },
    close() {
      for (const client of clients) void client.close();
    },
  };
}

function redLock(clients: readonly HoldfastClient[], name: string): Lock {
  const members = clients.map((client) => client.getLock(name));
  // The masters were just started, and have nothing that they could have forgotten.
  return clients[0]!.getRedLock(...members, { restartGuard: false });
}

// holdfast as it ships: dist/, which scripts/bench.mjs builds first. Run from src/ by tsx it would be slower, since tsx has esbuild keep
// the names of functions, which costs one Object.defineProperty for each closure.

const built = new URL('../../dist/index.js', import.meta.url).href;

export const { Holdfast } = (await import(built)) as typeof holdfast;
