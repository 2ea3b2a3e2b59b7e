// Numbers that end in eight zeros: Redis 7.2.0 to 7.2.4 and Valkey 7.2.5 write such a number of a script as "1e+8" when it goes into a
// command. So scripts hand digits to commands, and leases, memories and permits of such numbers work on every server.
import { describe, expect, it } from 'vitest';
import type { Hold, Holdfast } from '../../../src/index.js';
import { connectedClient, newClient, sharedConnection } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { FairLine } from '../../support/fair-line.js';
import { FENCED_KINDS, memoryMs } from '../../support/fenced-locks.js';
import { redNodes } from '../../support/red-nodes.js';
import { startMasters } from '../../support/redis-topologies.js';
import { TestSemaphore } from '../../support/weighted-locks.js';
import { uniqueName } from '../../support/unique-name.js';

const ROUND_MS = 1_000_000_000;
/** What is left of `ROUND_MS` when a test looks, at least. */
const NEARLY_MS = ROUND_MS - 100_000;

const redis = sharedConnection();
const nodes = redNodes(() => startMasters(3));

describe('a lease of eight zeros', () => {
  it('is that of a nested call, and of an extension', async () => {
    await using client = newClient({ lockWatchdogTimeout: 30_000 });
    const lock = client.getLock(uniqueName());
    const hold = await lock.acquire({ lease: 30_000 });
    await hold.run(() =>
      lock.withLock({ lease: ROUND_MS }, async () => {
        expect(await redis.pttl(lock.name)).toBeGreaterThan(NEARLY_MS);
      }),
    );
    await hold.extend(2 * ROUND_MS);
    expect(await redis.pttl(lock.name)).toBeGreaterThan(2 * NEARLY_MS);
    await hold.release();
  });

  it('is that of a place in line, and of the fair lock that is handed over', async () => {
    await using holder = newClient({ lockWatchdogTimeout: ROUND_MS });
    await using watched = newClient({ lockWatchdogTimeout: ROUND_MS });
    await using fixed = newClient({ lockWatchdogTimeout: 30_000 });
    const line = new FairLine(redis);
    const hold = await line.lockOf(holder).acquire();
    const first = await inLine(line, watched);
    const second = await inLine(line, fixed, 2 * ROUND_MS);
    await hold.release();
    const handed = await first.acquiring;
    expect(await redis.pttl(line.name)).toBeGreaterThan(NEARLY_MS);
    await handed.release();
    const confirmed = await second.acquiring;
    await eventually(async () => {
      expect(await redis.pttl(line.name)).toBeGreaterThan(2 * NEARLY_MS);
    });
    await confirmed.release();
  });

  it('is that of a word of force', async () => {
    await using client = newClient({ lockWatchdogTimeout: ROUND_MS / 2 });
    const lock = client.getLock(uniqueName());
    await lock.acquire({ lease: 2 * ROUND_MS });
    expect(await lock.forceUnlock()).toBe(true);
    const word = `holdfast_forced:{${lock.name}}`;
    expect(await redis.pttl(word)).toBeGreaterThan(NEARLY_MS);
    await redis.del(word);
  });

  it('is that of a Redlock, and remembered by its masters', async () => {
    await using client = await nodes.client({ lockWatchdogTimeout: 30_000 });
    const lock = client.lock(uniqueName());
    const hold = await lock.acquire({ lease: ROUND_MS });
    await hold.extend(2 * ROUND_MS);
    for (const leftMs of await nodes.leftMs(lock)) expect(leftMs).toBeGreaterThan(2 * NEARLY_MS);
    const remembered = await nodes.ask((master) =>
      master.get(`holdfast_longest_lease:{${lock.name}}`),
    );
    expect(remembered).toEqual(Array(3).fill(String(2 * ROUND_MS)));
    await hold.release();
  });
});

describe('a token that is remembered for a time of eight zeros', () => {
  const tokenTtl = ROUND_MS;

  it.each(FENCED_KINDS)('is given by $title, taken and handed over', async ({ options }) => {
    await using holder = newClient({ lockWatchdogTimeout: 30_000 });
    await using waiter = newClient({ lockWatchdogTimeout: 30_000 });
    const name = uniqueName('fenced');
    const lockOf = (client: Holdfast) => client.getFencedLock(name, { ...options, tokenTtl });
    const hold = await lockOf(holder).acquire();
    expect(await memoryMs(redis, name)).toBeGreaterThan(NEARLY_MS);
    const acquiring = lockOf(waiter).acquire();
    await redis.pexpire(`redisson_lock_token:{${name}}`, 60_000);
    await hold.release();
    const next = await acquiring;
    expect(next.token).toBeGreaterThan(hold.token);
    expect(await memoryMs(redis, name)).toBeGreaterThan(NEARLY_MS);
    await next.release();
  });

  it('is given to many that are gathered', async () => {
    await using client = await connectedClient({ lockWatchdogTimeout: 30_000 });
    const locks = Array.from({ length: 3 }, () =>
      client.getFencedLock(uniqueName('fenced'), { tokenTtl }),
    );
    const holds = await Promise.all(locks.map((lock) => lock.acquire()));
    for (const { name } of locks) expect(await memoryMs(redis, name)).toBeGreaterThan(NEARLY_MS);
    await Promise.all(holds.map((hold) => hold.release()));
  });

  it('is written to the masters of a Redlock', async () => {
    await nodes.unguarded();
    await using client = await nodes.client({ lockWatchdogTimeout: 30_000 });
    const lock = client.fencedLock(uniqueName('fenced-red'), {}, { tokenTtl });
    const hold = await lock.acquire();
    const memories = await nodes.ask((master) => memoryMs(master, lock.name));
    expect(memories.filter((leftMs) => leftMs! > NEARLY_MS).length).toBeGreaterThanOrEqual(2);
    await hold.release();
  });
});

describe('permits whose number has eight zeros', () => {
  const MANY = 100_000_000;

  it('are all free again when they were released, whatever was done with them', async () => {
    await using client = newClient({ lockWatchdogTimeout: 30_000 });
    await using other = newClient({ lockWatchdogTimeout: 30_000 });
    const semaphore = new TestSemaphore(redis, 3 * MANY);
    const stays = await semaphore.of(client).acquire({ permits: 1 });
    const holds = [
      await semaphore.of(client).acquire({ permits: MANY }),
      await semaphore.of(client).acquire({ permits: MANY, lease: ROUND_MS }),
    ];
    await holds[1]!.extend(2 * ROUND_MS);
    const { hold } = await semaphore.join(other, { permits: MANY });
    expect(await semaphore.of(client).availablePermits()).toBe(MANY - 1);
    await stays.release();
    holds.push(await hold);
    await holds[2]!.extend(2 * ROUND_MS);
    expect(await semaphore.of(client).availablePermits()).toBe(0);
    for (const each of holds) await each.release();
    await semaphore.isGone();
  });

  it('are so after a capacity of eight zeros was set, too', async () => {
    await using client = newClient({ lockWatchdogTimeout: 30_000 });
    const test = new TestSemaphore(redis, 3);
    const semaphore = test.of(client);
    const hold = await semaphore.acquire();
    await semaphore.setPermits(2 * MANY);
    const many = await semaphore.acquire({ permits: MANY });
    expect(await semaphore.availablePermits()).toBe(MANY - 1);
    await many.release();
    expect(await semaphore.availablePermits()).toBe(2 * MANY - 1);
    await hold.release();
    await redis.del(test.setKey);
    await test.isGone();
  });
});

async function inLine(
  line: FairLine,
  client: Holdfast,
  lease?: number,
): Promise<{ acquiring: Promise<Hold> }> {
  let acquiring!: Promise<Hold>;
  await line.joined(client.clientId, () => {
    acquiring = line.lockOf(client).acquire({ lease });
  });
  return { acquiring };
}
