// Names the key that a user may not use. A server says only that it is one of the keys that a script takes.

import { replyError } from './failure.js';
import type { Script } from './scripts.generated.js';

const OF_SOME_KEY =
  /no permissions to access (one of the keys|a key)|can't access at least one of the keys/i;

/** An error of a script with more keys, which was for many locks at once, stays as it is. (Acquires and releases are then sent singly.) */
const MOST_KEYS = 8;

/**
 * Rejects with the error in words that name the key; undefined: the error is not about a key, or the script has too many.
 *
 * @param look - any command that reads this key
 */
export function keyDenial(
  error: unknown,
  script: Script,
  keys: readonly string[],
  look: (key: string) => Promise<unknown>,
): Promise<never> | undefined {
  if (!isOfSomeKey(error) || keys.length > MOST_KEYS) return undefined;
  return rejectWithKeys(error, script, keys, look);
}

async function rejectWithKeys(
  cause: unknown,
  { name }: Script,
  keys: readonly string[],
  look: (key: string) => Promise<unknown>,
): Promise<never> {
  const looks = await Promise.allSettled(keys.map(look));
  const denied = keys.filter((_, index) => {
    const outcome = looks[index];
    return outcome?.status === 'rejected' && isOfSomeKey(outcome.reason);
  });
  // A user who may read all of the keys may not write one of them: it is not known which.
  const [which, named] = denied.length > 0 ? ['', denied] : ['one of ', keys];
  const list = `the key${named.length > 1 ? 's' : ''} ${named.map(inWords).join(', ')}`;
  const those = keys.length > 1 ? `${which}${list}` : list;
  throw replyError(`NOPERM this user has no permission for ${those}, which ${name}.lua needs`, {
    cause,
  });
}

function isOfSomeKey(error: unknown): boolean {
  return error instanceof Error && OF_SOME_KEY.test(error.message);
}

/** A key, with the pattern by which an ACL would permit it for all locks. */
function inWords(key: string): string {
  const [, prefix] = /^(redisson_lock_token|holdfast_[a-z_]+):/.exec(key) ?? [];
  return prefix === undefined ? `"${key}"` : `"${key}" (~${prefix}:*)`;
}
