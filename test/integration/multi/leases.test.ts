// One lease for all members of a MultiLock: counted from one instant, extended together, renewed together.
import type { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { eventsOf, newClient, nextEvent, sharedConnection } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { membersPerTest } from '../../support/multi-locks.js';
import { uniqueName } from '../../support/unique-name.js';

/** How far apart the ends of leases may be that were sent together, on a busy machine. */
const TOGETHER_MS = 400;

/** How long the call waits for one member while another member's lease could run ahead. */
const WAITED_MS = 1_000;

const redis = sharedConnection();
const members = membersPerTest();

/** Read in one transaction. */
async function ttlsOf(connection: Redis, names: readonly string[]): Promise<number[]> {
  const looks = connection.multi();
  for (const name of names) looks.pttl(name);
  const replies = (await looks.exec()) ?? [];
  return replies.map(([, ttlMs]) => Number(ttlMs));
}

async function expectTogether(leaseMs: number): Promise<void> {
  const ttlsMs = await ttlsOf(redis, members().names);
  expect(Math.max(...ttlsMs) - Math.min(...ttlsMs), String(ttlsMs)).toBeLessThan(TOGETHER_MS);
  expect(Math.max(...ttlsMs)).toBeLessThanOrEqual(leaseMs);
}

it('a fixed lease ends for all members at once', async () => {
  const { multi } = members();
  await using hold = await multi.acquire({ lease: 20_000 });
  await expectTogether(20_000);
  expect(hold.remaining()).toBeLessThan(20_000);
});

it.each(['a', 'b', 'c'] as const)(
  'a fixed lease ends for all members at once, and counts from the end of the wait for %s',
  async (taken) => {
    const { client, multi, others } = members();
    const theirs = await others[taken].acquire();
    const waiting = nextEvent(client, 'waiting');
    const acquiring = multi.acquire({ lease: 20_000 });
    await waiting;
    await sleep(WAITED_MS);
    const freedMs = performance.now();
    await theirs.release();
    await using hold = await acquiring;
    const least = 20_000 - (performance.now() - freedMs) - TOGETHER_MS;
    await expectTogether(20_000);
    expect(hold.remaining()).toBeGreaterThan(least);
  },
);

it('lock(lease) and tryLock(wait, lease) end for all members at once', async () => {
  const { multi } = members();
  await multi.lock(20_000);
  await expectTogether(20_000);
  await multi.unlock();
  expect(await multi.tryLock(5_000, 20_000)).toBe(true);
  await expectTogether(20_000);
  await multi.unlock();
});

it('extend() extends all members, and never shortens any', async () => {
  const { multi } = members();
  await using hold = await multi.acquire({ lease: 5_000 });
  await hold.extend(50_000);
  expect(hold.remaining()).toBeGreaterThan(40_000);
  await expectTogether(50_000);
  await hold.extend(1_000);
  expect(hold.remaining()).toBeGreaterThan(30_000);
  expect(Math.min(...(await ttlsOf(redis, members().names)))).toBeGreaterThan(30_000);
});

it('remaining() is that of the member that ends first', async () => {
  const { multi, a, names } = members();
  await a.withLock({ lease: 10_000 }, async (outer) => {
    await using hold = await multi.acquire({ lease: 20_000 });
    // The member that was held before got the later of both ends.
    expect(outer.remaining()).toBeGreaterThan(10_000);
    await outer.extend(60_000);
    expect(outer.remaining()).toBeGreaterThan(40_000);
    expect(hold.remaining()).toBeLessThan(20_000);
    const [outerTtlMs, ...ttlsMs] = await ttlsOf(redis, names);
    expect(outerTtlMs).toBeGreaterThan(40_000);
    expect(Math.max(...ttlsMs)).toBeLessThanOrEqual(20_000);
  });
});

it('without a lease all members are renewed, each by its own client', async () => {
  await using near = newClient({ lockWatchdogTimeout: 1_500 });
  await using far = newClient({ lockWatchdogTimeout: 1_500 });
  const names = ['near', 'fair', 'far'].map((label) => uniqueName(label));
  const [first, second, third] = [names[0]!, names[1]!, names[2]!];
  const multi = near.getMultiLock(
    near.getLock(first),
    near.getFairLock(second),
    far.getLock(third),
  );
  const renewed = [near, far].map((client) => eventsOf(client, 'renewed'));
  await using hold = await multi.acquire();
  await eventually(() => {
    for (const name of names) {
      const count = renewed.flat().filter(({ lockName }) => lockName === name).length;
      expect(count).toBeGreaterThan(4);
    }
  });
  expect(hold.remaining()).toBeGreaterThan(0);
  expect(hold.signal.aborted).toBe(false);
  expect(renewed.flat().every(({ ownerId }) => ownerId === hold.ownerId)).toBe(true);
});

it('with a lease no member is renewed, even if the call waited for it', async () => {
  await using client = newClient({ lockWatchdogTimeout: 300 });
  const { others, names } = members();
  const [a, b, c] = [names[0]!, names[1]!, names[2]!];
  const multi = client.getMultiLock(client.getLock(a), client.getFairLock(b), client.getLock(c));
  const renewed = eventsOf(client, 'renewed');
  const lost = nextEvent(client, 'lost');
  const theirs = await others.b.acquire();
  const waiting = nextEvent(client, 'waiting');
  const acquiring = multi.acquire({ lease: 1_500 });
  await waiting;
  await theirs.release();
  const hold = await acquiring;
  expect(await lost).toMatchObject({ lossReason: 'expired', ownerId: hold.ownerId });
  expect(renewed).toEqual([]);
});
