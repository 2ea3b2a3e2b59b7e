// Makes the scripts known to a server before anybody needs one. A server that was restarted, or has taken over, knows none: all calls at
// that moment would be refused, and sent again with the script in full. And Redis 7.4 forgets scripts that came by EVAL sooner.

import type { RedisClient } from './driver.js';
import { scripts } from './scripts.generated.js';

/**
 * Sends all scripts, and awaits no answer: commands that are sent on the same connection later find them. A server that refuses them
 * is sent a script in full when it is needed; so are the nodes of a cluster, most of which may never be asked for anything.
 */
export function loadScripts(client: RedisClient): void {
  if (client.cluster) return;
  client.gather();
  for (const { source } of Object.values(scripts))
    void client.send('script', ['LOAD', source], ignore, ignore);
}

function ignore(): void {
  // Nobody is interested.
}
