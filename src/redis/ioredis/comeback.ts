// Sees to it that a client connects again: ioredis forgets to, where it was told to give an attempt up, or an answer comes after that.

import { setTimer } from '../../runtime/clock.js';
import { isCluster, LONGEST_RECONNECT_DELAY_MS } from './clients.js';
import type { Ioredis } from './source.js';

/** In which an attempt to connect, or to disconnect, is stuck if it lasts. Left by themselves they last until the end of the turn, or a socket's. */
const STUCK_CLUSTER: readonly string[] = ['close', 'disconnecting'];
const STUCK_CLIENT: readonly string[] = ['end'];

/**
 * Looks after a client until the function that it returns is called.
 *
 * When ioredis gives up an attempt to connect to a cluster, the answer to its ready check (`CLUSTER INFO`) may still come: it calls
 * itself ready then, without a node, and refuses to connect again when that is due. When its last connection is gone it says `close`,
 * which by then nobody listens to any more. And a `MOVED` that comes while it disconnects gives it a new node, whose end it then
 * awaits, though it never connects to it. A client that is told to connect anew while it asks Sentinels for the way, or before it has
 * a socket, takes that for its end.
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
