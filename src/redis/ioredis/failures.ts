// What ioredis rejects with, as a driver has to put it: the server's own words, or that the connection was lost, without passwords.

import { describe, isReply, LostError, replyError, UnsentError } from '../failure.js';
import { redacted } from './redaction.js';

/** A cluster's client has passed on refusals often enough: none of them ran. */
const REDIRECTED = 'Too many Cluster redirections. Last error: ReplyError: ';

/** ioredis' words for options that are ours, and that no user has set. */
const LOST = /enableOfflineQueue|maxRetriesPerRequest|^Connection is closed|^Command aborted/;

/** And for a command that found its socket ended, by which alone another copy of ioredis tells that it was not written. */
const NOT_WRITTEN = 'enableOfflineQueue';

export function asFailure(error: unknown): Error {
  if (!(error instanceof Error)) return new Error(String(error));
  redacted(error);
  const { name, message } = error;
  if (message.startsWith(REDIRECTED))
    return replyError(message.slice(REDIRECTED.length), { cause: error });
  return name !== 'ReplyError' && LOST.test(message) ? new LostError({ cause: error }) : error;
}

/** The same for a command. `mayHaveRun`: whether it was written; undefined: that is known by ioredis' words alone. */
export function asCommandFailure(error: unknown, mayHaveRun?: boolean): Error {
  const failure = asFailure(error);
  if (isReply(failure) || (mayHaveRun ?? !String(error).includes(NOT_WRITTEN))) return failure;
  const why = failure instanceof LostError ? '' : `: ${describe(failure)}`;
  return new UnsentError(`not connected${why}`, { cause: failure });
}
