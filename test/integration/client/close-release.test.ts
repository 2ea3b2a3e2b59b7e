// A release that is under way while its client closes reports the fate of the lock as at any other time.
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import type { AcquireOptions, Holdfast, LockLostError } from '../../../src/index.js';
import {
  connectedClient,
  eventsOf,
  proxyPerTest,
  rejectionOf,
  sharedConnection,
} from '../../support/clients.js';
import { loadScripts } from '../../support/lock-commands.js';
import { recordCommands } from '../../support/recorded-commands.js';
import { eventually } from '../../support/time.js';
import { uniqueName } from '../../support/unique-name.js';

interface Releasable {
  extend(lease: number): Promise<void>;
  release(): Promise<void>;
}

const redis = sharedConnection();
let name: string;

beforeAll(async () => {
  await loadScripts(inject('redisUrl'));
});

beforeEach(() => {
  name = uniqueName();
});

const kinds: [
  string,
  (client: Holdfast) => { acquire(options?: AcquireOptions): Promise<Releasable> },
][] = [
  ['reentrant lock', (client) => client.getLock(name)],
  ['fair lock', (client) => client.getFairLock(name)],
  ['fenced lock', (client) => client.getFencedLock(name)],
  ['write lock', (client) => client.getReadWriteLock(name).writeLock()],
  ['semaphore', (client) => client.getSemaphore(name, { permits: 1 })],
  ['MultiLock', (client) => client.getMultiLock(client.getLock(name))],
];

describe.each(kinds)('release() of a %s in the same turn as close()', (_title, lockOf) => {
  it('throws if the lock was lost before', async () => {
    for (let round = 0; round < 20; round++) {
      const client = await connectedClient({ lockWatchdogTimeout: 30_000 });
      const lost = eventsOf(client, 'lost');
      const hold = await lockOf(client).acquire();
      await redis.del(...(await redis.keys(`*${name}*`)));
      const releasing = rejectionOf(hold.release());
      const closing = client.close();
      expect(await releasing).toMatchObject({ code: 'LOCK_LOST', lossReason: 'deleted' });
      await closing;
      expect(lost.map(({ lossReason }) => lossReason)).toEqual(['deleted']);
    }
  });

  it('releases the lock once, and reports no loss', async () => {
    const client = await connectedClient({ lockWatchdogTimeout: 30_000 });
    const lost = eventsOf(client, 'lost');
    const hold = await lockOf(client).acquire();
    const commands = await recordCommands(inject('redisUrl'), async () => {
      await Promise.all([hold.release(), client.close()]);
    });
    const sent = commands.filter(({ args, byScript }) => args.includes(name) && !byScript);
    expect(sent).toHaveLength(1);
    expect(lost).toEqual([]);
    expect(await redis.exists(name)).toBe(0);
  });
});

describe.each(kinds)(
  'release() of a %s behind an extension, in the same turn as close()',
  (_, lockOf) => {
    it.each(['held', 'deleted'])('ends as without the close: the lock was %s', async (state) => {
      for (let round = 0; round < 5; round++) {
        const client = await connectedClient({ lockWatchdogTimeout: 30_000 });
        const lost = eventsOf(client, 'lost');
        const hold = await lockOf(client).acquire();
        if (state === 'deleted') await redis.del(...(await redis.keys(`*${name}*`)));
        const calls = Promise.allSettled([hold.extend(60_000), hold.release()]);
        await client.close();
        const codes = (await calls).map((call) =>
          call.status === 'rejected' ? (call.reason as LockLostError).lossReason : 'done',
        );
        expect(codes).toEqual(state === 'held' ? ['done', 'done'] : ['deleted', 'deleted']);
        expect(lost.map(({ lossReason }) => lossReason)).toEqual(
          state === 'held' ? [] : ['deleted'],
        );
        expect(await redis.exists(name)).toBe(0);
      }
    });
  },
);

describe.each(kinds.filter(([title]) => /^(reentrant|fenced)/.test(title)))(
  'release() of a %s that hands over to a waiter, in the same turn as close()',
  (_, lockOf) => {
    it.each(['held', 'deleted'])('ends as without the close: the lock was %s', async (state) => {
      for (let round = 0; round < 20; round++) {
        const client = await connectedClient({ lockWatchdogTimeout: 30_000 });
        const lost = eventsOf(client, 'lost');
        const lock = lockOf(client);
        const first = await lock.acquire();
        const second = rejectionOf(lock.acquire());
        await Promise.resolve(); // in line by then
        if (state === 'deleted') await redis.del(name);
        const outcome = first.release().catch((error: unknown) => error);
        await client.close();
        if (state === 'held') expect(await outcome).toBeUndefined();
        else expect(await outcome).toMatchObject({ code: 'LOCK_LOST', lossReason: 'deleted' });
        expect(await second).toMatchObject({ code: 'CLIENT_CLOSED' });
        expect(lost).toHaveLength(state === 'held' ? 0 : 1);
        expect(await redis.exists(name)).toBe(0);
      }
    });
  },
);

it('a MultiLock that was released before its client closes does not lose the members of other clients', async () => {
  await using owner = await connectedClient({ lockWatchdogTimeout: 30_000 });
  for (let round = 0; round < 5; round++) {
    const client = await connectedClient({ lockWatchdogTimeout: 30_000 });
    const both = client.getMultiLock(client.getLock(name), owner.getLock(`${name}:2`));
    const hold = await both.acquire();
    const { signal } = hold;
    const calls = Promise.all([hold.release(), client.close()]);
    await calls;
    expect(signal.aborted).toBe(false);
    expect(await redis.exists(name, `${name}:2`)).toBe(0);
  }
});

describe('release() to a silent server', () => {
  const proxy = proxyPerTest();
  const COMMAND_TIMEOUT_MS = 300;

  it('ends in its own time while the client closes', async () => {
    const client = await silent();
    const hold = await client.getLock(name).acquire({ lease: 2_000 });
    proxy().blackhole();
    const releasing = rejectionOf(hold.release());
    await sleep(COMMAND_TIMEOUT_MS / 3); // otherwise release() and close() give up in the same millisecond
    const closing = client.close();
    expect(await releasing).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
    await closing;
    proxy().heal();
  });

  it('when repeated throws ClosedError if the client is closed before the answer', async () => {
    const client = await silent();
    const hold = await client.getLock(name).acquire({ lease: 2_000 });
    proxy().blackhole();
    const first = rejectionOf(hold.release());
    await sleep(COMMAND_TIMEOUT_MS / 2);
    const closing = client.close();
    await first;
    expect(await rejectionOf(hold.release())).toMatchObject({
      code: 'CLIENT_CLOSED',
      lockName: name,
    });
    await closing;
    proxy().heal();
  });

  it('by a caller that was handed the lock is no loss: its section has ended well before the close', async () => {
    const client = await silent();
    const lost = eventsOf(client, 'lost');
    const lock = client.getLock(name);
    const first = await lock.acquire({ lease: 2_000 });
    let hasEnded = false;
    const second = lock.withLock(() => void (hasEnded = true)).catch((error: unknown) => error);
    await Promise.resolve(); // in line by then
    proxy().blackhole();
    const releasing = rejectionOf(first.release());
    await eventually(() => {
      expect(hasEnded).toBe(true);
    });
    await client.close();
    expect(await releasing).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
    expect(await second).not.toMatchObject({ code: 'LOCK_LOST' });
    expect(lost).toEqual([]);
    proxy().heal('drop');
    await redis.del(name); // Redis never heard that it was given up
  });

  async function silent(): Promise<Holdfast> {
    const client = await connectedClient({
      redis: proxy().url,
      lockWatchdogTimeout: 30_000,
      commandTimeout: COMMAND_TIMEOUT_MS,
    });
    client.on('error', () => undefined);
    return client;
  }
});
