// A MultiLock and its members: several names on one Redis, one name on several, reentrant and fair locks.
import { expect, it } from 'vitest';
import { newClient, sharedConnection } from '../../support/clients.js';
import { heldOnServer, membersPerTest } from '../../support/multi-locks.js';
import { startMasters } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

const redis = sharedConnection();
const members = membersPerTest();

it('a MultiLock holds reentrant and fair members by one owner, once each', async () => {
  const { client, multi, names } = members();
  const hold = await multi.acquire();
  expect(hold.ownerId).toMatch(new RegExp(`^${client.clientId}:\\d+$`));
  const once = { [hold.ownerId]: '1' };
  expect(await heldOnServer(redis, names)).toEqual([once, once, once]);
  await hold.release();
  expect(await heldOnServer(redis, names)).toEqual([{}, {}, {}]);
});

it('each member excludes other callers, whichever kind of lock they use', async () => {
  const { multi, others, other, names } = members();
  await using hold = await multi.acquire();
  for (const name of names) {
    expect(await other.getLock(name).tryLock()).toBe(false);
    expect(await other.getFairLock(name).tryLock()).toBe(false);
  }
  expect(await others.multi.tryLock()).toBe(false);
  expect(hold.signal.aborted).toBe(false);
});

it('a MultiLock excludes another one that shares a member with it', async () => {
  const { multi, other, others } = members();
  const overlapping = other.getMultiLock(others.c, other.getLock(uniqueName()));
  await using hold = await multi.acquire();
  expect(await overlapping.tryLock()).toBe(false);
  await hold.release();
  expect(await overlapping.tryLock()).toBe(true);
  await overlapping.unlock();
});

it('isLocked() is true when all members are locked, whoever holds them', async () => {
  const { multi, others } = members();
  const seen = [await multi.isLocked()];
  for (const lock of [others.a, others.b, others.c]) {
    await lock.lock();
    seen.push(await multi.isLocked());
  }
  expect(seen).toEqual([false, false, false, true]);
});

it('remainTimeToLive() is that of the member that ends first', async () => {
  const { multi, others } = members();
  await others.a.lock(60_000);
  await others.b.lock(40_000);
  expect(await multi.remainTimeToLive()).toBe(-2); // one of them is free
  await others.c.lock(50_000);
  const ttlMs = await multi.remainTimeToLive();
  expect(ttlMs).toBeLessThanOrEqual(40_000);
  expect(ttlMs).toBeGreaterThan(20_000);
});

it('remainTimeToLive() omits members without expiry, and is -1 when none has one', async () => {
  const { multi, others, names } = members();
  await others.multi.lock();
  await redis.persist(names[0]!);
  expect(await multi.remainTimeToLive()).toBeGreaterThan(0);
  await Promise.all(names.map((name) => redis.persist(name)));
  expect(await multi.remainTimeToLive()).toBe(-1);
});

it("the hold count of a MultiLock is the smallest of its members' hold counts", async () => {
  const { client, multi, a, b } = members();
  const look = async (): Promise<unknown[]> => [
    await multi.isHeldByCurrentOwner(),
    await multi.getHoldCount(),
  ];
  await client.run(async () => {
    await a.lock();
    await b.lock();
    expect(await look()).toEqual([false, 0]);
    await multi.lock();
    expect(await look()).toEqual([true, 1]);
    expect(await a.getHoldCount()).toBe(2);
    expect(await client.detach(look)).toEqual([false, 0]);
    for (const lock of [multi, b, a]) await lock.unlock();
    expect(await look()).toEqual([false, 0]);
  });
});

it('forceUnlock() releases all members, whoever holds them, and returns whether any was held', async () => {
  const { multi, others, names } = members();
  expect(await multi.forceUnlock()).toBe(false);
  await others.b.lock();
  await others.c.lock(60_000);
  expect(await multi.forceUnlock()).toBe(true);
  expect(await heldOnServer(redis, names)).toEqual([{}, {}, {}]);
  expect(await multi.tryLock()).toBe(true);
  await multi.unlock();
  for (const lock of [others.b, others.c]) {
    await expect(lock.unlock()).rejects.toMatchObject({ code: 'LOCK_LOST' });
  }
  await redis.del(...names.map((name) => `holdfast_forced:{${name}}`));
});

it('one name on three masters is held on each of them', async () => {
  await using masters = await startMasters(3);
  const clients = masters.map(({ url }) => newClient({ redis: url, commandTimeout: 5_000 }));
  const [first, second] = clients;
  const name = uniqueName();
  const locks = clients.map((client) => client.getLock(name));
  const multi = first!.getMultiLock(...locks);
  expect(multi.name).toBe(`multi(${name}, ${name}, ${name})`);
  await multi.withLock(async (hold) => {
    expect(await Promise.all(locks.map((lock) => lock.isHeldByCurrentOwner()))).toEqual(
      masters.map(() => true),
    );
    expect(hold.ownerId.startsWith(`${first!.clientId}:`)).toBe(true);
    const oneOfThem = second!.detach(() => second!.getLock(name).tryLock());
    expect(await oneOfThem).toBe(false);
  });
  expect(await Promise.all(locks.map((lock) => lock.isLocked()))).toEqual([false, false, false]);
  await Promise.all(clients.map((client) => client.close()));
});
