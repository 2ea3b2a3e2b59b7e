// Leases that are shorter than those before them: whoever waits learns of them in time, and keeps its place with one.
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
import { FairLine } from '../../support/fair-line.js';

/** A lease that is not known to be shorter is looked at after a third of it. */
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

/** Gets the lock by a hand-over, with this lease at most, and with somebody else behind it. */
async function handedOver(acquiring: Promise<Hold>, holder: Hold): Promise<Hold> {
  await holder.release();
  const hold = await acquiring;
  await eventually(async () => {
    const ttlMs = await redis.pttl(line.name);
    expect(ttlMs).toBeLessThanOrEqual(SHORT_MS);
  });
  return hold;
}

describe('a holder that dies', () => {
  const dying = (): Holdfast => client({ redis: proxy().url, lockWatchdogTimeout: SHORT_MS });

  it('with a shorter lease than its predecessor: the next in line has the lock in time', async () => {
    const holder = await line.lockOf(client()).acquire();
    let acquiring!: Promise<Hold>;
    const mortal = dying();
    await line.joined(mortal.clientId, () => {
      acquiring = line.lockOf(mortal).acquire();
    });
    const next = await line.join(client(), 'next');
    const hold = await handedOver(acquiring, holder);
    proxy().blackhole();
    await soon(next.done);
    expect(hold.signal.aborted).toBe(true);
    proxy().heal();
  });

  it('with a shorter lease than its predecessor: so has the next that wants the reentrant lock', async () => {
    const holder = await line.lockOf(client()).acquire({ lease: LEASE_MS });
    const other = client();
    const waiting = nextEvent(other, 'waiting');
    const plain = other.getLock(line.name).acquire();
    await waiting;
    await plainListens();
    let acquiring!: Promise<Hold>;
    const mortal = dying();
    await line.joined(mortal.clientId, () => {
      acquiring = line.lockOf(mortal).acquire();
    });
    await handedOver(acquiring, holder);
    proxy().blackhole();
    await (await soon(plain)).release();
    proxy().heal();
  });
});

it('a holder with a fixed lease dies: who wants the reentrant lock has it in time', async () => {
  const holder = await line.lockOf(client()).acquire();
  const other = client();
  const waiting = nextEvent(other, 'waiting');
  const plain = other.getLock(line.name).acquire();
  await waiting;
  await plainListens();
  const mortal = client({ redis: proxy().url });
  let acquiring!: Promise<Hold>;
  await line.joined(mortal.clientId, () => {
    acquiring = line.lockOf(mortal).acquire({ lease: SHORT_MS });
  });
  await handedOver(acquiring, holder);
  proxy().blackhole();
  await (await soon(plain)).release();
  proxy().heal();
});

it('a holder with a fixed lease dies, and whoever was told of it gives up: the next has the lock in time', async () => {
  const holder = await line.lockOf(client()).acquire();
  const mortal = client({ redis: proxy().url });
  let acquiring!: Promise<Hold>;
  await line.joined(mortal.clientId, () => {
    acquiring = line.lockOf(mortal).acquire({ lease: SHORT_MS });
  });
  const aborter = new AbortController();
  const told = await line.join(client(), 'told', { signal: aborter.signal });
  const next = await line.join(client(), 'next');
  const hold = await handedOver(acquiring, holder);
  proxy().blackhole();
  aborter.abort();
  expect(await rejectionOf(told.done)).toMatchObject({ code: 'LOCK_ABORTED' });
  await soon(next.done);
  expect(hold.signal.aborted).toBe(true);
  proxy().heal();
});

it('one that waits with a lease that is tiny for the age of its place keeps its turn', async () => {
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

/** Somebody hears when the lock is free. */
async function plainListens(): Promise<void> {
  await eventually(async () => {
    expect(await redis.pubsub('CHANNELS', `*${line.name}*`)).not.toEqual([]);
  });
}
