// Names what a user may not do. Before Redis 7.2 a server says of a command in a script only in which line it stands, or, when the
// script undid its work and passed the error on, nothing at all; and of a key that it is one of those that the script was given.

import { isReply, replyError } from './failure.js';
import type { Script } from './scripts.generated.js';

const UNNAMED = "The user executing the script can't run this command";
const UNNAMED_KEY =
  /permissions? to access (a|one of the) keys?|can't access at least one of the keys/i;

/** An error in words that name the command or the keys; undefined: the server has named it, or the error is about something else. */
function scriptDenial(
  error: unknown,
  { name, source }: Script,
  keys: readonly string[],
): Error | undefined {
  if (!(error instanceof Error) || !isReply(error)) return undefined;
  if (UNNAMED_KEY.test(error.message)) {
    const listed = keys.map((key) => `"${key}"`).join(', ');
    const message = `NOPERM this user has no permission for one of the keys ${listed}, which ${name}.lua needs`;
    return replyError(message, { cause: error });
  }
  if (!error.message.includes(UNNAMED)) return undefined;
  const [, lineNumber] = /@?user_script: ?(\d+)/.exec(error.message) ?? [];
  const line = lineNumber === undefined ? '' : (source.split('\n')[Number(lineNumber) - 1] ?? '');
  const inLine = commandsIn(line, /(?:redis\.p?call|ours|refusal)\('(\w+)'/g);
  const commands =
    inLine.length > 0 ? inLine : commandsIn(source, /(?:redis\.pcall|ours|refusal)\('(\w+)'/g);
  const message = `NOPERM this user has no permission for ${commands.join(' or ')}, which ${name}.lua needs`;
  return replyError(message, { cause: error });
}

/** Rejects with the error in words that name the command, or the keys, that are not permitted; undefined: it is another error, or names it already. */
export function denied(
  error: unknown,
  script: Script,
  keys: readonly string[],
): Promise<never> | undefined {
  const denial = scriptDenial(error, script, keys);
  return denial && Promise.reject(denial);
}

function commandsIn(text: string, pattern: RegExp): string[] {
  return [...new Set([...text.matchAll(pattern)].map(([, command = '']) => command))];
}
