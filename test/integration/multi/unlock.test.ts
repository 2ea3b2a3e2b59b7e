// unlock() of a MultiLock: it undoes a lock() or tryLock() of all members, or of none.
import { expect, it } from 'vitest';
import { expectWarnings } from '../../support/expected-warnings.js';
import { heldOnServer, membersPerTest } from '../../support/multi-locks.js';
import { sharedConnection } from '../../support/clients.js';

expectWarnings(/^a run ended while it still held lock /);

const redis = sharedConnection();
const members = membersPerTest();

async function freeMembers(): Promise<number> {
  const held = await heldOnServer(redis, members().names);
  return held.filter((owners) => Object.keys(owners).length === 0).length;
}

it('unlock() of another object for the same locks, in another order, undoes lock()', async () => {
  const { client, multi, a, b, c } = members();
  await multi.lock();
  await client.getMultiLock(c, a, b).unlock();
  expect(await freeMembers()).toBe(3);
});

it('unlock() undoes what was locked member by member, and the reverse', async () => {
  const { multi, a, b, c } = members();
  for (const lock of [c, a, b]) await lock.lock();
  await multi.unlock();
  expect(await freeMembers()).toBe(3);
  await multi.lock();
  for (const lock of [c, a, b]) await lock.unlock();
  expect(await freeMembers()).toBe(3);
});

it('unlock() undoes nothing unless all members are held', async () => {
  const { client, multi, a, b, c } = members();
  const notHeld = { code: 'LOCK_NOT_HELD', lockName: multi.name };
  const partly = async (): Promise<void> => {
    await expect(multi.unlock()).rejects.toMatchObject(notHeld);
    await a.lock();
    await b.lock();
    await expect(multi.unlock()).rejects.toMatchObject(notHeld);
    expect(await freeMembers()).toBe(1);
    await c.lock();
    await multi.unlock();
    expect(await freeMembers()).toBe(3);
    await expect(multi.unlock()).rejects.toMatchObject(notHeld);
  };
  await partly();
  await client.run(partly);
});

it('a run that ends without unlock() releases all members, and warns of each', async () => {
  const { client, multi, names } = members();
  const warned: unknown[] = [];
  client.on('warning', ({ lockName }) => warned.push(lockName));
  await client.run(() => multi.lock());
  expect(warned.sort()).toEqual([...names].sort());
  expect(await freeMembers()).toBe(3);
});
