// Which scripts are being sent in full, and where. A connection runs its commands in order, so a call that finds a script unknown while
// another call sends it in full sends the hash again, behind that: a server receives each script once, however many calls need it.

import type { Sender } from './port.js';
import type { Script } from './scripts.generated.js';

const underWay = new WeakMap<Sender, Set<Script>>();

/** Whether the script is on its way to this server, or node, in full. */
export function isUploading(sender: Sender | undefined, script: Script): boolean {
  return sender !== undefined && underWay.get(sender)?.has(script) === true;
}

/** Notes that the script was sent in full just now; `sent` settles with the answer. */
export function uploading<T>(
  sender: Sender | undefined,
  script: Script,
  sent: Promise<T>,
): Promise<T> {
  if (!sender) return sent;
  const scripts = underWay.get(sender) ?? new Set();
  underWay.set(sender, scripts.add(script));
  return sent.finally(() => scripts.delete(script));
}
