// Names that differ only by their braces are different locks, whatever shares a slot of a cluster with them.
import { expect, it } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import { newClient } from '../../support/clients.js';
import { uniqueName } from '../../support/unique-name.js';

type Attempt = (
  client: Holdfast,
  name: string,
) => Promise<{ release(): Promise<void> } | undefined>;

const KINDS: readonly [string, Attempt][] = [
  ['a lock', (client, name) => client.getLock(name).tryAcquire()],
  ['a fair lock', (client, name) => client.getFairLock(name).tryAcquire()],
  ['a write lock', (client, name) => client.getReadWriteLock(name).writeLock().tryAcquire()],
  ['a permit', (client, name) => client.getSemaphore(name, { permits: 1 }).tryAcquire()],
];

it.each(KINDS)(
  '%s of one name stays held while locks under the other one come and go',
  async (_, attempt) => {
    await using client = newClient({});
    await using other = newClient({});
    const name = uniqueName('braces');
    for (const [ours, theirs] of [
      [name, `{${name}}`],
      [`{${name}}`, name],
    ] as const) {
      const hold = await attempt(client, ours);
      const beside = await attempt(other, theirs);
      expect(beside).toBeDefined();
      await beside!.release();
      expect(await attempt(other, ours)).toBeUndefined();
      await hold!.release();
    }
  },
);
