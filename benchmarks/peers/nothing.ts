// No lock at all: under it the counter of violations has to count.

import type { Peer } from './peer.js';

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
