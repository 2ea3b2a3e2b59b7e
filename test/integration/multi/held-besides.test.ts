// What a run holds besides a MultiLock outlives the loss of that one's other members.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { newClient, nextEvent, rejectionOf, sharedConnection } from '../../support/clients.js';
import { uniqueName } from '../../support/unique-name.js';

const redis = sharedConnection();

it('a member that the run held before outlives a loss that the release finds out', async () => {
  await using client = newClient({ lockWatchdogTimeout: 30_000 });
  const [a, b] = [client.getLock(uniqueName('a')), client.getLock(uniqueName('b'))];
  const multi = client.getMultiLock(a, b);
  await client.run(async () => {
    const outer = await a.acquire();
    const hold = await multi.acquire();
    await redis.del(b.name);
    expect(await rejectionOf(hold.release())).toMatchObject({ code: 'LOCK_LOST' });
    expect(outer.signal.aborted).toBe(false);
    expect(outer.remaining()).toBeGreaterThan(0);
    expect(await redis.hgetall(a.name)).toEqual({ [outer.ownerId]: '1' });
    await outer.release();
  });
});

it('a member that the run had locked before outlives a loss that unlock() finds out', async () => {
  await using client = newClient({ lockWatchdogTimeout: 30_000 });
  const [a, b] = [client.getLock(uniqueName('a')), client.getLock(uniqueName('b'))];
  const multi = client.getMultiLock(a, b);
  await client.run(async () => {
    await a.lock();
    await multi.lock();
    await redis.del(b.name);
    expect(await rejectionOf(multi.unlock())).toMatchObject({ code: 'LOCK_LOST' });
    expect(await a.isHeldByCurrentOwner()).toBe(true);
    await a.unlock();
  });
});

it('a member that was unlocked by itself outlives the loss of another one, where it is held besides', async () => {
  await using client = newClient({ lockWatchdogTimeout: 900 });
  const [a, b] = [client.getLock(uniqueName('a')), client.getLock(uniqueName('b'))];
  const multi = client.getMultiLock(a, b);
  await client.run(async () => {
    await a.lock();
    await multi.lock();
    await a.unlock(); // undoes the one of the MultiLock
    const lost = nextEvent(client, 'lost');
    await redis.del(b.name);
    await lost;
    await sleep(100);
    expect(await a.isHeldByCurrentOwner()).toBe(true);
    await b.unlock().catch(() => undefined);
    await a.unlock();
  });
});
