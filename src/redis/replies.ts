// What each script may reply, as its header says. Anything else comes from no Redis, or from a proxy that mixes up replies, and must not pass for
// a lock that is granted, free or released.

import { inspect } from 'node:util';
import { StrangeReplyError } from './failure.js';
import type { Argument } from './port.js';
import type { Script, scripts } from './scripts.generated.js';

/** Whether a reply is one of those of a script that was called with these keys and arguments. */
type Check = (reply: unknown, keys: readonly string[], args: readonly Argument[]) => boolean;

/** Reads a reply by `read`, if the script may give it. */
export function reading<T>(
  script: Script,
  keys: readonly string[],
  args: readonly Argument[],
  read: (reply: unknown) => T,
): (reply: unknown) => T {
  return (reply) => {
    if (!isReplyOf(script, keys, args, reply)) throw strange(script, reply);
    return read(reply);
  };
}

export function isReplyOf(
  { name }: Script,
  keys: readonly string[],
  args: readonly Argument[],
  reply: unknown,
): boolean {
  return CHECKS[name as keyof typeof CHECKS](reply, keys, args);
}

function strange({ name }: Script, reply: unknown): StrangeReplyError {
  const shown = inspect(reply, { breakLength: Infinity, maxArrayLength: 5, maxStringLength: 60 });
  return new StrangeReplyError(
    `${name}.lua was answered with ${shown}, which is none of its replies (perhaps not Redis answers, but a proxy or another server)`,
  );
}

// Parts of replies.

type Is = (part: unknown) => boolean;

const isText: Is = (part) => typeof part === 'string';
const isInteger: Is = (part) => Number.isInteger(part);
const isFlag: Is = (part) => part === 0 || part === 1;
const isToken: Is = (part) => typeof part === 'string' && /^\d{1,16}$/.test(part);
/** As lib/holder.lua has it. */
const isHolder: Is = (part) => typeof part === 'string' && /.:-?\d+$/s.test(part);
const isTicket: Is = (part) => typeof part === 'string' && /^-?\d+$/.test(part);
/** Why something was not told, in the server's words. */
const isReason: Is = (part) => typeof part === 'string' && part.includes(' ');
const isGrant: Is = (part) => typeof part === 'string' && /^\d+(:\d+)? ./s.test(part);

const KEPT_OR_LOST: readonly unknown[] = ['kept', 'taken', 'forced', 'deleted'];
const isKeptOrLost: Is = (part) => KEPT_OR_LOST.includes(part);
const isLost: Is = (part) => part !== 'kept' && isKeptOrLost(part);

function atLeast(least: number): Is {
  return (part) => Number.isInteger(part) && (part as number) >= least;
}

const isTtl = atLeast(-1);
const isCount = atLeast(0);
/** When to look, or the time to live of a lock that may be free. */
const isLook = atLeast(-2);
const isPlace: Is = (part) => part === 'yours' || part === 'gone' || isLook(part);

/** An array that begins with these parts; of those after `leastCount`, the last ones may be missing. */
function tuple(parts: readonly Is[], leastCount = parts.length): Is {
  return (reply) =>
    Array.isArray(reply) &&
    reply.length >= leastCount &&
    reply.length <= parts.length &&
    reply.every((part, index) => parts[index]?.(part));
}

function isListOf(reply: unknown, is: Is, length?: number): boolean {
  if (!Array.isArray(reply) || (length !== undefined && reply.length !== length)) return false;
  return reply.every(is);
}

const isTextList: Is = (reply) => isListOf(reply, isText);
const isFlatList: Is = (reply) => isListOf(reply, (part) => isText(part) || isInteger(part));

/** How many heard a wish; or the count of an owner that has released the lock, or was exported. */
const isHeard: Is = (part) => isCount(part) || part === -2 || part === -3;
const isHeld = tuple([isHolder, isTtl, isHeard, isReason], 2);
const isInLine = tuple([isText, isLook, isTicket, isHeard, isReason], 3);
const isInWeightedLine = tuple([isText, isLook, isTicket, isHeard], 3);
const isUnmet = tuple([(part) => part === 'declared' || part === 'exceeded', isCount]);
const isVote = tuple([isInteger]);
const isVoteWithToken = tuple([isInteger, isToken]);
const isVoteForOther = tuple([isInteger, isHolder, isTtl, isHeard], 3);
const isFencedJoin = tuple([(part) => part === 1 || part === 2, isToken]);
const isDone = tuple([(part) => part === 'done']);
const isDoneWithToken = tuple([(part) => part === 'done', isToken]);
const isLoss = tuple([isLost]);
const isLooked = tuple([isHolder, isTtl]);
const isForced = tuple([isHolder, isReason], 1);
const isHandedOver = tuple(
  [isFlag, (part) => part === '' || isGrant(part), atLeast(-3), isText, isReason],
  3,
);
const isWeightedHandedOver = tuple(
  [isFlag, atLeast(-3), (part) => isListOf(part, isGrant), isText, isReason],
  3,
);
const isInspected = tuple([isCount, isFlatList, isFlatList, isFlag, isCount, isText]);
const isWeightedView = tuple([isCount, isFlatList, isFlatList]);
const isLast = tuple([isTicket, isCount]);

const isReleased: Is = (reply) => isCount(reply) || isReason(reply);

function isAcquired(reply: unknown, isFenced: boolean, mayBeKept: boolean): boolean {
  if (isFenced ? isToken(reply) : reply === 1) return true;
  return (mayBeKept && reply === 2) || isHeld(reply);
}

const CHECKS: Readonly<Record<FileName<keyof typeof scripts>, Check>> = {
  acquire: (reply, keys, args) => isAcquired(reply, keys.length > 1, args.length > 3),
  confirm: isKeptOrLost,
  'force-unlock': (reply) => reply === null || isForced(reply),
  gather: (reply, _keys, [kinds]) => {
    const letters = String(kinds);
    if (!Array.isArray(reply) || reply.length !== letters.length) return false;
    return reply.every((part, index) => {
      const kind = letters[index];
      if (kind === 'r' || kind === 'w') return part === null || isReleased(part);
      return part === null || isAcquired(part, kind === 'f', kind === 'k');
    });
  },
  'hand-over': isHandedOver,
  inspect: (reply) => reply === null || isInspected(reply),
  join: (reply, keys) =>
    isInLine(reply) || (keys.length > 3 ? isFencedJoin(reply) : reply === 1 || reply === 2),
  look: (reply) => reply === null || isLooked(reply),
  'raise-token': (reply) => reply === 1 || isToken(reply),
  reenter: isKeptOrLost,
  'release-to': (reply, keys) =>
    isLoss(reply) || (keys.length > 2 ? isDoneWithToken(reply) : isDone(reply)),
  release: isReleased,
  remember: (reply, keys) => reply === keys.length,
  'renew-places': (reply, keys) => isListOf(reply, isPlace, keys.length / 3),
  renew: (reply, keys) => reply === 'kept' || isListOf(reply, isKeptOrLost, keys.length / 2),
  vote: (reply, keys) =>
    isVoteForOther(reply) || (keys.length > 2 ? isVoteWithToken(reply) : isVote(reply)),
  waiters: isTextList,
  'weighted-adopt': (reply) => reply === 'done' || reply === 'forced' || reply === 'deleted',
  'weighted-force': isTextList,
  'weighted-hand-over': isWeightedHandedOver,
  'weighted-join': (reply) =>
    reply === 1 || reply === 2 || isInWeightedLine(reply) || isUnmet(reply),
  'weighted-last': (reply) => reply === null || isLast(reply),
  'weighted-look': isWeightedView,
  'weighted-renew-places': (reply, keys) => isListOf(reply, isPlace, keys.length / 4),
  'weighted-renew': (reply, keys) => isListOf(reply, isKeptOrLost, keys.length / 3),
  'weighted-set-capacity': (reply) => reply === 1,
};

/** The name of a script's file: `forceUnlock` is in `force-unlock.lua`. */
type FileName<Name extends string> = Name extends `${infer First}${infer Others}`
  ? `${First extends Lowercase<First> ? First : `-${Lowercase<First>}`}${FileName<Others>}`
  : Name;
