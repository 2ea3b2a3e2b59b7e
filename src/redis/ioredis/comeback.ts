// Sees to it that the client of a cluster connects again: ioredis forgets to, where an answer comes after it gave up.

import type { Cluster } from 'ioredis';
import { setTimer } from '../../runtime/clock.js';
import { LONGEST_RECONNECT_DELAY_MS } from './clients.js';

/**
 * Looks after a client until the function that it returns is called.
 *
 * When ioredis gives up an attempt to connect, the answer to its ready check (`CLUSTER INFO`) may still come: it calls itself ready
 * then, without a node, and refuses to connect again when that is due. When its last connection is gone it says `close`, which
 * by then nobody listens to any more.
 */
export function seeToComeback(cluster: Cluster): () => void {
  let timer: NodeJS.Timeout | undefined;
  const look = (): void => {
    // Left by itself it is in this state only until the end of the turn.
    if (cluster.status === 'close') cluster.connect().catch(() => undefined); // its error is told as an event, too
  };
  const lookLater = (): void => {
    clearTimeout(timer);
    timer = setTimer(look, LONGEST_RECONNECT_DELAY_MS);
  };
  cluster.on('close', lookLater);
  return () => {
    clearTimeout(timer);
    cluster.off('close', lookLater);
  };
}
