// Names the key that a user may not use: a server says only that it is one of those that a script takes.

import { replyError } from './failure.js';
import type { Script } from './scripts.generated.js';

const OF_SOME_KEY =
  /no permissions to access (one of the keys|a key)|can't access at least one of the keys/i;

/** No more are looked at: those of many locks at once are each looked at when they are asked for alone. */
const MOST_KEYS = 8;

/**
 * Rejects with the same error in words that name the key; undefined: it is no such error.
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
  // Where it may read them all, it may not write one of them.
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

/** With what an ACL would say to permit it for all locks. */
function inWords(key: string): string {
  const [, prefix] = /^(redisson_lock_token|holdfast_[a-z_]+):/.exec(key) ?? [];
  return prefix === undefined ? `"${key}"` : `"${key}" (~${prefix}:*)`;
}
