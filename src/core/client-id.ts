// How a client is called on the server unless its user says: whoever reads "held by …" at night must know where to look.

import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';

/** `<host>-<pid>-<12 hex digits>`: never the same twice. */
export function newClientId(): string {
  return `${host()}-${String(process.pid)}-${randomBytes(6).toString('hex')}`;
}

function host(): string {
  try {
    return hostname();
  } catch {
    return 'unknown'; // not allowed, as by Deno without --allow-sys
  }
}
