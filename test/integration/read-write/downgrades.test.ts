// A downgrade from writing to reading on a real server: others may read afterwards, and the command may be lost, doubled or late.
import { beforeEach, afterEach, describe, expect, it } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import { newClient, proxyPerTest, sharedConnection } from '../../support/clients.js';
import { commandOf } from '../../support/lock-commands.js';
import { TestReadWriteLock } from '../../support/weighted-locks.js';
import { settledWithin } from '../../support/time.js';

const redis = sharedConnection();
const proxy = proxyPerTest();
let lock: TestReadWriteLock;
/** Goes through the proxy. */
let client: Holdfast;
let other: Holdfast;

beforeEach(async () => {
  lock = new TestReadWriteLock(redis);
  client = newClient({ lockWatchdogTimeout: 30_000, commandTimeout: 5_000, redis: proxy().url });
  other = newClient({ lockWatchdogTimeout: 30_000 });
  await Promise.all([client.ping(), other.ping()]);
});

afterEach(async () => {
  await lock.isGone();
  await Promise.all([client.close(), other.close()]);
});

const handOver = (): RegExp => commandOf('weightedHandOver', lock.name);

describe('a downgrade', () => {
  it.each(['loseReplyTo', 'cutAfterForwarding', 'holdBack'] as const)(
    'whose command is disturbed (%s) is repeated',
    async (fault) => {
      await client.run(async () => {
        await lock.writeLock(client).lock();
        await lock.readLock(client).lock();
        const disturbed = proxy()[fault](handOver());
        await lock.writeLock(client).unlock();
        await disturbed.happened;
        expect(await lock.held()).toBe('R');
        await (await lock.readLock(other).acquire()).release();
        await lock.readLock(client).unlock();
      });
    },
  );

  it('whose command arrives twice changes nothing the second time: neither while it reads, nor when others write', async () => {
    const copy = await client.run(async () => {
      await lock.writeLock(client).lock();
      await lock.readLock(client).lock();
      const downgrade = proxy().copyNext(handOver());
      await lock.writeLock(client).unlock();
      const read = await lock.readLock(other).acquire();
      const before = await lock.state();
      await downgrade.deliver();
      expect(await lock.state()).toEqual(before);
      await read.release();
      await lock.readLock(client).unlock();
      return downgrade;
    });
    await lock.isGone();
    await copy.deliver();
    await lock.isGone();
    const write = await lock.writeLock(other).acquire();
    const { hold } = await lock.join(client, 'read');
    const before = await lock.state();
    await copy.deliver();
    expect(await lock.state()).toEqual(before);
    await write.release();
    await (await hold).release();
  });

  it('that arrives after its owner has stopped writing has no effect', async () => {
    const late = proxy().holdBack(handOver());
    await client.run(async () => {
      await lock.writeLock(client).lock();
      const read = await lock.readLock(client).acquire(); // the held-back command was that of its re-entry
      await lock.writeLock(client).unlock();
      expect(await lock.held()).toBe('R');
      const others = await lock.readLock(other).acquire();
      await late.deliver();
      expect(await lock.held()).toBe('RR');
      await read.release();
      await others.release();
    });
    await late.deliver();
  });

  it('that the server has missed, perhaps after a failover, is repeated on the next connection', async () => {
    await client.run(async () => {
      await lock.writeLock(client).lock();
      await lock.readLock(client).lock();
      await lock.writeLock(client).unlock();
      await lock.undowngrade();
      const reads = await client.detach(() => lock.join(other, 'read'));
      proxy().cut();
      // Otherwise the other caller waits as long as this one reads.
      expect(await settledWithin(reads.hold, 5_000)).toMatchObject({ lockName: lock.name });
      expect(await lock.held()).toBe('RR');
      await (await reads.hold).release();
      await lock.readLock(client).unlock();
    });
  });

  it('of a hold that was lost is reported as a loss', async () => {
    const write = await lock.writeLock(client).acquire();
    const read = await write.run(() => lock.readLock(client).acquire());
    await redis.del(...lock.keys);
    await expect(write.release()).rejects.toMatchObject({
      code: 'LOCK_LOST',
      lossReason: 'deleted',
    });
    expect(read.signal.aborted).toBe(true);
    await expect(read.release()).rejects.toMatchObject({ code: 'LOCK_LOST' });
  });
});
