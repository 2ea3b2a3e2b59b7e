// holdfast: the locks of getLock(), getFairLock() and getFencedLock(), and getRedLock() where there are several masters.

import type { Holdfast as HoldfastClient, Lock } from '../../src/index.js';
import { Holdfast } from '../support/built-holdfast.js';
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

async function connect(
  { urls, leaseMs }: PeerOptions,
  getLock: (clients: readonly HoldfastClient[], name: string) => Lock,
): Promise<PeerClient> {
  const clients = urls.map(
    (redis) => new Holdfast({ redis, ...(leaseMs && { lockWatchdogTimeout: leaseMs }) }),
  );
  await Promise.all(clients.map((client) => client.getLock('bench:connected').isLocked()));
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
  // The masters were started a moment ago, and hold nothing that they could have forgotten.
  return clients[0]!.getRedLock(...members, { restartGuard: false });
}
