// The parts of a Redlock: one lock, plain or fenced, with the same name on each of several masters; and its options.

import { OptionError } from '../../api/errors.js';
import {
  invalid,
  isPlainObject,
  isWholeNumber,
  parseDuration,
  parseOptions,
} from '../../api/options.js';
import { BaseLock } from '../base-lock.js';
import { ReentrantLockBackend } from '../plain.js';
import { parseMembers, shownMember } from '../single-lock.js';
import { Master } from './master.js';
import { fixedGuard, learningGuard, type RestartGuard } from './restart-guard.js';

export interface RedLockParts {
  readonly name: string;
  readonly masters: readonly Master[];
  /** Whether its members are fenced locks, so that its holders get tokens. */
  readonly isFenced: boolean;
  /** How long one master may take to answer, in milliseconds. */
  readonly nodeTimeoutMs: number;
  /** Decides which masters have restarted too recently to vote. `longestLeaseMs`: the longest lease that this client has used. */
  readonly guard: (longestLeaseMs: number) => RestartGuard;
  /** How many times the watchdog extends a lease at most. */
  readonly maxExtensions: number;
}

const A_MEMBER = 'a lock of getLock() or getFencedLock()';

/** Parses the arguments of `getRedLock()`: the locks, optionally followed by options. */
export function parseRedLock(given: readonly unknown[]): RedLockParts {
  const last = given.at(-1);
  const hasOptions = given.length > 0 && !(last instanceof BaseLock);
  // Treating another value as empty options would make a Redlock of one master fewer, whose majority need not overlap that of others.
  if (hasOptions && !isPlainObject(last)) {
    throw new OptionError(
      `argument ${String(given.length)} of getRedLock() is ${shownMember(last)}: it must be ${A_MEMBER}, or a plain object of options`,
    );
  }
  const masters = parseMasters(hasOptions ? given.slice(0, -1) : given);
  const name = masters[0]?.lock.name ?? '';
  const isFenced = areFenced(masters);
  const { nodeTimeout, restartGuard, maxExtensions } = parseOptions(
    'the options of getRedLock()',
    hasOptions ? last : {},
    ['nodeTimeout', 'restartGuard', 'maxExtensions'],
    name,
  );
  return {
    name,
    masters,
    isFenced,
    nodeTimeoutMs:
      nodeTimeout === undefined ? 50 : parseDuration(nodeTimeout, 'nodeTimeout', 1, name),
    guard: parseRestartGuard(name, restartGuard, isFenced),
    maxExtensions: parseMaxExtensions(name, maxExtensions),
  };
}

function parseMasters(locks: readonly unknown[]): readonly Master[] {
  const right = `it must be ${A_MEMBER}`;
  const members = parseMembers('a Redlock', locks, right, ({ memberIds }) => !memberIds);
  return members.map(({ name, parts: { session, backend } }) => {
    if (!(backend instanceof ReentrantLockBackend)) {
      throw new OptionError(
        `member "${name}" of a Redlock is not a lock of getLock(), nor of getFencedLock() without fair: only such can be held by a majority`,
      );
    }
    const { name: first = '' } = members[0] ?? {};
    if (name !== first) {
      throw new OptionError(
        `a Redlock has members "${first}" and "${name}": it must be one name on several masters`,
      );
    }
    if (backend.connection.isCluster) {
      throw new OptionError(
        `member "${name}" of a Redlock is in a cluster: each must be on a master of its own`,
      );
    }
    return new Master(backend, session.cleanup);
  });
}

/** Whether all members are fenced locks. Throws if only some are, since a token is useful only if the next holder has one, too. */
function areFenced(masters: readonly Master[]): boolean {
  const places = (isFenced: boolean): string =>
    masters.flatMap(({ lock }, index) => (lock.isFenced === isFenced ? index + 1 : [])).join(', ');
  const [fenced, plain] = [places(true), places(false)];
  if (fenced !== '' && plain !== '') {
    throw new OptionError(
      `a Redlock has members of getFencedLock() (${fenced}) and of getLock() (${plain}): it must be all of one kind`,
    );
  }
  return fenced !== '';
}

function parseRestartGuard(
  lockName: string,
  restartGuard: unknown,
  isFenced: boolean,
): RedLockParts['guard'] {
  if (restartGuard === undefined) return learningGuard;
  const guardMs =
    restartGuard === false ? 0 : parseDuration(restartGuard, 'restartGuard', 0, lockName);
  if (isFenced && guardMs === 0) {
    const right =
      'at least 1 ms where the members are fenced locks: a master that restarted may have forgotten their tokens';
    throw invalid('restartGuard', restartGuard, right, lockName);
  }
  return () => fixedGuard(guardMs);
}

function parseMaxExtensions(lockName: string, maxExtensions: unknown = Infinity): number {
  if (maxExtensions === Infinity || isWholeNumber(maxExtensions, 0)) return maxExtensions;
  const right = 'a whole number of at least 0, or Infinity';
  throw invalid('maxExtensions', maxExtensions, right, lockName);
}
