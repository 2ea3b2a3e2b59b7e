// What a Redlock may be made of: one reentrant lock of one name on each of several masters.

import { OptionError } from '../errors.js';
import { FairLockBackend } from '../locks/fair-lock.js';
import { ReentrantLock } from '../locks/reentrant-lock.js';
import { parseMembers } from '../multi-lock.js';
import { Master } from './master.js';

export function parseMasters(locks: readonly unknown[]): { name: string; masters: Master[] } {
  const members = parseMembers('a Redlock', locks);
  const name = members[0]?.name ?? '';
  const clients = new Set<object>();
  const masters = members.map((member) => {
    const { client, backend } = member.parts;
    if (!(backend instanceof ReentrantLock) || backend instanceof FairLockBackend) {
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
    if (clients.has(client)) {
      throw new OptionError(
        `a Redlock has two members of one client: each must be on its own master, from its own Holdfast`,
      );
    }
    clients.add(client);
    return new Master(backend, client.leftovers);
  });
  return { name, masters };
}
