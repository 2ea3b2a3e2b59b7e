// A release that is under way while its client closes reports the fate of the lock as at any other time.
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import type { AcquireOptions, Holdfast } from '../../../src/index.js';
import {
  connectedClient,
  eventsOf,
  proxyPerTest,
  rejectionOf,
  sharedConnection,
} from '../../support/clients.js';
import { loadScripts } from '../../support/lock-commands.js';
import { recordCommands } from '../../support/recorded-commands.js';
import { uniqueName } from '../../support/unique-name.js';

interface Releasable {
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
