// A MultiLock and the locks around and inside it: members that are already held are re-entered, and parallel branches take turns.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import type { Lock } from '../../../src/index.js';
import { heldOnServer, membersPerTest } from '../../support/multi-locks.js';
import { Occupancy } from '../../support/occupancy.js';
import { sharedConnection } from '../../support/clients.js';
import { uniqueName } from '../../support/unique-name.js';

const redis = sharedConnection();
const members = membersPerTest();

/** The hold counts of all members. */
async function counts(): Promise<number[]> {
  const held = await heldOnServer(redis, members().names);
  return held.map((owners) => Object.values(owners).reduce((sum, count) => sum + Number(count), 0));
}

it('withLock() of a member inside the MultiLock re-enters', async () => {
  const { multi, a, b, c } = members();
  await multi.withLock(async (outer) => {
    for (const member of [a, b, c]) {
      await member.withLock({ wait: 0 }, async (inner) => {
        expect(inner.ownerId).toBe(outer.ownerId);
        expect(await member.getHoldCount()).toBe(2);
      });
    }
    expect(await counts()).toEqual([1, 1, 1]);
  });
  expect(await counts()).toEqual([0, 0, 0]);
});

it('lock() of a member in the same run re-enters, and its unlock() leaves the MultiLock held', async () => {
  const { client, multi, a, b } = members();
  await client.run(async () => {
    await multi.lock();
    expect(await a.tryLock()).toBe(true);
    expect(await b.tryLock()).toBe(true);
    expect(await counts()).toEqual([2, 2, 1]);
    await b.unlock();
    await a.unlock();
    expect(await counts()).toEqual([1, 1, 1]);
    await multi.unlock();
  });
  expect(await counts()).toEqual([0, 0, 0]);
});

it('a MultiLock re-enters a member that the scope already holds, and leaves it as it was', async () => {
  const { multi, b } = members();
  await b.withLock(async (outer) => {
    await multi.withLock({ wait: 0 }, async () => {
      expect(await counts()).toEqual([1, 2, 1]);
    });
    expect(await counts()).toEqual([0, 1, 0]);
    expect(outer.remaining()).toBeGreaterThan(0);
  });
});

it('a MultiLock re-enters a member that the run already holds, whichever is unlocked first', async () => {
  const { client, multi, c } = members();
  for (const order of [
    [multi, c],
    [c, multi],
  ] as const) {
    await client.run(async () => {
      await c.lock();
      expect(await multi.tryLock()).toBe(true);
      expect(await counts()).toEqual([1, 1, 2]);
      for (const lock of order) await lock.unlock();
      expect(await counts()).toEqual([0, 0, 0]);
    });
  }
});

it('another MultiLock that overlaps re-enters the shared members and acquires the rest', async () => {
  const { client, other, multi, b } = members();
  const rest = uniqueName('rest');
  const overlapping = client.getMultiLock(client.getLock(rest), b);
  await multi.withLock(async () => {
    await overlapping.withLock({ wait: 0 }, async () => {
      expect(await counts()).toEqual([1, 2, 1]);
      expect(await other.getLock(rest).isLocked()).toBe(true);
    });
    expect(await counts()).toEqual([1, 1, 1]);
    expect(await other.getLock(rest).isLocked()).toBe(false);
  });
});

it('a detached call inside a MultiLock does not re-enter, except within hold.run()', async () => {
  const { client, multi, a } = members();
  await multi.withLock((hold) =>
    client.detach(async () => {
      expect(await a.tryLock()).toBe(false);
      expect(await multi.tryLock()).toBe(false);
      await hold.run(async () => {
        expect(await multi.isHeldByCurrentOwner()).toBe(true);
        await a.withLock({ wait: 0 }, counts);
        await multi.withLock({ wait: 0 }, async () => {
          expect(await counts()).toEqual([2, 2, 2]);
        });
      });
      expect(await multi.isHeldByCurrentOwner()).toBe(false);
    }),
  );
});

it('parallel withLock() calls of a MultiLock never overlap: in one scope, inside one hold of it, or of one member', async () => {
  const { client, multi, a } = members();
  await client.run(parallel);
  await multi.withLock(parallel);
  await a.withLock(parallel);
  expect(await counts()).toEqual([0, 0, 0]);
});

/** In both orders of members, and of one member alone. */
async function parallel(): Promise<void> {
  const { client, multi, b } = members();
  const occupancy = new Occupancy();
  const backwards = client.getMultiLock(...reversed());
  const locks: Lock[] = [multi, backwards, b, multi, backwards, b];
  await Promise.all(
    locks.map((lock) => lock.withLock(() => occupancy.inside(lock.name, () => sleep(3)))),
  );
  expect(occupancy.order).toHaveLength(locks.length);
  expect(occupancy.most).toBe(1);
}

function reversed(): Lock[] {
  const { a, b, c } = members();
  return [c, b, a];
}
