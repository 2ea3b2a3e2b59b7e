// Redis is unreachable at a release: withLock() keeps the result of the work and reports the failure; release() and unlock() throw it.
import { describe, expect, it } from 'vitest';
import { UnavailableError, type Hold, type Holdfast } from '../../../src/index.js';
import {
  connectedClient,
  eventsOf,
  proxyPerTest,
  rejectionOf,
  sharedConnection,
} from '../../support/clients.js';
import { eventually, settledWithin } from '../../support/time.js';
import { uniqueName } from '../../support/unique-name.js';

const redis = sharedConnection();
const proxy = proxyPerTest();

type Held = Pick<Hold, 'ownerId'>;
/** Does some work while it holds the lock of this name. */
type Scoped = (client: Holdfast, name: string, work: (hold: Held) => string) => Promise<string>;

/** Every way to hold a lock for the duration of some work. */
const SCOPED: [string, Scoped][] = [
  ['withLock()', (client, name, work) => client.getLock(name).withLock(work)],
  ['withLock() of a fair lock', (client, name, work) => client.getFairLock(name).withLock(work)],
  [
    'withLock() of a read lock',
    (client, name, work) => client.getReadWriteLock(name).readLock().withLock(work),
  ],
  [
    'withPermits()',
    (client, name, work) => client.getSemaphore(name, { permits: 2 }).withPermits(work),
  ],
  [
    'await using',
    async (client, name, work) => {
      await using hold = await client.getLock(name).acquire();
      return work(hold);
    },
  ],
];

/** The ways in which a server is unreachable. */
const OUTAGES: [string, { begin: () => void; end: () => void | Promise<void> }][] = [
  [
    'does not answer',
    {
      begin: () => {
        proxy().blackhole();
      },
      end: () => {
        proxy().heal('drop');
      },
    },
  ],
  [
    'is down',
    {
      begin: () => {
        proxy().refuse();
        proxy().cut();
      },
      end: () => proxy().accept(),
    },
  ],
];

describe.each(OUTAGES)('when Redis %s at the release', (_, outage) => {
  it.each(SCOPED)(
    '%s returns the result of the work, and reports the failure',
    async (__, scoped) => {
      await using client = await proxiedClient();
      const name = uniqueName();
      const errors = eventsOf(client, 'error');
      let ownerId: string | undefined;
      const done = scoped(client, name, (hold) => {
        ({ ownerId } = hold);
        outage.begin();
        return 'the result';
      });
      expect(await settledWithin(done, 5_000)).toBe('the result');
      expect(errors.filter(({ lockName }) => lockName === name)).toEqual([
        { error: expect.any(UnavailableError) as unknown, lockName: name, ownerId },
      ]);
      expect(errors.find(({ lockName }) => lockName === name)?.error.message).toContain(
        'not known to be released',
      );
      await outage.end();
      await isGone(name);
    },
  );

  it('release() and unlock() throw', async () => {
    await using client = await proxiedClient();
    const name = uniqueName();
    const other = client.getLock(uniqueName());
    const hold = await client.getLock(name).acquire();
    await other.lock();
    client.on('error', () => undefined);
    outage.begin();
    const refused = [hold.release(), other.unlock()].map(rejectionOf);
    expect(await settledWithin(Promise.all(refused), 5_000)).toEqual([
      expect.any(UnavailableError),
      expect.any(UnavailableError),
    ]);
    await outage.end();
    await isGone(name);
    await isGone(other.name);
  });
});

function proxiedClient(): Promise<Holdfast> {
  const options = { lockWatchdogTimeout: 30_000, commandTimeout: 400 };
  return connectedClient({ redis: proxy().url, ...options });
}

async function isGone(name: string): Promise<void> {
  await eventually(async () => {
    expect(await redis.keys(`*${name}*`)).toEqual([]);
  });
}
