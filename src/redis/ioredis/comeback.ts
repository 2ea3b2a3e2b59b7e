// Sees to it that the client of a cluster connects again: ioredis forgets to, where an answer comes after it gave up.

import type { Cluster } from 'ioredis';
import { setTimer } from '../../runtime/clock.js';
import { LONGEST_RECONNECT_DELAY_MS } from './clients.js';

/** In which an attempt to connect, or to disconnect, is stuck if it lasts. Left by themselves they last until the end of the turn, or a socket's. */
const PASSING: ReadonlySet<string> = new Set(['close', 'disconnecting']);

/**
 * Looks after a client until the function that it returns is called.
 *
 * When ioredis gives up an attempt to connect, the answer to its ready check (`CLUSTER INFO`) may still come: it calls itself ready
 * then, without a node, and refuses to connect again when that is due. When its last connection is gone it says `close`, which
 * by then nobody listens to any more. And a `MOVED` that comes while it disconnects gives it a new node, whose end it then awaits,
 * though it never connects to it.
 */
export function seeToComeback(cluster: Cluster): () => void {
  let timer: NodeJS.Timeout | undefined;
  const look = (): void => {
    if (PASSING.has(cluster.status)) cluster.connect().catch(() => undefined); // its error is told as an event, too
  };
  const lookLater = (): void => {
    clearTimeout(timer);
    timer = setTimer(look, LONGEST_RECONNECT_DELAY_MS);
  };
  for (const status of PASSING) cluster.on(status, lookLater);
  return () => {
    clearTimeout(timer);
    for (const status of PASSING) cluster.off(status, lookLater);
  };
}
