// Turns what ioredis rejects with into the failures that driver.ts lists: the server's own words, or that the connection was lost. None of
// them holds a password.

import { describe, isReply, LostError, replyError, UnsentError } from '../failure.js';
import { library } from './library.js';
import { redacted } from './redaction.js';

/**
 * A cluster's client has passed on refusals often enough: none of them ran. Before the server's words, which begin in capitals, is the
 * name of a class, which a minifier may have changed.
 */
const REDIRECTED =
  /^Too many Cluster redirections\. Last error: (?!Error: )(?:[\w$]+: )?(?=[A-Z\d]+ )/;

/** ioredis' words for a lost connection. The options that some of them name are ours: no user has set them. */
const LOST = /enableOfflineQueue|maxRetriesPerRequest|^Connection is closed|^Command aborted/;

/** ioredis' word for a command that found no open socket: with another copy of ioredis only this tells that it was not written. */
const NOT_WRITTEN = 'enableOfflineQueue';

export function asFailure(error: unknown): Error {
  if (!(error instanceof Error)) return new Error(String(error));
  redacted(error);
  if (isServersWords(error)) return named(error);
  const { message } = error;
  if (REDIRECTED.test(message))
    return replyError(message.replace(REDIRECTED, ''), { cause: error });
  return LOST.test(message) ? new LostError({ cause: error }) : error;
}

/**
 * Whether a server said it. Its name does not tell: ioredis 5 takes that from the class, which a minifier renames. A class of another
 * copy of ioredis is known by what its errors carry: the command that was answered, or else given up.
 */
export function isServersWords(error: Error): boolean {
  const { message, command } = error as Error & { command?: { name?: unknown } };
  if (isReply(error) || error instanceof (library.ReplyError as ErrorConstructor)) return true;
  return typeof command?.name === 'string' && !LOST.test(message);
}

/** The name by which a driver says that it is a reply. */
function named(error: Error): Error {
  if (!isReply(error))
    Object.defineProperty(error, 'name', {
      value: 'ReplyError',
      configurable: true,
      writable: true,
    });
  return error;
}

/** The failure of a command: `UnsentError` if it was not written. `mayHaveRun`: whether it was; undefined: only ioredis' words tell. */
export function asCommandFailure(error: unknown, mayHaveRun?: boolean): Error {
  const failure = asFailure(error);
  if (isReply(failure) || (mayHaveRun ?? !String(error).includes(NOT_WRITTEN))) return failure;
  const why = failure instanceof LostError ? '' : `: ${describe(failure)}`;
  return new UnsentError(`not connected${why}`, { cause: failure });
}
