// Processes that were given the same client id: their owners differ, and none takes a grant of another one for its own.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import { newClient, sharedConnection } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { fairClientsPerTest } from '../../support/fair-line.js';
import { Occupancy } from '../../support/occupancy.js';
import { uniqueName } from '../../support/unique-name.js';

// No renewal finds out within a test that a lock is somebody else's.
const OPTIONS = { clientId: 'orders-service', lockWatchdogTimeout: 60_000 };

const redis = sharedConnection();
const clients = fairClientsPerTest(redis, () => ({
  one: newClient(OPTIONS),
  two: newClient(OPTIONS),
}));

it('a fair lock that one of them hands to another one is left to it', async () => {
  const { line, one, two } = clients();
  const hold = await line.lockOf(one).acquire();
  const theirs = await line.joinAndStay(two, 'theirs');
  const mine = await line.joinAndStay(one, 'mine');
  await hold.release();
  await line.hasTurn('theirs');
  await sleep(200);
  expect(line.turns).toEqual(['theirs']);
  await theirs.end();
  await line.hasTurn('mine');
  await mine.end();
});

it('the permit of a semaphore that one of them gives back is left to another one', async () => {
  const { one, two } = clients();
  const name = uniqueName('semaphore');
  const ofOne = one.getSemaphore(name, { permits: 1 });
  const ofTwo = two.getSemaphore(name, { permits: 1 });
  await theyTakeTurns(
    ofOne.acquire(),
    (fn) => ofTwo.withPermits(fn),
    (fn) => ofOne.withPermits(fn),
    async () => (await ofOne.getWaiters()).length,
  );
});

it('a write lock that one of them hands to another one is left to it', async () => {
  const { one, two } = clients();
  const name = uniqueName('read-write');
  const [ofOne, ofTwo] = [one, two].map((client: Holdfast) => client.getReadWriteLock(name));
  await theyTakeTurns(
    ofOne!.readLock().acquire(),
    (fn) => ofTwo!.writeLock().withLock(fn),
    (fn) => ofOne!.readLock().withLock(fn),
    async () => (await ofOne!.getWaiters()).length,
  );
});

type Section = (fn: () => Promise<void>) => Promise<void>;

/** Somebody holds; two wait, one behind the other: never are both inside. */
async function theyTakeTurns(
  held: Promise<{ release(): Promise<void> }>,
  first: Section,
  second: Section,
  waiterCount: () => Promise<number>,
): Promise<void> {
  const hold = await held;
  const inside = new Occupancy();
  const stay = (): Promise<void> => inside.inside('both', () => sleep(200));
  const sections: Promise<void>[] = [];
  for (const section of [first, second]) {
    sections.push(section(stay));
    await eventually(async () => {
      expect(await waiterCount()).toBe(sections.length);
    });
  }
  await sleep(50); // both are known to listen
  await hold.release();
  await Promise.all(sections);
  expect(inside.most).toBe(1);
}
