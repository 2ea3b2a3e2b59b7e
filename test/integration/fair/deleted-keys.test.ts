// Keys of a fair lock that somebody deletes while callers wait: all of them still get their turn.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import { newClient, nextEvent, sharedConnection } from '../../support/clients.js';
import { FairLine, type Caller } from '../../support/fair-line.js';

const LEASE_MS = 2_000;
const WAITERS = 5;
const LABELS = Array.from({ length: WAITERS }, (_, index) => String(index));

const redis = sharedConnection();
let line: FairLine;
let holder: Holdfast;
/** One for each waiter. */
let clients: Holdfast[];

beforeEach(() => {
  line = new FairLine(redis);
  const options = { lockWatchdogTimeout: LEASE_MS };
  holder = newClient(options);
  clients = LABELS.map(() => newClient(options));
});

afterEach(async () => {
  await line.isGone();
  await Promise.all([holder, ...clients].map((client) => client.close()));
});

it('deleting the lock: the waiters acquire it in order, and the holder learns of the loss', async () => {
  const hold = await line.lockOf(holder).acquire();
  const callers = await joinOneAfterAnother();
  const lost = nextEvent(holder, 'lost');
  await redis.del(line.keys[0]);
  await Promise.all(callers.map(({ done }) => done));
  expect(line.turns).toEqual(LABELS);
  await lost;
  expect(hold.signal.aborted).toBe(true);
});

it('deleting the line and the places: all waiters acquire the lock when it is released', async () => {
  const hold = await line.lockOf(holder).acquire();
  const callers = await joinOneAfterAnother();
  await redis.del(line.keys[1], line.keys[2]);
  await line.hasLength(WAITERS); // they join again
  expect(await line.owners()).toEqual(callers.map(({ ownerId }) => ownerId));
  await hold.release();
  await Promise.all(callers.map(({ done }) => done));
  expect(line.turns).toEqual(LABELS);
});

it.each([[[1]], [[2]], [[1, 2]]])(
  'deleting the line, the places or both (keys %j) just before the release: all waiters acquire the lock',
  async (keys) => {
    const hold = await line.lockOf(holder).acquire();
    const callers = await joinOneAfterAnother();
    await redis.del(keys.map((key) => line.keys[key]!));
    await hold.release(); // before they can find out
    await Promise.all(callers.map(({ done }) => done));
    expect([...line.turns].sort()).toEqual(LABELS);
  },
);

it('deleting all keys: all waiters acquire the lock', async () => {
  const hold = await line.lockOf(holder).acquire();
  const callers = await joinOneAfterAnother();
  const lost = nextEvent(holder, 'lost');
  await redis.del(...line.keys);
  await Promise.all(callers.map(({ done }) => done));
  expect([...line.turns].sort()).toEqual(LABELS);
  await lost;
  expect(hold.signal.aborted).toBe(true);
});

async function joinOneAfterAnother(): Promise<Caller[]> {
  const callers: Caller[] = [];
  for (const [index, client] of clients.entries()) {
    callers.push(await line.join(client, LABELS[index]!, { body: () => sleep(1) }));
  }
  return callers;
}
