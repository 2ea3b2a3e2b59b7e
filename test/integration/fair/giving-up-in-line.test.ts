// A waiter for a fair lock that gives up long before its turn leaves the line, and the others keep their order.
import { describe, expect, it } from 'vitest';
import type { Hold } from '../../../src/index.js';
import {
  connectedClient,
  rejectionOf,
  sharedConnection,
  startSharedProxy,
} from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { fairClientsPerTest } from '../../support/fair-line.js';

const OPTIONS = { lockWatchdogTimeout: 30_000 };

const redis = sharedConnection();
const given = fairClientsPerTest(redis, async () => ({
  holder: await connectedClient(OPTIONS),
  leaver: await connectedClient(OPTIONS),
  other: await connectedClient(OPTIONS),
}));

describe('long before its turn', () => {
  it('1,000 waiters that time out leave nothing in the line', async () => {
    const { line, holder, leaver } = given();
    await using hold = await line.lockOf(holder).acquire();
    const lock = line.lockOf(leaver);
    const calls = Array.from({ length: 1_000 }, () => lock.tryLock(3_000));
    await line.hasLength(1_000);
    expect(new Set(await Promise.all(calls))).toEqual(new Set([false]));
    await eventually(async () => {
      expect(await redis.exists(line.keys[1], line.keys[2])).toBe(0);
    });
    expect(await line.holder()).toBe(hold.ownerId);
  });

  it('a waiter behind a black hole leaves the line as soon as Redis is reachable', async () => {
    const { line, holder, other } = given();
    await using proxy = await startSharedProxy();
    await using unreachable = await connectedClient({ ...OPTIONS, redis: proxy.url });
    const hold = await line.lockOf(holder).acquire();
    const leaving = await line.join(unreachable, 'leaver', { wait: 2_000 });
    const next = await line.join(other, 'next');
    proxy.blackhole();
    expect(await rejectionOf(leaving.done)).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
    expect(await line.owners()).toEqual([leaving.ownerId, next.ownerId]);
    proxy.heal();
    await eventually(async () => {
      expect(await line.owners()).toEqual([next.ownerId]);
    });
    await hold.release();
    await next.done;
  });

  it('close() of a client ends its 50 waits with ClosedError, and the others keep their turns', async () => {
    const { line, holder, leaver, other } = given();
    const hold: Hold = await line.lockOf(holder).acquire();
    const calls = Array.from({ length: 50 }, () => line.call(leaver, 'closed'));
    await line.hasLength(50);
    const first = await line.join(other, 'first');
    const second = await line.join(holder, 'second');
    await leaver.close();
    for (const call of calls) {
      expect(await rejectionOf(call)).toMatchObject({ code: 'CLIENT_CLOSED', lockName: line.name });
    }
    expect(await line.owners()).toEqual([first.ownerId, second.ownerId]);
    await hold.release();
    await Promise.all([first.done, second.done]);
    expect(line.turns).toEqual(['first', 'second']);
  });
});
