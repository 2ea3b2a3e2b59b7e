// The loss of a lock that is held: the holder gets a signal, an event and an error, with the reason.
import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LockLostError, type Hold, type Holdfast, type LossReason } from '../../../src/index.js';
import {
  eventsOf,
  newClient,
  rejectionOf,
  sharedConnection,
  startSharedProxy,
} from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { startRedis } from '../../support/redis-server.js';
import { uniqueName } from '../../support/unique-name.js';

// Long enough for the next renewal to find out before the lease ends, even on a busy machine.
const inTime = { lockWatchdogTimeout: 4_500 };

const redis = sharedConnection();
let name: string;
let unhandled: unknown[];
const noteUnhandled = (reason: unknown): void => void unhandled.push(reason);

beforeEach(() => {
  unhandled = [];
  process.on('unhandledRejection', noteUnhandled);
  name = uniqueName();
});

afterEach(() => {
  process.off('unhandledRejection', noteUnhandled);
  expect(unhandled).toEqual([]);
});

describe('a holder learns that its lock is lost', () => {
  it('when its key was deleted', async () => {
    await using client = newClient(inTime);
    await learns(client, 'deleted', async () => {
      await redis.del(name);
    });
  });

  it('when the server was flushed', async () => {
    await using server = await startRedis();
    await using client = newClient({ redis: server.url, ...inTime });
    await learns(client, 'deleted', async () => {
      const admin = new Redis(server.url);
      await admin.flushall();
      admin.disconnect();
    });
  });

  it('when another client forced it', async () => {
    await using client = newClient(inTime);
    await using other = newClient({ lockWatchdogTimeout: 30_000 });
    await learns(client, 'forced', async () => {
      expect(await other.getLock(name).forceUnlock()).toBe(true);
    });
    expect(await redis.exists(`holdfast_forced:{${name}}`)).toBe(0);
  });

  it('at once, when its own client forced it', async () => {
    await using client = newClient({ lockWatchdogTimeout: 60_000, commandTimeout: 5_000 });
    const hold = await client.getLock(name).acquire();
    const { signal } = hold;
    expect(await client.getLock(name).forceUnlock()).toBe(true);
    expect(signal.aborted).toBe(true);
    expect(await rejectionOf(hold.release())).toMatchObject({ lossReason: 'forced' });
    await redis.del(`holdfast_forced:{${name}}`);
  });

  it('when somebody else took it after a deletion', async () => {
    await using client = newClient(inTime);
    await using other = newClient({ lockWatchdogTimeout: 30_000 });
    let taken: Hold | undefined;
    await learns(client, 'taken', async () => {
      await redis.del(name);
      taken = await other.getLock(name).acquire();
    });
    expect(await redis.hkeys(name)).toEqual([taken?.ownerId]);
    await taken?.release();
  });

  it('when its key became something else', async () => {
    await using client = newClient(inTime);
    await learns(client, 'taken', async () => {
      await redis.multi().del(name).set(name, 'a string', 'PX', 5_000).exec();
    });
    expect(await redis.get(name)).toBe('a string');
    await redis.del(name);
  });

  it('when the server was killed and came back empty', async () => {
    await using server = await startRedis();
    await using client = newClient({ redis: server.url, lockWatchdogTimeout: 9_000 });
    await learns(client, 'deleted', async () => {
      await server.kill();
      await server.start();
    });
  });

  it('when the server is away for longer than the lease', async () => {
    await using server = await startRedis();
    await using client = newClient({ redis: server.url });
    await learns(client, 'unreachable', () => server.kill());
  });

  it('before another client can acquire it, when the server is behind a black hole', async () => {
    await using proxy = await startSharedProxy();
    await using client = newClient({ redis: proxy.url });
    await using other = newClient({ lockWatchdogTimeout: 30_000 });
    let next: Promise<Hold> | undefined;
    let hadLearnt: boolean | undefined;
    const lost = eventsOf(client, 'lost');
    await learns(client, 'unreachable', () => {
      proxy.blackhole();
      next = other.getLock(name).acquire();
      void next.then(() => (hadLearnt = lost.length > 0));
      return Promise.resolve();
    });
    const taken = await next;
    expect(hadLearnt).toBe(true);
    await taken?.release();
    proxy.heal('drop');
  });

  it('when its fixed lease ended', async () => {
    await using client = newClient();
    await learns(client, 'expired', () => Promise.resolve(), 300);
  });

  it('when the key of a fixed lease was deleted, long before that lease ends', async () => {
    await using client = newClient(inTime);
    await learns(
      client,
      'deleted',
      async () => {
        await redis.del(name);
      },
      60_000,
    );
  });

  /** Checks every way in which the holder of a lock, nested once, learns of its loss. */
  async function learns(
    client: Holdfast,
    lossReason: LossReason,
    loseIt: () => Promise<void>,
    lease?: number,
  ): Promise<void> {
    const lock = client.getLock(name);
    const lost = eventsOf(client, 'lost');
    await client.run(async () => {
      const hold = await lock.acquire({ lease });
      const nested = await lock.acquire({ lease });
      await lock.lock({ lease });
      const { signal } = hold;

      await client.detach(loseIt); // by a caller outside this run
      await eventually(() => {
        expect(signal.aborted).toBe(true);
      });

      const error: unknown = signal.reason;
      expect(error).toBeInstanceOf(LockLostError);
      expect(error).toMatchObject({ code: 'LOCK_LOST', lockName: name, lossReason });
      expect(nested.signal.reason).toBe(error);
      expect(lost).toEqual([
        expect.objectContaining({ lockName: name, ownerId: hold.ownerId, lossReason, error }),
      ]);
      expect([hold.remaining(), nested.remaining()]).toEqual([0, 0]);
      for (const later of [
        () => hold.extend(1_000),
        () => hold.run(() => undefined),
        () => lock.tryLock(),
        () => lock.withLock(() => undefined),
        () => lock.unlock(),
        () => nested.release(),
        () => hold.release(),
      ]) {
        expect(await rejectionOf(later())).toBe(error);
      }
    });
    expect(await rejectionOf(lock.unlock())).toMatchObject({ code: 'LOCK_NOT_HELD' });
    expect(lost).toHaveLength(1);
  }
});

describe('withLock() over a lock that is lost meanwhile', () => {
  it('fails with LockLostError when its callback succeeded', async () => {
    await using client = newClient();
    const body = client.getLock(name).withLock(async ({ signal }) => {
      await redis.del(name);
      await eventually(() => {
        expect(signal.aborted).toBe(true);
      });
    });
    expect(await rejectionOf(body)).toMatchObject({ code: 'LOCK_LOST', lossReason: 'deleted' });
  });

  it('fails with LockLostError when only the release finds out', async () => {
    await using client = newClient({ lockWatchdogTimeout: 60_000 });
    const lost = eventsOf(client, 'lost');
    const body = client.getLock(name).withLock(async () => {
      await redis.del(name);
    });
    expect(await rejectionOf(body)).toMatchObject({ code: 'LOCK_LOST', lossReason: 'deleted' });
    expect(lost).toHaveLength(1);
  });

  it('fails with the error of its callback when that failed', async () => {
    await using client = newClient();
    const failure = new Error('of the body');
    const body = client.getLock(name).withLock(async ({ signal }) => {
      await redis.del(name);
      await eventually(() => {
        expect(signal.aborted).toBe(true);
      });
      throw failure;
    });
    expect(await rejectionOf(body)).toBe(failure);
  });

  it('fails on disposal, as `await using` does', async () => {
    await using client = newClient();
    const block = async (): Promise<void> => {
      await using hold = await client.getLock(name).acquire();
      await redis.del(name);
      await eventually(() => {
        expect(hold.signal.aborted).toBe(true);
      });
    };
    expect(await rejectionOf(block())).toBeInstanceOf(LockLostError);
  });
});
