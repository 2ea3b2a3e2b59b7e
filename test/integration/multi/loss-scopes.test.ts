// What lock(), unlock() and nested calls do after a MultiLock was lost by one of its members.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Holdfast, Lock } from '../../../src/index.js';
import {
  elsewhere,
  newClient,
  nextEvent,
  rejectionOf,
  sharedConnection,
} from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { uniqueName } from '../../support/unique-name.js';

const redis = sharedConnection();
const isLost = { code: 'LOCK_LOST' };
let client: Holdfast;
let a: Lock;
let b: Lock;
let multi: Lock;

beforeEach(() => {
  client = newClient({ lockWatchdogTimeout: 4_500, commandTimeout: 5_000 });
  a = client.getLock(uniqueName('a'));
  b = client.getFairLock(uniqueName('b'));
  multi = client.getMultiLock(a, b);
});

afterEach(async () => {
  await client.close();
});

/** Deletes the key of `a`; resolves when the loss is found and `b` is free again. */
async function loseA(): Promise<void> {
  const lost = nextEvent(client, 'lost');
  await redis.del(a.name);
  await lost;
  await eventually(async () => {
    expect(await redis.exists(b.name)).toBe(0);
  }, 2_000);
}

it('unlock() outside of runs reports the loss, once', async () => {
  await multi.lock();
  await loseA();
  await expect(multi.unlock()).rejects.toMatchObject(isLost);
  await expect(multi.unlock()).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
});

it('unlock() outside of runs reports the loss and leaves later holders of its members alone', async () => {
  await multi.lock();
  await loseA();
  await elsewhere(() => a.lock());
  await elsewhere(() => b.lock());
  await expect(multi.unlock()).rejects.toMatchObject(isLost);
  expect(await redis.exists(a.name, b.name)).toBe(2);
  await elsewhere(() => a.unlock());
  await elsewhere(() => b.unlock());
  expect(await redis.exists(a.name, b.name)).toBe(0);
});

it('unlock() in a run reports the loss', async () => {
  await client.run(async () => {
    await multi.lock();
    await loseA();
    await expect(multi.unlock()).rejects.toMatchObject(isLost);
  });
});

it('unlock() in a run leaves later holders outside the run alone', async () => {
  await client.run(async () => {
    await multi.lock();
    await loseA();
    await client.detach(() => multi.lock());
    await rejectionOf(multi.unlock());
    expect(await redis.exists(a.name, b.name)).toBe(2);
  });
  await multi.unlock();
  expect(await redis.exists(a.name, b.name)).toBe(0);
});

it.each(['the MultiLock', 'the lost member', 'another member'])(
  'a nested acquisition of %s inside a lost withLock() reports the loss',
  async (which) => {
    const nested = { 'the MultiLock': multi, 'the lost member': a, 'another member': b }[which]!;
    await rejectionOf(
      multi.withLock(async () => {
        await loseA();
        const inner = nested.withLock({ wait: 0 }, () => 'acquired anew');
        await expect(inner).rejects.toMatchObject(isLost);
      }),
    ).then((error) => {
      expect(error).toMatchObject(isLost);
    });
  },
);

it('a member that the scope held before survives the loss of another one', async () => {
  await b.withLock(async (outer) => {
    const error = await rejectionOf(
      multi.withLock(async (hold) => {
        const aborted = new Promise((resolve) => {
          hold.signal.addEventListener('abort', resolve);
        });
        await redis.del(a.name);
        await aborted;
      }),
    );
    expect(error).toMatchObject(isLost);
    expect(outer.remaining()).toBeGreaterThan(0);
    await eventually(async () => {
      expect(await redis.hgetall(b.name)).toEqual({ [outer.ownerId]: '1' });
    });
  });
  expect(await redis.exists(b.name)).toBe(0);
});

it('each unlock() of one run that locked it twice reports the loss', async () => {
  await client.run(async () => {
    expect(await multi.tryLock()).toBe(true);
    await multi.lock();
    await a.forceUnlock();
    await expect(multi.unlock()).rejects.toMatchObject(isLost);
    await expect(multi.unlock()).rejects.toMatchObject(isLost);
    await expect(multi.unlock()).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
  });
  await eventually(async () => {
    expect(await redis.exists(a.name, b.name)).toBe(0);
  });
});

it('unlock() in a run that held a member before reports the loss, and that member stays held', async () => {
  await client.run(async () => {
    await b.lock();
    await multi.lock();
    await a.forceUnlock();
    await expect(multi.unlock()).rejects.toMatchObject(isLost);
    await eventually(async () => {
      expect(Object.values(await redis.hgetall(b.name))).toEqual(['1']);
    });
    expect(await b.getHoldCount()).toBe(1);
    await b.unlock();
  });
  expect(await redis.exists(a.name, b.name)).toBe(0);
});

it('unlock() in a run inside the hold of a member reports the loss, and a sibling gets that member', async () => {
  await b.withLock(async (outer) => {
    await client.run(async () => {
      await multi.lock();
      await a.forceUnlock();
      // The run no longer holds the member, so it is free for the next branch inside the outer hold.
      expect(await client.run(() => b.withLock({ wait: 1_000 }, () => 'in'))).toBe('in');
      await expect(multi.unlock()).rejects.toMatchObject(isLost);
      await expect(b.unlock()).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
    });
    expect(outer.remaining()).toBeGreaterThan(0);
  });
  expect(await redis.exists(a.name, b.name)).toBe(0);
});

it('a member that was unlocked on its own survives the loss of another one, where it has another hold', async () => {
  await client.run(async () => {
    await a.lock();
    await multi.lock();
    await a.unlock(); // undoes the one of the MultiLock
    const lost = nextEvent(client, 'lost');
    await redis.del(b.name);
    await lost;
    await sleep(100);
    expect(await a.isHeldByCurrentOwner()).toBe(true);
    await b.unlock().catch(() => undefined);
    await a.unlock();
  });
});
