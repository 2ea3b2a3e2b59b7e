// The end of an ioredis client for good, in whatever state it is: resolves when its socket is gone.

import { once } from 'node:events';
import type { Writable } from 'node:stream';
import { isCluster } from './clients.js';
import type { Ioredis } from './source.js';

/** How long a disconnecting client may take: somewhat longer than ioredis gives a socket to say goodbye. */
const CLOSE_LIMIT_MS = 500;

export async function disconnect(client: Ioredis): Promise<void> {
  if (client.status === 'end') return;
  // Then there is no connection that could end, so no `end` would be emitted. (A cluster may be stuck in `close`.)
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
  // A client that is asking a Sentinel ends only when that has answered: it is not waited for any longer.
  await ended.catch(() => {
    if (!isCluster(client)) (client.stream as Writable | undefined)?.destroy();
  });
  clearTimeout(timer);
}
