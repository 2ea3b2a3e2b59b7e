// Leases that are shorter than those before them: waiters learn of them in time, and keep their places with them.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Hold, Holdfast } from '../../../src/index.js';
import {
  newClient,
  nextEvent,
  proxyPerTest,
  rejectionOf,
  sharedConnection,
} from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { type Caller, FairLine } from '../../support/fair-line.js';
import { expectShortTimes } from '../../support/expected-warnings.js';

expectShortTimes();

/** A lease that is not known to be shorter is queried after a third of its time. */
const LEASE_MS = 60_000;
const SHORT_MS = 1_500;
const SOON_MS = 10_000;

const redis = sharedConnection();
const proxy = proxyPerTest();
let line: FairLine;
const clients: Holdfast[] = [];

beforeEach(() => {
  line = new FairLine(redis);
});

afterEach(async () => {
  await line.isGone();
  await Promise.all(clients.splice(0).map((client) => client.close()));
});

function client(options: Parameters<typeof newClient>[0] = {}): Holdfast {
  const made = newClient({ lockWatchdogTimeout: LEASE_MS, ...options });
  clients.push(made);
  return made;
}

async function soon<T>(promise: Promise<T>): Promise<T> {
  const startedAt = performance.now();
  const result = await promise;
  expect(performance.now() - startedAt).toBeLessThan(SOON_MS);
  return result;
}

/** Joins behind the holder, gets the lock with a shorter lease once `behind` has come, and then neither hears nor sends anything. */
async function handedOverAndDead(
  options: { lockWatchdogTimeout?: number },
  asked: { lease?: number },
  behind: () => Promise<void>,
): Promise<Hold> {
  const holder = await line.lockOf(client()).acquire({ lease: LEASE_MS });
  const mortal = client({ redis: proxy().url, ...options });
  let acquiring!: Promise<Hold>;
  await line.joined(mortal.clientId, () => {
    acquiring = line.lockOf(mortal).acquire(asked);
  });
  await behind();
  await holder.release();
  const hold = await acquiring;
  await eventually(async () => {
    expect(await redis.pttl(line.name)).toBeLessThanOrEqual(SHORT_MS);
  });
  proxy().blackhole();
  return hold;
}

describe.each([
  ['a shorter watchdog lease', { lockWatchdogTimeout: SHORT_MS }, {}],
  ['a fixed lease', {}, { lease: SHORT_MS }],
])('when the holder dies, with %s', (_what, options, asked) => {
  it('the next in line acquires the lock in time', async () => {
    let next!: Caller;
    const hold = await handedOverAndDead(options, asked, async () => {
      next = await line.join(client(), 'next');
    });
    await soon(next.done);
    expect(hold.signal.aborted).toBe(true);
    proxy().heal();
  });

  it('a caller of the reentrant lock of that name acquires it in time', async () => {
    let plain!: Promise<Hold>;
    await handedOverAndDead(options, asked, async () => {
      const other = client();
      const waiting = nextEvent(other, 'waiting');
      plain = other.getLock(line.name).acquire();
      await waiting;
      await eventually(async () => {
        expect(await redis.pubsub('NUMSUB', `redisson_lock__channel:{${line.name}}`)).toContain(2);
      });
    });
    await (await soon(plain)).release();
    proxy().heal();
  });

  it('and the waiter that was told of the lease gives up, the next acquires the lock in time', async () => {
    const aborter = new AbortController();
    let [told, next]: Caller[] = [];
    await handedOverAndDead(options, asked, async () => {
      told = await line.join(client(), 'told', { signal: aborter.signal });
      next = await line.join(client(), 'next');
    });
    aborter.abort();
    expect(await rejectionOf(told!.done)).toMatchObject({ code: 'LOCK_ABORTED' });
    await soon(next!.done);
    proxy().heal();
  });
});

it('a waiter whose lease is tiny for the age of its place keeps its turn', async () => {
  const options = { lockWatchdogTimeout: 9_000 };
  const holder = await line.lockOf(client(options)).acquire();
  const first = await line.join(client(options), 'first', { lease: 20 });
  const second = await line.join(client(options), 'second');
  const third = await line.join(client(options), 'third');
  await sleep(2_600); // just before its place is renewed
  await holder.release();
  // A busy machine may take longer than the lease, but not change the order.
  await Promise.allSettled([first.done, second.done, third.done]);
  expect(line.turns).toEqual(['first', 'second', 'third']);
});
