// A Redlock that is lost on most masters: it is reported once, and released on those that still have it.
import { expect, it } from 'vitest';
import { LockLostError } from '../../../src/index.js';
import { eventsOf, rejectionOf } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { redNodes } from '../../support/red-nodes.js';
import { startMasters } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

const nodes = redNodes(() => startMasters(3));

it.each([
  ['deleted', (): undefined => undefined],
  ['taken', (): string => 'somebody:1'],
])('a Redlock that is %s on most masters is lost, and released on the rest', async (reason, by) => {
  await using client = await nodes.client({ lockWatchdogTimeout: 1_500 });
  const lost = eventsOf(client.holdfast, 'lost');
  const lock = client.lock(uniqueName());
  const hold = await lock.acquire({ lease: 60_000 });
  await eventually(async () => {
    expect(await nodes.owners(lock)).toEqual(Array(3).fill(hold.ownerId));
  });
  const thief = by();
  await eventually(async () => {
    // Once more, if a repair of one came before the other.
    if (thief === undefined) await nodes.remove(lock, [0, 1]);
    else await nodes.holdBy(thief, lock, [0, 1]);
    expect(hold.signal.reason).toBeInstanceOf(LockLostError);
  });
  expect(lost).toMatchObject([{ lossReason: reason }]);
  expect(hold.remaining()).toBe(0);
  expect(await rejectionOf(hold.release())).toMatchObject({ lossReason: reason });
  if (thief !== undefined) await nodes.remove(lock, [0, 1]);
  await nodes.nothingLeft(lock, 5_000);
});

it('forceUnlock() releases a Redlock on every master, and its holder learns of it', async () => {
  await using client = await nodes.client({ lockWatchdogTimeout: 1_500 });
  const lock = client.lock(uniqueName());
  const hold = await lock.acquire();
  await using other = await nodes.client();
  expect(await other.lock(lock.name).forceUnlock()).toBe(true);
  await eventually(() => {
    expect(hold.signal.reason).toMatchObject({ lossReason: 'forced' });
  });
  await eventually(async () => {
    expect(await nodes.owners(lock)).toEqual(['', '', '']);
  });
  expect(await other.lock(lock.name).forceUnlock()).toBe(false);
});

it('a minority that another client has taken is not a loss, and is repaired when it is free', async () => {
  await using client = await nodes.client({ lockWatchdogTimeout: 1_500 });
  const lock = client.lock(uniqueName());
  const hold = await lock.acquire();
  await nodes.holdBy('somebody:1', lock, [2], 2_500);
  await eventually(async () => {
    expect(await nodes.owners(lock)).toEqual(Array(3).fill(hold.ownerId));
  });
  expect(hold.signal.aborted).toBe(false);
  await hold.release();
  await nodes.nothingLeft(lock);
});

it('Redlocks over different databases of the same servers are each renewed in their own', async () => {
  await using first = await nodes.client({ lockWatchdogTimeout: 1_500 });
  const urls = nodes.urls.map((url) => `${url}/1`);
  await using second = await nodes.client({ lockWatchdogTimeout: 1_500 }, urls);
  const name = uniqueName();
  const options = { nodeTimeout: 1_000, restartGuard: false } as const;
  const [one, other] = [first, second].map(({ members }) => {
    const locks = members.map((member) => member.getLock(name));
    return first.holdfast.getRedLock(...locks, options); // one client makes both
  });
  const holds = [await one!.acquire(), await other!.acquire()];
  const endsAtMs = performance.now() + 3_000;
  await eventually(() => {
    expect(performance.now()).toBeGreaterThan(endsAtMs);
  });
  expect(holds.map(({ signal }) => signal.aborted)).toEqual([false, false]);
  await Promise.all(holds.map((hold) => hold.release()));
});
