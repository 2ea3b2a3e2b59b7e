// The floor of one process: a first come, first served mutex in memory, which no other process knows of.

import type { Peer, Release } from './peer.js';

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
