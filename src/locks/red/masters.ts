// What a Redlock may be made of: one lock of one name on each of several masters, reentrant ones or fenced ones.

import { OptionError } from '../../api/errors.js';
import { ReentrantLockBackend } from '../reentrant/reentrant-backend.js';
import { BaseLock } from '../base-lock.js';
import { parseMembers, shownMember } from '../members.js';
import { isPlainObject } from '../../api/shown.js';
import { Master } from './master.js';
import { parseRedLockOptions, type RedLockSettings } from './settings.js';

const A_MEMBER = 'a lock of getLock() or getFencedLock()';

/** What a Redlock is made of. */
export interface RedLockParts {
  readonly name: string;
  readonly masters: readonly Master[];
  /** Whether its members are fenced locks, and so its holders get tokens. */
  readonly isFenced: boolean;
  readonly settings: RedLockSettings;
}

/** What `getRedLock()` was given: the locks, and then options, or none. */
export function parseRedLock(given: readonly unknown[]): RedLockParts {
  const last = given.at(-1);
  if (given.length === 0 || last instanceof BaseLock) {
    const parts = parseMasters(given);
    return { ...parts, settings: parseRedLockOptions(parts.name, {}, parts.isFenced) };
  }
  // If it were taken for options that are all left out, it would make a Redlock of one master fewer, whose majority may miss that of
  // others.
  if (!isPlainObject(last)) {
    throw new OptionError(
      `argument ${String(given.length)} of getRedLock() is ${shownMember(last)}: it must be ${A_MEMBER}, or a plain object of options`,
    );
  }
  const parts = parseMasters(given.slice(0, -1));
  return { ...parts, settings: parseRedLockOptions(parts.name, last, parts.isFenced) };
}

function parseMasters(locks: readonly unknown[]): Omit<RedLockParts, 'settings'> {
  const right = `it must be ${A_MEMBER}`;
  const members = parseMembers('a Redlock', locks, right, ({ memberIds }) => !memberIds);
  const name = members[0]?.name ?? '';
  const clients = new Set<object>();
  const masters = members.map((member) => {
    const { session, backend } = member.parts;
    if (!(backend instanceof ReentrantLockBackend) || !backend.mayVote) {
      throw new OptionError(
        `member "${member.name}" of a Redlock is not a lock of getLock(), nor of getFencedLock() without fair: only such can be held by a majority`,
      );
    }
    if (member.name !== name) {
      throw new OptionError(
        `a Redlock has members "${name}" and "${member.name}": it must be one name on several masters`,
      );
    }
    if (backend.connection.isCluster) {
      throw new OptionError(
        `member "${member.name}" of a Redlock is in a cluster: each must be on a master of its own`,
      );
    }
    if (clients.has(session)) {
      throw new OptionError(
        `a Redlock has two members of one client: each must be on its own master, from its own Holdfast`,
      );
    }
    clients.add(session);
    return new Master(backend, session.cleanup);
  });
  return { name, masters, isFenced: areFenced(masters) };
}

/** Whether all members are fenced locks; throws if only some are, since a token is worth something only if the next holder has one, too. */
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
