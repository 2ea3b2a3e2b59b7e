// What a failed command means: did the server answer, and does asking again help?

import type { TimeLimit } from '../runtime/clock.js';
import type { Script } from './scripts.generated.js';

export type FailureKind =
  | 'unsent' // there was no connection to send it by
  | 'unanswered' // no reply came; the command may or may not have run
  | 'transient' // the server refused for now (loading, read-only, out of memory …)
  | 'denied' // the server will refuse until somebody changes the credentials or the ACL
  | 'conflict' // the key holds something that is not a lock
  | 'strange' // a reply that the script never gives; the command may or may not have run
  | 'defect'; // any other error reply

/** Before Redis 7 an error inside a script comes wrapped in these words. */
const IN_SCRIPT = /^(ERR Error running script .*)?@user_script: ?\d+: -?/s;

const TRANSIENT =
  /^(LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|BUSY|OOM|MISCONF|NOREPLICAS|MOVED|ASK|UNBLOCKED|ERR max number of clients|(ERR )?(Lua script|Script) attempted to access a non local key)/;
const DENIED =
  /^(WRONGPASS|NOAUTH|DENIED|NOPERM|ERR invalid password|ERR Client sent AUTH|ERR AUTH|(ERR )?The user executing the script can't|ERR ACL failure in script)/;
const CONFLICT = /(^|\s)(WRONGTYPE|KEYCONFLICT) /;

/** A command was not sent. */
export class UnsentError extends Error {
  override readonly name = 'UnsentError';
}

/** A command was not sent: the cluster node that has its slot cannot be reached, and the cluster names no other. */
export class NodeGoneError extends UnsentError {}

/** A command was not sent because no caller waits for its outcome any more: nothing is wrong. */
export class UnwantedError extends UnsentError {
  constructor() {
    super('not sent before the time was over');
  }
}

/** Called before a command is sent: throws if no caller waits for its outcome any more. */
export function assertWanted({ leftMs }: TimeLimit): void {
  if (leftMs <= 0) throw new UnwantedError();
}

/** A Sentinel or a cluster node refuses us, or names an address that we cannot use. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError';
}

/** The connection is gone for an unknown reason. A command that was sent on it may have run. */
export class LostError extends Error {
  override readonly name = 'LostError';

  constructor(message = 'the connection was lost') {
    super(message);
  }
}

/** A reply that the script never gives: not Redis answers, or a reply to another command. */
export class StrangeReplyError extends Error {
  override readonly name = 'StrangeReplyError';
}

/** An error in the server's own words. */
export function replyError(words: string, options?: ErrorOptions): Error {
  return Object.assign(new Error(words, options), { name: 'ReplyError' });
}

/** Whether the server answered, if only with a refusal. */
export function isReply(error: unknown): error is Error {
  return error instanceof Error && error.name === 'ReplyError';
}

export function failureKind(error: unknown): FailureKind {
  if (error instanceof UnsentError) return 'unsent';
  if (error instanceof RefusedError) return 'denied';
  if (error instanceof StrangeReplyError) return 'strange';
  if (!isReply(error)) return 'unanswered';
  const words = wordsOf(error);
  if (TRANSIENT.test(words)) return 'transient';
  if (DENIED.test(words)) return 'denied';
  return CONFLICT.test(words) ? 'conflict' : 'defect';
}

/** Whether a command that failed may have run. */
export function isOutcomeUnknown(error: unknown): boolean {
  const kind = failureKind(error);
  return kind === 'unanswered' || kind === 'strange';
}

/** Whether the server refuses for good, or until somebody changes something, or is no Redis: to ask again does not help. */
export function isLasting(error: unknown): boolean {
  return ['denied', 'conflict', 'defect', 'strange'].includes(failureKind(error));
}

/** Whether a command for many locks may have been refused because of some of them. (What is refused for now is refused for all alike.) */
export function mayConcernSome(error: unknown): boolean {
  return isReply(error) && failureKind(error) !== 'transient';
}

type Question = (error: unknown) => boolean;

function says(words: RegExp): Question {
  return (error) => error instanceof Error && words.test(wordsOf(error));
}

/** A permission is missing; also where these words are no reply to us. */
export const isDenial: Question = says(DENIED);
/** A user may not run a command, or not touch a key or a channel. */
export const isPermissionMissing: Question = says(
  /^(NOPERM|(ERR )?The user executing the script can't|ERR ACL failure in script)/,
);
/** The server wants a password first, is in protected mode, or has too many clients, and refuses every command. */
export const isShutOut: Question = says(/^(NOAUTH|DENIED|ERR max number of clients)/);
/** The server does not know a script by its hash, and so did not run it. (It may be the node to which a slot migrates.) */
export const isUnknownScript: Question = says(/^NOSCRIPT/);
/** The server is a replica now: its master is elsewhere. */
export const isReadOnly: Question = says(/^READONLY/);
/** A cluster node serves no client, since it sees no majority of the masters; or not this slot, since it knows no node that has it. */
export const isClusterDown: Question = says(/^CLUSTERDOWN/);
/** Slots of a cluster move, which is normal: they are found again in a moment, so it is not worth an event. */
export const isPassing: Question = says(/^(TRYAGAIN|MOVED|ASK) |access a non local key/);
/** A slot of a cluster is migrating: the node refuses commands for several keys of it. */
export const isSlotOpen: Question = says(/^TRYAGAIN /);
/** The keys of one command are in several slots: the error of Redis, or of a proxy in front of several servers. */
export const isCrossSlot: Question = says(/^(CROSSSLOT|ERR .*(cross-slot|same slot))/i);

/** Where a command was redirected to: `MOVED` for good, `ASK` this once. */
export function redirectionOf(
  error: unknown,
): { kind: 'MOVED' | 'ASK'; slot: number; address: string } | undefined {
  if (!(error instanceof Error)) return undefined;
  const [, kind, slot, address] = /^(MOVED|ASK) (\d+) (\S+)/.exec(wordsOf(error)) ?? [];
  if (address === undefined) return undefined;
  return { kind: kind as 'MOVED' | 'ASK', slot: Number(slot), address };
}

const UNNAMED_KEY =
  /permissions? to access (a|one of the) keys?|can't access at least one of the keys/i;

/**
 * Rejects with the command, or the keys, that the script's user has no permission for; undefined: the server has named it, or it is another
 * error. Before Redis 7.2 a server names only the script line of a denied command, or nothing if the script undid its work and passed the
 * error on. Of a denied key it says that it is one of the script's keys.
 */
export function denied(
  error: unknown,
  { name, source }: Script,
  keys: readonly string[],
): Promise<never> | undefined {
  if (!isReply(error)) return undefined;
  let what = `one of the keys ${keys.map((key) => `"${key}"`).join(', ')}`;
  if (!UNNAMED_KEY.test(error.message)) {
    if (!error.message.includes("user executing the script can't run")) return undefined;
    const [, line = ''] = /@?user_script: ?(\d+)/.exec(error.message) ?? [];
    const said = source.split('\n')[Number(line) - 1] ?? '';
    what =
      commandsIn(said, /(?:redis\.p?call|ours|refusal)\('(\w+)'/g) ||
      commandsIn(source, /(?:redis\.pcall|ours|refusal)\('(\w+)'/g);
  }
  const message = `NOPERM this user has no permission for ${what}, which ${name}.lua needs`;
  return Promise.reject(replyError(message, { cause: error }));
}

function commandsIn(lua: string, calls: RegExp): string {
  return [...new Set(Array.from(lua.matchAll(calls), ([, command]) => command))].join(' or ');
}

/** The words of an error without the script's hash and the line in it, which are of no use to an operator. */
function wordsOf({ message }: Error): string {
  return message
    .replace(IN_SCRIPT, '')
    .replace(/ script: ([0-9a-f]{40}, )?on @user_script:\d+\.$/, '');
}

/** Whether nothing listened there: if several addresses were tried, the list of them says more. */
function isUnreachable(error: Error): boolean {
  const { code = '' } = error as NodeJS.ErrnoException;
  return ['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH'].includes(code);
}

/** Whether an error says only that the connection is gone, and not why. */
export function isMereLoss(error: Error): boolean {
  const { code = '' } = error as NodeJS.ErrnoException;
  return error instanceof LostError || ['EPIPE', 'ECONNRESET'].includes(code);
}

/** Whether an error says that something took too long, of the system or of a client library. */
export function isTimeOut(error: Error): boolean {
  return /timed?.?out/i.test(describe(error));
}

/** Why a connection ended before anything was read, with a hint at a port that speaks TLS, which no library gives. */
export function unheardEnd<T extends Error | undefined>(reason: T): T | Error {
  if (reason && !isMereLoss(reason)) return reason;
  const hungUp = 'the connection was closed before anything was answered';
  return new LostError(`${hungUp}: is Redis up there, or does this port want TLS?`);
}

/** Why a connection ended when it had been asked for INFO, with a hint at a proxy. */
export function endAtInfo(reason: Error = new LostError()): Error {
  if (!isMereLoss(reason)) return reason;
  const why = 'it ended at INFO: Redis was stopped, or a proxy is there that does not know INFO';
  return new LostError(
    `${describe(reason)}; ${why} (twemproxy; no option helps then: it has no pub/sub either)`,
  );
}

/** The server's refusal of AUTH, the only command of a new connection, with the options that it is about. */
export function authRefused(error: Error, isSentinel: boolean): Error {
  if (!isReply(error) || !isLasting(error) || isShutOut(error)) return error;
  const whose = isSentinel ? "the Sentinels'" : 'its';
  const about = `the answer to AUTH: option "redis", ${whose} username and password`;
  return replyError(`${describe(error)} (${about})`, { cause: error });
}

/** Why none of several Sentinels or cluster nodes helps: the most telling of the errors that the `tried` ones gave. */
export function whyNone(what: string, tried: readonly string[], said: readonly Error[]): Error {
  const telling =
    said.find((error) => failureKind(error) === 'denied') ??
    said.find((error) => isReply(error)) ??
    said.find((error) => !isMereLoss(error) && !isUnreachable(error));
  if (telling) return telling;
  const addresses = [...new Set(tried)].sort().join(', ');
  const lost = said.find((error) => error instanceof LostError);
  return new Error(
    `no ${what} can be reached (tried ${addresses})${lost ? `: ${lost.message}` : ''}`,
  );
}

/** An error in words for an operator. */
export function describe(error: Error): string {
  if (error.message !== '') return wordsOf(error);
  // Node's error for "all addresses refused" has an empty message; the errors in it have the words.
  if (error instanceof AggregateError && error.errors[0] instanceof Error)
    return error.errors[0].message;
  return (error as NodeJS.ErrnoException).code ?? error.name;
}

// Removes secrets from a server's error: it repeats the arguments of a command that it does not know, also those of AUTH and HELLO.

/** A server's refusal, without the client library's own error, which may carry the command that was sent. */
export function refusal(words: string): Error {
  // As in: ERR unknown command 'AUTH', with args beginning with: 'secret'
  return replyError(words.replace(/,? with args beginning with:.*/s, ''));
}
