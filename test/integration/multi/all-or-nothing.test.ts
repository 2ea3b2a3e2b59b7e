// An acquisition of a MultiLock that fails releases exactly the members that it acquired, at once.
import { describe, expect, it } from 'vitest';
import type { Holdfast, Lock } from '../../../src/index.js';
import {
  connectedClient,
  newClient,
  nextEvent,
  proxyPerTest,
  rejectionOf,
  sharedConnection,
} from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { commandOf } from '../../support/lock-commands.js';
import { heldOnServer, membersPerTest } from '../../support/multi-locks.js';
import { uniqueName } from '../../support/unique-name.js';

const redis = sharedConnection();
const members = membersPerTest();

const timeout = { code: 'LOCK_TIMEOUT' };

describe.each(['a', 'b', 'c'] as const)('while another client holds member %s', (taken) => {
  it('tryLock() returns false, and no other member is held when it returns', async () => {
    const { multi, others } = members();
    await using theirs = await others[taken].acquire();
    expect(await multi.tryLock()).toBe(false);
    await expectOnly(taken, theirs.ownerId);
  });

  it('a wait that ends leaves nothing, and names the member and its holder', async () => {
    const { multi, others } = members();
    await using theirs = await others[taken].acquire();
    const error = await rejectionOf(multi.acquire({ wait: 150 }));
    await expectOnly(taken, theirs.ownerId);
    expect(error).toMatchObject({ ...timeout, lockName: multi.name, holder: theirs.ownerId });
    expect((error as Error).message).toContain(others[taken].name);
    expect((error as Error).message).toContain('within 150 ms');
  });

  it('close() of the client ends the wait and leaves nothing', async () => {
    const { client, multi, others } = members();
    await using theirs = await others[taken].acquire();
    const waiting = nextEvent(client, 'waiting');
    const call = rejectionOf(multi.lock());
    await waiting;
    await client.close();
    expect(await call).toMatchObject({ code: 'CLIENT_CLOSED', lockName: multi.name });
    await expectOnly(taken, theirs.ownerId);
  });

  it('no other member is held during the wait', async () => {
    const { client, multi, others } = members();
    const theirs = await others[taken].acquire();
    const waiting = nextEvent(client, 'waiting');
    const call = multi.acquire();
    await waiting;
    await expectOnly(taken, theirs.ownerId);
    await theirs.release();
    await (await call).release();
  });

  it('members that the scope held before stay held, with their old counts', async () => {
    const { client, multi, others } = members();
    const own = taken === 'a' ? 'b' : 'a';
    await using theirs = await others[taken].acquire();
    await members()[own].withLock(async (outer) => {
      expect(await multi.tryLock()).toBe(false);
      expect(await multi.tryLock(60)).toBe(false);
      const { signal } = outer;
      expect(signal.aborted).toBe(false);
      const held = { [outer.ownerId]: '1' };
      expect(await redis.hgetall(members()[own].name)).toEqual(held);
    });
    await client.run(async () => {
      await members()[own].lock();
      expect(await multi.tryLock(60)).toBe(false);
      expect(await members()[own].getHoldCount()).toBe(1);
      await members()[own].unlock();
    });
    await expectOnly(taken, theirs.ownerId);
  });
});

/** Of all members, only this one is held: once, by this owner. */
async function expectOnly(taken: 'a' | 'b' | 'c', ownerId: string): Promise<void> {
  const expected = ['a', 'b', 'c'].map((label) => (label === taken ? { [ownerId]: '1' } : {}));
  expect(await heldOnServer(redis, members().names)).toEqual(expected);
}

describe('with a member of another client', () => {
  const proxy = proxyPerTest();

  async function withFarMember(
    test: (far: Holdfast, multi: Lock, farName: string) => Promise<void>,
  ): Promise<void> {
    const { client, a, b, c } = members();
    const farName = uniqueName('far');
    await using far = await connectedClient({ redis: proxy().url, commandTimeout: 500 });
    await a.isLocked(); // connected
    await test(far, client.getMultiLock(a, b, far.getLock(farName), c), farName);
  }

  it('close() of that client ends the call and leaves nothing', async () => {
    await withFarMember(async (far, multi, farName) => {
      await using theirs = await members().other.getLock(farName).acquire();
      const waiting = nextEvent(far, 'waiting');
      const call = rejectionOf(multi.lock());
      await waiting;
      await far.close();
      expect(await call).toMatchObject({ code: 'CLIENT_CLOSED' });
      expect(await heldOnServer(redis, members().names)).toEqual([{}, {}, {}]);
      expect(theirs.remaining()).toBeGreaterThan(0);
    });
  });

  it('a silent server of that member is named in the error, and the other members are released', async () => {
    await withFarMember(async (_far, multi, farName) => {
      proxy().blackhole();
      expect(await rejectionOf(multi.tryLock())).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
      expect(await heldOnServer(redis, members().names)).toEqual([{}, {}, {}]);
      proxy().heal('drop');
      expect(await redis.exists(farName)).toBe(0);
    });
  });

  it('a server of that member that refuses connections is named in the error, and the other members are released', async () => {
    await withFarMember(async (_far, multi) => {
      proxy().refuse();
      proxy().cut();
      const error = await rejectionOf(multi.acquire({ wait: 200 }));
      expect(error).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
      expect(await heldOnServer(redis, members().names)).toEqual([{}, {}, {}]);
    });
  });

  it('a member that is lost while another one is still being acquired does not count as held', async () => {
    const { other, names } = members();
    await using near = newClient({ lockWatchdogTimeout: 1_500 });
    await using far = await connectedClient({ redis: proxy().url, lockWatchdogTimeout: 30_000 });
    const farName = uniqueName('far');
    const multi = near.getMultiLock(near.getLock(names[0]!), far.getLock(farName));
    const asked = proxy().copyNext(commandOf('acquire', farName));
    proxy().delay({ downstreamMs: 2_000 });
    const lost = nextEvent(near, 'lost');
    const acquiring = multi.acquire();
    await asked.happened;
    await eventually(async () => {
      expect(await other.getLock(names[0]!).forceUnlock()).toBe(true);
    });
    expect(await lost).toMatchObject({ lockName: names[0], lossReason: 'forced' });
    proxy().delay();
    const hold = await acquiring;
    expect(await redis.hgetall(names[0]!)).toEqual({ [hold.ownerId]: '1' });
    expect(await redis.hgetall(farName)).toEqual({ [hold.ownerId]: '1' });
    await hold.release();
  });
});
