// The id of a client whose user gives none, and the ids of a client's owners: whoever reads "held by …" at night must know where to
// look.

import { randomBytes, randomInt } from 'node:crypto';
import { hostname } from 'node:os';

/** `<host>-<pid>-<12 hex digits>`: never the same twice. */
export function newClientId(): string {
  return `${host()}-${String(process.pid)}-${randomBytes(6).toString('hex')}`;
}

/** Makes the owners of a client, `<clientId>:<n>`, each never used before. */
export function ownersOf(clientId: string): () => string {
  // Starts anywhere, so that two processes that were given the same clientId still never share an owner.
  let lastNumber = randomInt(2 ** 47);
  return () => `${clientId}:${String(++lastNumber)}`;
}

function host(): string {
  try {
    return hostname();
  } catch {
    return 'unknown'; // not allowed, as by Deno without --allow-sys
  }
}
