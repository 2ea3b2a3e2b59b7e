// Re-entering a Redlock: the same owner, counted on every master; masters that differ are repaired, never guessed.
import { describe, expect, it } from 'vitest';
import { LockLostError } from '../../../src/index.js';
import { rejectionOf } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { redNodes } from '../../support/red-nodes.js';
import { startMasters } from '../../support/redis-topologies.js';
import { startProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

const nodes = redNodes(() => startMasters(3));

describe('re-entering', () => {
  it('counts up and down on every master', async () => {
    await using client = await nodes.client();
    const lock = client.lock(uniqueName());
    const counts = (each: number): Promise<void> =>
      eventually(async () => {
        expect(await nodes.counts(lock)).toEqual([each, each, each]);
      });
    await client.holdfast.run(async () => {
      await lock.lock();
      await client.lock(lock.name).lock(); // another object for the same lock
      await counts(2);
      expect(await lock.getHoldCount()).toBe(2);
      await lock.unlock();
      await counts(1);
      await lock.unlock();
    });
    await nodes.nothingLeft(lock);
  });

  it('works with a silent master, and releases there later', async () => {
    const proxy = await startProxy(nodes.servers[0]!.port);
    {
      await using client = await nodes.client({ lockWatchdogTimeout: 60_000 }, [
        proxy.url,
        ...nodes.urls.slice(1),
      ]);
      const lock = client.lock(uniqueName());
      await lock.withLock(async () => {
        // Two votes acquire it: the third may still be on its way.
        await eventually(async () => {
          expect(await nodes.counts(lock)).toEqual([1, 1, 1]);
        });
        proxy.blackhole();
        await lock.withLock(async () => {
          expect(await nodes.counts(lock)).toEqual([1, 2, 2]);
        });
        proxy.heal();
      });
      await nodes.nothingLeft(lock);
    }
    await proxy[Symbol.asyncDispose]();
  });
});

describe('masters that differ', () => {
  it('are repaired to 2 when two count 2 and one came back empty', async () => {
    await using client = await nodes.client({ lockWatchdogTimeout: 1_500 });
    const lock = client.lock(uniqueName());
    await client.holdfast.run(async () => {
      await lock.lock();
      await lock.lock();
      await nodes.remove(lock, [2]);
      await eventually(async () => {
        expect(await nodes.counts(lock)).toEqual([2, 2, 2]);
      });
      await lock.unlock();
      await lock.unlock();
    });
    await nodes.nothingLeft(lock);
  });

  it('lose the lock when one counts 2 and two came back empty, and nested calls learn of it', async () => {
    await using client = await nodes.client();
    const lock = client.lock(uniqueName());
    const error = await rejectionOf(
      lock.withLock(async () => {
        await lock.withLock(async () => {
          await nodes.remove(lock, [0, 2]);
          await lock.withLock(() => {
            throw new Error('entered a lock that is lost');
          });
        });
      }),
    );
    expect(error).toBeInstanceOf(LockLostError);
    await nodes.remove(lock, [1]);
  });
});
