// What a Redlock may be made of: one reentrant lock of one name on each of several masters.

import { OptionError } from '../../api/errors.js';
import { ReentrantLockBackend } from '../reentrant/reentrant-backend.js';
import { BaseLock } from '../base-lock.js';
import { parseMembers, shownMember } from '../members.js';
import { isPlainObject } from '../../api/shown.js';
import { Master } from './master.js';
import { parseRedLockOptions, type RedLockSettings } from './settings.js';

/** What a Redlock is made of. */
export interface RedLockParts {
  readonly name: string;
  readonly masters: readonly Master[];
  readonly settings: RedLockSettings;
}

/** What `getRedLock()` was given: the locks, and then options, or none. */
export function parseRedLock(given: readonly unknown[]): RedLockParts {
  const last = given.at(-1);
  if (given.length === 0 || last instanceof BaseLock)
    return { ...parseMasters(given), settings: parseRedLockOptions({}) };
  // Taken for options that are all left out, it would make a Redlock of one master fewer, whose majority may miss that of others.
  if (!isPlainObject(last)) {
    throw new OptionError(
      `argument ${String(given.length)} of getRedLock() is ${shownMember(last)}: it must be a lock of getLock(), or a plain object of options`,
    );
  }
  const settings = parseRedLockOptions(last);
  return { ...parseMasters(given.slice(0, -1)), settings };
}

function parseMasters(locks: readonly unknown[]): Omit<RedLockParts, 'settings'> {
  const right = 'it must be a lock of getLock()';
  const members = parseMembers('a Redlock', locks, right, ({ memberIds }) => !memberIds);
  const name = members[0]?.name ?? '';
  const clients = new Set<object>();
  const masters = members.map((member) => {
    const { session, backend } = member.parts;
    if (!(backend instanceof ReentrantLockBackend) || !backend.mayVote) {
      throw new OptionError(
        `member "${member.name}" of a Redlock is not a lock of getLock(): only that can be held by a majority`,
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
  return { name, masters };
}
