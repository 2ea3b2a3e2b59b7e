// Sees to it that a client connects again: ioredis forgets to when an attempt was given up, or when an answer comes after that.

import { setTimer } from '../../runtime/clock.js';
import { isCluster, LONGEST_RECONNECT_DELAY_MS } from './clients.js';
import type { Ioredis } from './source.js';

/** States that last no longer than a turn of the event loop, or until sockets are closed: a client that stays in one is stuck there. */
const STUCK_CLUSTER: readonly string[] = ['close', 'disconnecting'];
const STUCK_CLIENT: readonly string[] = ['end'];

/**
 * Looks after a client until the function that it returns is called.
 *
 * A cluster's client: when ioredis gives up an attempt to connect, the answer to its ready check (`CLUSTER INFO`) may still come. It calls
 * itself ready then, without a node, and refuses to connect again when that is due; when its last connection is gone it emits `close`,
 * to which by then nobody listens any more. And a `MOVED` that comes while ioredis disconnects gives it a new node, to which it never
 * connects, and whose end it then awaits.
 *
 * Any other client: if it is told to connect anew while it asks Sentinels for the way, or before it has a socket, ioredis takes that for
 * its end.
 */
export function seeToComeback(client: Ioredis): () => void {
  const stuck = isCluster(client) ? STUCK_CLUSTER : STUCK_CLIENT;
  let timer: NodeJS.Timeout | undefined;
  const look = (): void => {
    if (stuck.includes(client.status)) client.connect().catch(() => undefined); // its error is told as an event, too
  };
  const lookLater = (): void => {
    clearTimeout(timer);
    timer = setTimer(look, LONGEST_RECONNECT_DELAY_MS);
  };
  for (const status of stuck) client.on(status, lookLater);
  return () => {
    clearTimeout(timer);
    for (const status of stuck) client.off(status, lookLater);
  };
}
