// The id of a client whose user gives none, and the ids of a client's owners: whoever reads "held by …" at night must know where to
// look. They never come twice; but a client whose library brings its own random numbers has the same ids in every run.

import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';

/** Numbers from 0 to 1; undefined: the process has better ones. */
type Random = (() => number) | undefined;

/** `<host>-<pid>-<12 hex digits>`. */
export function newClientId(random?: Random): string {
  return `${host()}-${String(process.pid)}-${hexDigits(12, random)}`;
}

/** Makes the owners of a client, `<clientId>:<n>`, each never used before. */
export function ownersOf(clientId: string, random?: Random): () => string {
  // Starts anywhere, so that two processes that were given the same clientId still never share an owner.
  let lastNumber = Number.parseInt(hexDigits(12, random), 16);
  return () => `${clientId}:${String(++lastNumber)}`;
}

/** So many random hex digits, an even number. */
export function hexDigits(count: number, random?: Random): string {
  const bytes = random
    ? Buffer.from(Array.from({ length: count / 2 }, () => Math.floor(random() * 256)))
    : randomBytes(count / 2);
  return bytes.toString('hex');
}

function host(): string {
  try {
    return hostname();
  } catch {
    return 'unknown'; // not allowed, as by Deno without --allow-sys
  }
}
