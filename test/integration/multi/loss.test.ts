// The loss of one member of a MultiLock is the loss of the whole: the holder learns of it, and the other members are released.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LockLostError, type Hold, type Holdfast, type Lock } from '../../../src/index.js';
import {
  eventsOf,
  newClient,
  nextEvent,
  rejectionOf,
  sharedConnection,
  type EventOf,
} from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { startRedis } from '../../support/redis-server.js';
import { uniqueName } from '../../support/unique-name.js';

const redis = sharedConnection();
let client: Holdfast;
let other: Holdfast;
let names: readonly [string, string, string];
let multi: Lock;

beforeEach(() => {
  client = newClient({ lockWatchdogTimeout: 4_500, commandTimeout: 5_000 });
  other = newClient({ lockWatchdogTimeout: 30_000 });
  names = [uniqueName('first'), uniqueName('second'), uniqueName('fair')];
  const [first, second, fair] = names;
  multi = client.getMultiLock(
    client.getLock(first),
    client.getLock(second),
    client.getFairLock(fair),
  );
});

afterEach(async () => {
  await Promise.all([client.close(), other.close()]);
  await redis.del(...names.map((name) => `holdfast_forced:{${name}}`));
});

/** Waits until the server has no member any more: they are released, since their leases have not ended. */
async function expectAllFree(): Promise<void> {
  await eventually(async () => {
    expect(await redis.exists(...names)).toBe(0);
  }, 2_000);
}

/** Fails unless the hold is lost as a whole, with an error that names this member. */
async function expectLost(hold: Hold, memberName: string, lossReason: string): Promise<void> {
  expect(hold.signal.aborted).toBe(true);
  const reason: unknown = hold.signal.reason;
  expect(reason).toBeInstanceOf(LockLostError);
  expect(reason).toMatchObject({ code: 'LOCK_LOST', lockName: multi.name, lossReason });
  expect((reason as Error).message).toContain(`"${memberName}"`);
  expect((reason as Error).cause).toMatchObject({ lockName: memberName });
  expect(hold.remaining()).toBe(0);
  const never = (): void => expect.fail('fn was called');
  const calls = [hold.release(), hold.release(), hold.extend(5_000), hold.run(never)];
  for (const error of await Promise.all(calls.map(rejectionOf))) {
    expect(error).toBe(reason);
  }
}

describe.each([0, 1, 2])('losing member %i', (index) => {
  it.each([
    ['deleted', (name: string): Promise<unknown> => redis.del(name)],
    ['forced', (name: string): Promise<unknown> => other.getLock(name).forceUnlock()],
  ])('that is %s loses the whole hold', async (reason, lose) => {
    const hold = await multi.acquire();
    const lost = eventsOf(client, 'lost');
    const aborted = nextAbort(hold);
    await lose(names[index]!);
    await aborted;
    await expectLost(hold, names[index]!, reason);
    expect(lost).toMatchObject([{ lockName: names[index], ownerId: hold.ownerId }]);
    await expectAllFree();
  });

  it('to another client leaves it to that client', async () => {
    const hold = await multi.acquire();
    const aborted = nextAbort(hold);
    await redis.del(names[index]!);
    await using theirs = await other.getLock(names[index]!).acquire();
    await aborted;
    await expectLost(hold, names[index]!, 'taken');
    await eventually(async () => {
      expect(await redis.exists(...names)).toBe(1);
    });
    expect(await redis.hkeys(names[index]!)).toEqual([theirs.ownerId]);
  });

  it('is found by the release, and the other members are free afterwards', async () => {
    const hold = await multi.acquire({ lease: 20_000 });
    await redis.del(names[index]!);
    expect(await rejectionOf(hold.release())).toMatchObject({
      code: 'LOCK_LOST',
      lockName: multi.name,
    });
    expect(await redis.exists(...names)).toBe(0);
  });
});

it.each([0, 1, 2])(
  'losing member %i emits lost or released for each member that was acquired',
  async (index) => {
    const [acquired, released, lost] = [
      eventsOf(client, 'acquired'),
      eventsOf(client, 'released'),
      eventsOf(client, 'lost'),
    ];
    const hold = await multi.acquire();
    await using besides = await client.getLock(uniqueName('besides')).acquire();
    const aborted = nextAbort(hold);
    await redis.del(names[index]!);
    await aborted;
    await expectAllFree();
    await eventually(() => {
      const ended = [...released, ...lost].map(({ lockName }) => lockName);
      expect(ended.sort()).toEqual([...names].sort());
    });
    expect(acquired.map(({ lockName }) => lockName)).toContain(besides.lockName);
    expect(lost.map(({ lockName }) => lockName)).toEqual([names[index]]);
    for (const event of released)
      expect(event).toMatchObject({ ownerId: hold.ownerId, holdCount: 0 });
  },
);

it('members whose leases end together during a suspension of the process are all reported as lost, none as released', async () => {
  const [released, lost] = [eventsOf(client, 'released'), eventsOf(client, 'lost')];
  const hold = await multi.acquire({ lease: 300 });
  const aborted = nextAbort(hold);
  const resumesAtMs = performance.now() + 600;
  while (performance.now() < resumesAtMs);
  await aborted;
  expect(lost.map(({ lockName }) => lockName).sort()).toEqual([...names].sort());
  expect(released).toEqual([]);
});

it('a member that has another hold is released once when the MultiLock is lost, and once later', async () => {
  const released = eventsOf(client, 'released');
  await client.getLock(names[0]).withLock(async () => {
    const hold = await multi.acquire();
    const aborted = nextAbort(hold);
    await redis.del(names[1]);
    await aborted;
    await eventually(() => {
      expect(countsOf(released)).toEqual({ [names[0]]: [1], [names[2]]: [0] });
    });
  });
  await expectAllFree();
  expect(countsOf(released)).toEqual({ [names[0]]: [1, 0], [names[2]]: [0] });
});

it("the death of one member's server loses the hold", async () => {
  await using server = await startRedis();
  await using far = newClient({ redis: server.url, lockWatchdogTimeout: 1_500 });
  const farLock = far.getLock(uniqueName('far'));
  const spread = client.getMultiLock(client.getLock(names[0]), farLock, client.getLock(names[1]));
  const hold = await spread.acquire();
  const lost = nextEvent(far, 'lost');
  const aborted = nextAbort(hold);
  await server.kill();
  await aborted;
  expect(await lost).toMatchObject({ lockName: farLock.name, lossReason: 'unreachable' });
  expect(hold.signal.reason).toMatchObject({ lockName: spread.name, lossReason: 'unreachable' });
  await expectAllFree();
});

it("close() of one member's client loses the hold", async () => {
  const far = newClient({ lockWatchdogTimeout: 30_000 });
  const spread = client.getMultiLock(client.getLock(names[0]), far.getLock(names[1]));
  const hold = await spread.acquire();
  const { signal } = hold;
  await far.close();
  expect(signal.reason).toMatchObject({ code: 'LOCK_LOST', lossReason: 'closed' });
  await expectAllFree();
});

it('close() of the client that made the MultiLock also releases members of other clients', async () => {
  const made = newClient({ lockWatchdogTimeout: 30_000 });
  const [first, second] = [client.getLock(names[0]), other.getLock(names[1])];
  const hold = await made.getMultiLock(first, second).acquire();
  await made.getMultiLock(client.getFairLock(names[2])).lock();
  const { signal } = hold;
  await made.close();
  expect(await redis.exists(...names)).toBe(0);
  expect(signal.reason).toMatchObject({ code: 'LOCK_LOST', lossReason: 'closed' });
  expect(hold.remaining()).toBe(0);
  expect(await rejectionOf(hold.release())).toBe(signal.reason);
});

it('close() does not undo an earlier release', async () => {
  const made = newClient({ lockWatchdogTimeout: 30_000 });
  const [first, second] = [client.getLock(names[0]), other.getLock(names[1])];
  const multiOfOthers = made.getMultiLock(first, second);
  await (await multiOfOthers.acquire()).release();
  await multiOfOthers.lock();
  await multiOfOthers.unlock();
  const theirs = await first.acquire();
  await made.close();
  expect(theirs.signal.aborted).toBe(false);
  expect(theirs.remaining()).toBeGreaterThan(0);
  await theirs.release();
});

it('a loss without a listener causes no unhandled rejection', async () => {
  const unhandled: unknown[] = [];
  const note = (reason: unknown): void => void unhandled.push(reason);
  process.on('unhandledRejection', note);
  const lost = nextEvent(client, 'lost');
  await multi.acquire();
  await redis.del(...names);
  await lost;
  await expectAllFree();
  await new Promise(setImmediate);
  process.off('unhandledRejection', note);
  expect(unhandled).toEqual([]);
});

/** The hold counts that events reported, by lock. */
function countsOf(events: readonly EventOf<'released'>[]): Record<string, number[]> {
  const counts: Record<string, number[]> = {};
  for (const { lockName, holdCount } of events) (counts[lockName] ??= []).push(holdCount);
  return counts;
}

function nextAbort(hold: Hold): Promise<unknown> {
  return new Promise((resolve) => {
    hold.signal.addEventListener('abort', resolve);
  });
}
