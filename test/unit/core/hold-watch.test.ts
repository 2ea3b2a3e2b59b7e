// Forgotten holds: `longHold` and `traceHolds`, over the server in memory.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Holdfast, type Hold, type PermitHold, type WarningEvent } from '../../../src/index.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { eventsOf } from '../../support/clients.js';
import { expectWarnings } from '../../support/expected-warnings.js';

expectWarnings(/^lock ".*" (has been held for|is held by a hold that was never released)/);

let redis: MemoryRedis;
const clients: Holdfast[] = [];

beforeEach(() => {
  redis = new MemoryRedis();
});

afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()));
});

function newClient(options: { longHold?: number; traceHolds?: boolean }): {
  client: Holdfast;
  warnings: WarningEvent[];
} {
  const client = new Holdfast({ redis, ...options });
  clients.push(client);
  return { client, warnings: eventsOf(client, 'warning') };
}

describe('longHold', () => {
  it('warns once of a hold that lasts longer', async () => {
    const { client, warnings } = newClient({ longHold: 20_000 });
    const hold = await client.getLock('slow').acquire({ label: 'the report' });
    await client.getLock('quick').withLock(() => undefined);
    await redis.advance(19_000);
    expect(warnings).toEqual([]);
    await redis.advance(100_000);
    const { ownerId } = hold;
    expect(warnings).toMatchObject([{ lockName: 'slow', ownerId }]);
    expect(warnings[0]!.message).toMatch(
      /^lock "slow" has been held for 20\d{3} ms, longer than longHold \(the report\)$/,
    );
    await hold.release();
  });

  it('reports each lock once a minute, and others beside it', async () => {
    const { client, warnings } = newClient({ longHold: 1_000 });
    const seats = client.getSemaphore('seats', { permits: 9 });
    const holds: { release(): Promise<void> }[] = [];
    for (let i = 0; i < 3; i++) holds.push(await seats.acquire());
    holds.push(await client.getLock('slow').acquire());
    await redis.advance(2_000);
    expect(warnings.map(({ lockName }) => lockName)).toEqual(['seats', 'slow']);
    await redis.advance(70_000);
    holds.push(await seats.acquire());
    await redis.advance(2_000);
    expect(warnings.map(({ lockName }) => lockName)).toEqual(['seats', 'slow', 'seats']);
    for (const hold of holds) await hold.release();
  });

  it('forgets a hold that was released or lost', async () => {
    const { client, warnings } = newClient({ longHold: 5_000 });
    const hold = await client.getLock('a').acquire();
    await client.getLock('a').forceUnlock();
    await client.getLock('b').withLock(() => undefined);
    await redis.advance(20_000);
    expect(warnings).toEqual([]);
    await expect(hold.release()).rejects.toMatchObject({ code: 'LOCK_LOST' });
  });

  it('is off by default', async () => {
    const { client, warnings } = newClient({});
    const hold = await client.getLock('a').acquire();
    await redis.advance(600_000);
    expect(warnings).toEqual([]);
    await hold.release();
  });
});

describe('traceHolds', () => {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as () => void;

  it.each([
    ['a lock', (client: Holdfast) => client.getLock('lost').acquire()],
    ['a fenced lock', (client: Holdfast) => client.getFencedLock('lost').tryAcquire()],
    ['a semaphore', (client: Holdfast) => client.getSemaphore('lost', { permits: 1 }).acquire()],
  ])(
    'warns of a hold of %s that nobody has any more, and says where it was acquired',
    async (_, acquire) => {
      const { client, warnings } = newClient({ traceHolds: true });
      await acquire(client); // and forgets it
      await expect
        .poll(() => {
          gc();
          return warnings.length;
        })
        .toBe(1);
      expect(warnings[0]).toMatchObject({ lockName: 'lost' });
      expect(warnings[0]!.message).toContain('never released');
      expect(warnings[0]!.message).toContain('hold-watch.test');
      expect(warnings[0]!.message).not.toContain('acquisition.ts');
    },
  );

  it('does not warn of holds that were released, or that somebody still has', async () => {
    const { client, warnings } = newClient({ traceHolds: true });
    const release = async (): Promise<void> => {
      const hold = await client.getLock('released').acquire();
      await hold.release();
    };
    await release();
    await client.getLock('guarded').withLock(() => undefined);
    const kept = await client.getMultiLock(client.getLock('a'), client.getLock('b')).acquire();
    for (let i = 0; i < 5; i++) {
      gc();
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    expect(warnings).toEqual([]);
    await kept.release();
  });

  it('gives a hold that behaves as any other', async () => {
    const { client } = newClient({ traceHolds: true });
    const hold: Hold = await client.getFencedLock('a').acquire();
    expect(hold.remaining()).toBeGreaterThan(0);
    expect(hold.lockName).toBe('a');
    expect(hold.signal.aborted).toBe(false);
    expect(hold.token).toBeTypeOf('bigint');
    await hold.extend(60_000);
    expect(await hold.run(() => client.getLock('a').tryLock())).toBe(true);
    expect(JSON.parse(JSON.stringify(hold))).toMatchObject({ state: 'held', lockName: 'a' });
    await hold[Symbol.asyncDispose]();
    const permit: PermitHold = await client.getSemaphore('s', { permits: 2 }).acquire();
    expect(permit.permits).toBe(1);
    await permit.release();
  });
});

it.each([
  [{ longHold: 0 }, 'longHold is 0'],
  [{ traceHolds: 'yes' }, "traceHolds is 'yes'"],
])('refuses %j', (options, message) => {
  expect(() => new Holdfast({ redis, ...(options as object) })).toThrow(message);
});
