// The end of an ioredis client for good, in whatever state it is: resolves when its socket is gone.

import { once } from 'node:events';
import type { Writable } from 'node:stream';
import { isCluster } from './clients.js';
import type { Ioredis } from './source.js';

/** How long a disconnecting client may take: somewhat longer than ioredis gives a socket to say goodbye. */
const CLOSE_LIMIT_MS = 500;

export async function disconnect(client: Ioredis): Promise<void> {
  if (client.status === 'end') return;
  // Then nothing is there to end, and nothing tells. (A cluster may be left with the second.)
  const isBetweenAttempts = client.status === 'reconnecting' || client.status === 'close';
  if (isBetweenAttempts) {
    client.disconnect();
    return;
  }
  const limit = new AbortController();
  const timer = setTimeout(() => {
    limit.abort();
  }, CLOSE_LIMIT_MS);
  const ended = once(client, 'end', { signal: limit.signal });
  client.disconnect();
  // While it asks a Sentinel, it says nothing of its end either.
  await ended.catch(() => {
    if (!isCluster(client)) (client.stream as Writable | undefined)?.destroy();
  });
  clearTimeout(timer);
}
