// A server whose answers take longer than the lease: every kind of lock ends the call with an error that says so.
import { describe, expect, it } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import {
  connectedClient,
  proxyPerTest,
  rejectionOf,
  sharedConnection,
} from '../../support/clients.js';
import { eventually, settledWithin } from '../../support/time.js';
import { uniqueName } from '../../support/unique-name.js';
import { expectShortTimes } from '../../support/expected-warnings.js';

expectShortTimes();

const redis = sharedConnection();
const proxy = proxyPerTest();

interface Acquirable {
  acquire(options: { lease: number; wait?: number }): Promise<unknown>;
}

type Locks = (client: Holdfast, name: string) => Acquirable;

const kinds: [string, Locks][] = [
  ['lock', (client, name) => client.getLock(name)],
  ['fenced lock', (client, name) => client.getFencedLock(name)],
  ['fair lock', (client, name) => client.getFairLock(name)],
  ['semaphore', (client, name) => client.getSemaphore(name, { permits: 2 })],
  ['read lock', (client, name) => client.getReadWriteLock(name).readLock()],
  ['write lock', (client, name) => client.getReadWriteLock(name).writeLock()],
  [
    'MultiLock',
    (client, name) => client.getMultiLock(client.getLock(name), client.getLock(`${name}:b`)),
  ],
];

describe.each(kinds)('a %s with a lease that is shorter than the round trip', (_, getLock) => {
  it.each([{ wait: 2_000 }, {}])('fails with an error that names the lease: %o', async (bounds) => {
    const name = uniqueName();
    await using client = await connectedClient({ redis: proxy().url, lockWatchdogTimeout: 30_000 });
    const lock = getLock(client, name);
    let commands = 0;
    proxy().treatCommands((args) => {
      if (String(args).includes(name)) commands++;
      return undefined;
    });
    proxy().delay({ downstreamMs: 60 });
    const error = await settledWithin(rejectionOf(lock.acquire({ lease: 20, ...bounds })), 10_000);
    expect(error).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
    expect(String(error)).toContain('Redis took longer to answer than the lease of 20 ms');
    proxy().delay();
    await eventually(async () => {
      expect(await redis.hlen(name)).toBe(0);
    });
    // An acquisition and a release for each try.
    expect(commands).toBeLessThan(20);
  });
});
