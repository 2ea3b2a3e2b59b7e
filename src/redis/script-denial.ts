// Names the command that a user may not run. Before Redis 7.2 a server says of a command in a script only in which line it
// stands, or, when the script undid its work and passed the error on, nothing at all.

import { replyError } from './failure.js';
import { keyDenial } from './key-denial.js';
import type { Script } from './scripts.generated.js';

const UNNAMED = "The user executing the script can't run this command";

/** An error in words that name the command; undefined: the server has named it, or the error is not about a command. */
function scriptDenial(error: unknown, { name, source }: Script): Error | undefined {
  if (!(error instanceof Error) || !error.message.includes(UNNAMED)) return undefined;
  const [, lineNumber] = /@?user_script: ?(\d+)/.exec(error.message) ?? [];
  const line = lineNumber === undefined ? '' : (source.split('\n')[Number(lineNumber) - 1] ?? '');
  const inLine = commandsIn(line, /(?:redis\.p?call|ours|refusal)\('(\w+)'/g);
  const commands =
    inLine.length > 0 ? inLine : commandsIn(source, /(?:redis\.pcall|ours|refusal)\('(\w+)'/g);
  const message = `NOPERM this user has no permission for ${commands.join(' or ')}, which ${name}.lua needs`;
  return replyError(message, { cause: error });
}

/**
 * Rejects with the error in words that name the command or the key that is not permitted, if the server does not; undefined: the error
 * is another one, or names it already.
 *
 * @param look - any command that reads this key
 */
export function denied(
  error: unknown,
  script: Script,
  keys: readonly string[],
  look: (key: string) => Promise<unknown>,
): Promise<never> | undefined {
  const denial = scriptDenial(error, script);
  return denial ? Promise.reject(denial) : keyDenial(error, script, keys, look);
}

function commandsIn(text: string, pattern: RegExp): string[] {
  return [...new Set([...text.matchAll(pattern)].map(([, command = '']) => command))];
}
