// A key that is in the way of a lock: which one, and what it is, looked for once a command has met it.

import { KeyConflictError } from '../api/errors.js';
import { WaitLimit } from '../runtime/wait-limit.js';

/** How long the look may take: the conflict itself is known. */
const LOOK_LIMIT_MS = 1_000;

/** What stands where a key of a lock should be. */
export interface KeyInTheWay {
  readonly key: string;
  /** What should be there, in words: "a lock". */
  readonly expected: string;
  /** As the server's `TYPE` says it. */
  readonly type: string;
  /** What the key may be, or whose, in words. */
  readonly hint?: string | undefined;
  /** The master that has the key, as `host:port`, where there are several. */
  readonly node?: string | undefined;
}

/** A lock that can say what is in its way. */
export interface Conflicting {
  readonly name: string;
  keyInTheWay?(): Promise<KeyInTheWay | undefined>;
}

/** The error for a command that met a key of another kind. Looks, within the caller's limit, which one it is. */
export async function keyConflict(
  lock: Conflicting,
  waitLimit: WaitLimit,
  cause: unknown,
): Promise<KeyConflictError> {
  const found = lock.keyInTheWay && (await looked(lock.keyInTheWay(), waitLimit));
  const lockName = lock.name;
  if (!found) {
    const message = `lock "${lockName}": its key, or one beside it, holds something that is not a lock; choose another name or keyPrefix`;
    return new KeyConflictError(message, { lockName, cause });
  }
  const { key, type, node, expected } = found;
  const where = node === undefined ? '' : ` on ${node}`;
  const hint = found.hint === undefined ? '' : ` (${found.hint}, perhaps)`;
  const message = `lock "${lockName}": the key "${key}"${where} is in the way: it is ${inWords(type)}${hint}, and not ${expected}; choose another name or keyPrefix`;
  return new KeyConflictError(message, { lockName, cause, key, keyType: type });
}

/** What the look found; undefined as well when it failed, as for a user who may not call TYPE, or took too long. */
async function looked<T>(look: Promise<T>, waitLimit: WaitLimit): Promise<T | undefined> {
  const limit = new WaitLimit({ clock: waitLimit.clock, limitMs: LOOK_LIMIT_MS });
  try {
    return await waitLimit.within(limit.within(look));
  } catch {
    return undefined;
  } finally {
    limit.dispose();
  }
}

function inWords(type: string): string {
  if (type === 'zset') return 'a sorted set';
  const isOwn = ['string', 'list', 'set', 'hash', 'stream'].includes(type);
  return isOwn ? `a ${type}` : `of type ${type}`;
}
