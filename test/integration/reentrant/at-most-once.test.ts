// Commands that run twice, late, or without a reply: none of them acquires, releases or extends a lock wrongly.
import { beforeEach, describe, expect, it } from 'vitest';
import type { Holdfast, Lock } from '../../../src/index.js';
import {
  eventsOf,
  newClient,
  nextEvent,
  proxyPerTest,
  rejectionOf,
  sharedConnection,
} from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { commandOf, rises, watchTtl } from '../../support/lock-commands.js';
import type { HeldCommand, Interception } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

const LEASE_MS = 2_400;

/** The commands of a lock that is acquired twice, renewed and released twice, in order. */
const COMMANDS = ['acquire', 'nested acquire', 'renewal', 'nested release', 'release'] as const;
type CommandName = (typeof COMMANDS)[number];

const SCRIPTS = {
  acquire: 'acquire',
  'nested acquire': 'reenter',
  renewal: 'renew',
  'nested release': 'reenter',
  release: 'release',
} as const;

const redis = sharedConnection();
const proxy = proxyPerTest();
let name: string;

beforeEach(() => {
  name = uniqueName();
});

describe.each(['loseReplyTo', 'cutAfterForwarding', 'holdBack'] as const)('%s', (fault) => {
  it.each(COMMANDS)(
    '%s: the lock is acquired and released as if nothing had happened',
    async (command) => {
      await using client = proxiedClient();
      const lost = eventsOf(client, 'lost');
      const warnings = eventsOf(client, 'warning');
      await cycle(client, command, (match) => proxy()[fault](match));
      expect(await redis.exists(name)).toBe(0);
      const after = await watchTtl(redis, name, LEASE_MS / 2);
      expect(new Set(after)).toEqual(new Set([-2]));
      expect(lost).toEqual([]);
      expect(warnings).toEqual([]);
    },
  );
});

describe.each([
  ['a copy', 'copyNext'],
  ['the held-back original', 'holdBack'],
] as const)('%s that arrives late', (_title, fault) => {
  it.each(COMMANDS)("%s: does not change another client's lock", async (command) => {
    await using client = proxiedClient();
    await using other = newClient();
    const late = await cycle(client, command, (match) => proxy()[fault](match));
    await using taken = await other.getLock(name).acquire({ lease: 10_000 });
    await changesNothing(late);
    expect(await redis.hgetall(name)).toEqual({ [taken.ownerId]: '1' });
  });

  it.each(COMMANDS)('%s: does not change the next hold of its own scope', async (command) => {
    await using client = proxiedClient();
    const lost = eventsOf(client, 'lost');
    const lock = client.getLock(name);
    await client.run(async () => {
      const late = await cycle(client, command, (match) => proxy()[fault](match));
      await lock.lock(10_000);
      await changesNothing(late);
      expect(await lock.getHoldCount()).toBe(1);
      await lock.unlock();
    });
    expect(await redis.exists(name)).toBe(0);
    expect(lost).toEqual([]);
  });

  it.each(COMMANDS.slice(1))('%s: does not acquire a free lock', async (command) => {
    await using client = proxiedClient();
    const late = await cycle(client, command, (match) => proxy()[fault](match));
    await late.deliver();
    const after = await watchTtl(redis, name, LEASE_MS / 2);
    expect(new Set(after)).toEqual(new Set([-2]));
  });

  it('acquire: takes a free lock for one lease at most, since nobody renews it', async () => {
    await using client = proxiedClient();
    const late = await cycle(client, 'acquire', (match) => proxy()[fault](match));
    await late.deliver();
    const seen = await watchTtl(redis, name, 1.2 * LEASE_MS);
    expect(rises(seen)).toBe(false);
    await expect.poll(() => redis.pttl(name)).toBe(-2);
  });

  it.each(['nested acquire', 'nested release'] as const)(
    '%s: does not prevent the release of its own hold',
    async (command) => {
      await using client = proxiedClient();
      const lock = client.getLock(name);
      await client.run(async () => {
        await lock.lock();
        const late = proxy()[fault](commandOf(SCRIPTS[command], name));
        await lock.lock();
        await lock.unlock();
        await late.happened;
        await late.deliver();
        await lock.unlock();
      });
      expect(await redis.exists(name)).toBe(0);
    },
  );

  async function changesNothing(late: HeldCommand): Promise<void> {
    const before = await redis.hgetall(name);
    const watching = watchTtl(redis, name, 300);
    await late.deliver();
    const seen = await watching;
    expect(rises(seen)).toBe(false);
    expect(seen.at(-1)).toBeGreaterThan(0);
    expect(await redis.hgetall(name)).toEqual(before);
  }
});

describe('a call that gives up', () => {
  it('has no lock beyond one lease when its acquire arrives later', async () => {
    await using client = proxiedClient();
    const aborter = new AbortController();
    const late = proxy().holdBack(commandOf('acquire', name), 'silence');
    const acquiring = client.getLock(name).acquire({ signal: aborter.signal });
    await late.happened;
    aborter.abort();
    expect(await rejectionOf(acquiring)).toMatchObject({ code: 'LOCK_ABORTED' });
    await late.deliver();
    const seen = await watchTtl(redis, name, 1.2 * LEASE_MS);
    expect(rises(seen)).toBe(false);
    expect(seen.at(-1)).toBe(-2);
  });

  it('releases what its late acquire took, long before the lease ends', async () => {
    const times = { lockWatchdogTimeout: 60_000, commandTimeout: 1_000 };
    await using client = newClient({ redis: proxy().url, ...times });
    const aborter = new AbortController();
    const late = proxy().holdBack(commandOf('acquire', name), 'silence');
    const acquiring = client.getLock(name).acquire({ signal: aborter.signal });
    await late.happened;
    aborter.abort();
    expect(await rejectionOf(acquiring)).toMatchObject({ code: 'LOCK_ABORTED' });
    expect(await late.deliver()).toBe(1); // it acquires the lock
    await eventually(async () => {
      expect(await redis.exists(name)).toBe(0);
    });
  });

  it('has its release repeated as soon as Redis is reachable', async () => {
    await using client = newClient({
      redis: proxy().url,
      lockWatchdogTimeout: 30_000,
      commandTimeout: 300,
    });
    const hold = await client.getLock(name).acquire();
    proxy().blackhole();
    expect(await rejectionOf(hold.release())).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
    expect(await redis.exists(name)).toBe(1);
    proxy().heal('drop');
    await eventually(async () => {
      expect(await redis.exists(name)).toBe(0);
    });
    await hold.release(); // repeated: already done
  });

  it('may repeat its release, which releases the lock once', async () => {
    await using client = newClient({ redis: proxy().url, commandTimeout: 300 });
    await using other = newClient();
    const hold = await client.getLock(name).acquire({ lease: 5_000 });
    const late = proxy().holdBack(commandOf('release', name), 'silence');
    expect(await rejectionOf(hold.release())).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
    await eventually(() => hold.release());
    await using taken = await other.getLock(name).acquire({ lease: 10_000 });
    await late.deliver();
    expect(await redis.hkeys(name)).toEqual([taken.ownerId]);
  });
});

function proxiedClient(): Holdfast {
  return newClient({
    redis: proxy().url,
    lockWatchdogTimeout: LEASE_MS,
    commandTimeout: 5_000, // so that the client repeats a command instead of giving up
  });
}

/** Acquires the lock twice and releases it twice, with a disturbance of one of the commands. */
async function cycle<T extends Interception>(
  client: Holdfast,
  disturbed: CommandName,
  disturb: (command: RegExp) => T,
): Promise<T> {
  const lock: Lock = client.getLock(name);
  const steps: Record<CommandName, () => Promise<unknown>> = {
    acquire: () => lock.lock(),
    'nested acquire': () => lock.lock(),
    renewal: () => nextEvent(client, 'renewed'),
    'nested release': () => lock.unlock(),
    release: () => lock.unlock(),
  };
  const counts = [1, 2, 2, 1, 0];
  let disturbance!: T;
  await client.run(async () => {
    for (const [index, command] of COMMANDS.entries()) {
      if (command === 'renewal' && disturbed !== 'renewal') continue; // it would take a while
      if (command === disturbed) disturbance = disturb(commandOf(SCRIPTS[command], name));
      await steps[command]();
      if (command === disturbed) await disturbance.happened;
      expect(await lock.getHoldCount()).toBe(counts[index]);
    }
  });
  return disturbance;
}
