// What the channels of node:diagnostics_channel tell of calls and holds, over the server in memory.
import { channel, subscribe, tracingChannel, unsubscribe } from 'node:diagnostics_channel';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type AcquireMessage,
  CHANNELS,
  type ConnectionMessage,
  type HandedOverMessage,
  Holdfast,
  type HoldMessage,
  type LostMessage,
  type RenewedMessage,
} from '../../../src/index.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { nextEvent } from '../../support/clients.js';

let redis: MemoryRedis;
let client: Holdfast;
let other: Holdfast;
const stops: (() => void)[] = [];

beforeEach(() => {
  redis = new MemoryRedis();
  client = new Holdfast({ redis });
  other = new Holdfast({ redis });
  for (const each of [client, other]) each.on('error', () => undefined);
});

afterEach(async () => {
  await Promise.all([client.close(), other.close()]);
  for (const stop of stops.splice(0)) stop();
  for (const name of Object.values(CHANNELS)) {
    expect(channel(name).hasSubscribers).toBe(false);
    expect(tracingChannel(name).hasSubscribers).toBe(false);
  }
});

interface Heard {
  'holdfast:waiting': AcquireMessage;
  'holdfast:lost': LostMessage;
  'holdfast:renewed': RenewedMessage;
  'holdfast:handed-over': HandedOverMessage;
  'holdfast:connection': ConnectionMessage;
}

interface Traced {
  'holdfast:acquire': AcquireMessage;
  'holdfast:hold': HoldMessage;
}

/** The stages of a tracing channel, in order, each with the message as it was then. */
function traced<Name extends keyof Traced>(name: Name): { stage: string; message: Traced[Name] }[] {
  const stages: { stage: string; message: Traced[Name] }[] = [];
  for (const stage of ['start', 'end', 'asyncStart', 'asyncEnd', 'error']) {
    const listener = (message: unknown): void => {
      stages.push({ stage, message: { ...(message as Traced[Name]) } });
    };
    subscribe(`tracing:${name}:${stage}`, listener);
    stops.push(() => unsubscribe(`tracing:${name}:${stage}`, listener));
  }
  return stages;
}

/** The messages of a plain channel. */
function heard<Name extends keyof Heard>(name: Name): Heard[Name][] {
  const messages: Heard[Name][] = [];
  const listener = (message: unknown): void => void messages.push(message as Heard[Name]);
  subscribe(name, listener);
  stops.push(() => unsubscribe(name, listener));
  return messages;
}

const ENDED = ['start', 'end', 'asyncStart', 'asyncEnd'];
const FAILED = ['start', 'end', 'error', 'asyncStart', 'asyncEnd'];

describe('holdfast:acquire', () => {
  it('tells of a call from its start to its hold', async () => {
    const stages = traced(CHANNELS.acquire);
    const call = client.getLock('orders').acquire({ label: 'a report' });
    expect(stages.map(({ stage }) => stage)).toEqual(['start', 'end']);
    const hold = await call;
    expect(stages.map(({ stage }) => stage)).toEqual(ENDED);
    const [start, , , end] = stages.map(({ message }) => message);
    const about = { clientId: client.clientId, lockName: 'orders', kind: 'Lock' };
    expect(start).toEqual({ ...about, label: 'a report', waitId: start!.waitId });
    expect(end).toMatchObject({ outcome: 'acquired', via: 'first-try', attempts: 1 });
    expect(end!.tookMs).toBeGreaterThanOrEqual(0);
    await hold.release();
  });

  it('tells of a wait, by the same message', async () => {
    const hold = await client.getLock('orders').acquire();
    const stages = traced(CHANNELS.acquire);
    const waits = heard(CHANNELS.waiting);
    const waiting = nextEvent(other, 'waiting');
    const call = other.getLock('orders').acquire();
    const { waitId } = await waiting;
    expect(waits).toMatchObject([{ waitId, holder: hold.ownerId, lockName: 'orders' }]);
    await hold.release();
    await (await call).release();
    expect(stages.at(-1)).toMatchObject({
      stage: 'asyncEnd',
      message: { waitId, via: 'message', outcome: 'acquired' },
    });
  });

  it.each([
    ['not-free', 'LOCK_TIMEOUT', { wait: 0 }],
    ['timeout', 'LOCK_TIMEOUT', { wait: 5 }],
    ['aborted', 'LOCK_ABORTED', { signal: AbortSignal.abort() }],
  ])('tells that a call ended %s', async (outcome, code, options) => {
    const hold = await client.getLock('orders').acquire();
    const stages = traced(CHANNELS.acquire);
    const refused = nextEvent(other, 'refused');
    await expect(other.getLock('orders').acquire(options)).rejects.toMatchObject({ code });
    expect(stages.map(({ stage }) => stage)).toEqual(FAILED);
    expect(stages.at(-1)!.message).toMatchObject({ outcome, code });
    expect(await refused).toMatchObject({ reason: outcome, code, lockName: 'orders' });
    await hold.release();
  });

  it('tells that Redis was unavailable, and that the client was closed', async () => {
    const stages = traced(CHANNELS.acquire);
    redis.down();
    await expect.poll(() => client.status).toBe('connecting');
    const lock = client.getLock('orders');
    await expect(lock.tryLock()).rejects.toMatchObject({ code: 'REDIS_UNAVAILABLE' });
    await client.close();
    await expect(lock.tryLock()).rejects.toMatchObject({ code: 'CLIENT_CLOSED' });
    redis.up();
    const ends = stages.filter(({ stage }) => stage === 'asyncEnd');
    expect(ends.map(({ message }) => message.outcome)).toEqual(['unavailable', 'closed']);
  });

  it('tells of another error by its code', async () => {
    const stages = traced(CHANNELS.acquire);
    const seats = await client.getSemaphore('seats', { permits: 1 }).acquire();
    const refused = nextEvent(client, 'refused');
    await expect(client.getLock('seats').tryLock()).rejects.toMatchObject({ code: 'KEY_CONFLICT' });
    expect(await refused).toMatchObject({ reason: 'error', code: 'KEY_CONFLICT' });
    expect(stages.at(-1)!.message).toMatchObject({ outcome: 'error', code: 'KEY_CONFLICT' });
    await seats.release();
  });

  it('tells of a MultiLock as a whole, and not of members that were tried once', async () => {
    const taken = await other.getLock('b').acquire();
    const stages = traced(CHANNELS.acquire);
    const both = client.getMultiLock(client.getLock('a'), client.getLock('b'));
    const refused = nextEvent(client, 'refused');
    expect(await both.tryLock()).toBe(false);
    const ends = stages.filter(({ stage }) => stage === 'asyncEnd');
    expect(ends.map(({ message }) => message)).toMatchObject([
      { kind: 'MultiLock', lockName: both.name, outcome: 'not-free' },
    ]);
    expect(await refused).toMatchObject({ lockName: both.name, reason: 'not-free' });
    await taken.release();
    await both.withLock(() => undefined);
    expect(stages.at(-1)!.message).toMatchObject({ kind: 'MultiLock', outcome: 'acquired' });
  });

  it('runs its subscribers outside all scopes', async () => {
    const lock = client.getLock('orders');
    const looked: Promise<boolean>[] = [];
    const look = (): void => void looked.push(lock.isHeldByCurrentOwner());
    const name = `tracing:${CHANNELS.acquire}:asyncEnd`;
    subscribe(name, look);
    stops.push(() => unsubscribe(name, look));
    await lock.withLock(() => undefined);
    expect(await Promise.all(looked)).toEqual([false]);
  });
});

describe('holdfast:hold', () => {
  it('tells of a hold from its grant to its release', async () => {
    const stages = traced(CHANNELS.hold);
    const lock = client.getFencedLock('orders');
    const acquired = nextEvent(client, 'acquired');
    const hold = await lock.acquire({ label: 'a report' });
    const { holdId } = await acquired;
    expect(stages.map(({ stage }) => stage)).toEqual(['start', 'end']);
    expect(stages[0]!.message).toEqual({
      ...{ clientId: client.clientId, lockName: 'orders', kind: 'FencedLock', label: 'a report' },
      ...{ ownerId: hold.ownerId, holdId, via: 'first-try', token: hold.token },
    });
    await hold.release();
    await hold.release();
    expect(stages.map(({ stage }) => stage)).toEqual(ENDED);
    expect(stages.at(-1)!.message).toMatchObject({ end: 'released' });
    expect(stages.at(-1)!.message.heldForMs).toBeGreaterThanOrEqual(0);
  });

  it('tells once that it was lost, as holdfast:lost does', async () => {
    const stages = traced(CHANNELS.hold);
    const losses = heard(CHANNELS.lost);
    const hold = await client.getLock('orders').acquire();
    await client.getLock('orders').forceUnlock();
    await expect(hold.release()).rejects.toMatchObject({ code: 'LOCK_LOST' });
    expect(stages.map(({ stage }) => stage)).toEqual(FAILED);
    const { message } = stages.at(-1)!;
    expect(message).toMatchObject({
      end: 'lost',
      lossReason: 'forced',
      error: hold.signal.reason as unknown,
    });
    const { holdId } = message;
    const about = { clientId: client.clientId, lockName: 'orders', kind: 'Lock' };
    expect(losses).toEqual([
      { ...about, ownerId: hold.ownerId, lossReason: 'forced', holdIds: [holdId] },
    ]);
  });

  it('runs the function of withLock inside what a subscriber has set', async () => {
    const name = `tracing:${CHANNELS.hold}:start`;
    let isInside = false;
    const wrap = (message: unknown): void => {
      (message as HoldMessage).runInside = (fn) => {
        isInside = true;
        try {
          return fn();
        } finally {
          isInside = false;
        }
      };
    };
    subscribe(name, wrap);
    stops.push(() => unsubscribe(name, wrap));
    await client.getLock('orders').withLock(() => {
      expect(isInside).toBe(true);
    });
    const both = client.getMultiLock(client.getLock('a'), client.getLock('b'));
    expect(await both.withLock(() => isInside)).toBe(true);
    const seats = client.getSemaphore('seats', { permits: 1 });
    expect(await seats.withPermits(() => isInside)).toBe(true);
  });
});

describe('the plain channels', () => {
  it('holdfast:renewed counts leases by what became of their renewal', async () => {
    const renewals = heard(CHANNELS.renewed);
    const holds = [
      await client.getLock('a').acquire(),
      await client.getLock('b').acquire(),
      await client.getLock('c').acquire({ lease: 100_000 }), // only checked
    ];
    await redis.advance(10_010); // a timer counts whole milliseconds
    const { clientId } = client;
    expect(renewals).toEqual([{ clientId, outcome: 'kept', leases: 2 }]);
    expect(client.stats().renewals).toEqual({ kept: 2, lost: 0, unanswered: 0, late: 0 });
    redis.down();
    await redis.advance(10_000);
    expect(client.stats().renewals.unanswered).toBeGreaterThan(0);
    expect(client.stats().outages).toBe(1);
    redis.up();
    await redis.advance(1_000);
    redis.restart({ empty: true });
    await redis.advance(10_000);
    expect(client.stats().renewals.lost).toBe(3);
    expect(renewals.at(-1)).toMatchObject({ outcome: 'lost' });
    for (const hold of holds)
      await expect(hold.release()).rejects.toMatchObject({ code: 'LOCK_LOST' });
  });

  it.each([
    ['local', (of: Holdfast) => of.getLock('orders')],
    ['hand-over', (of: Holdfast) => of.getFairLock('orders')],
  ])('holdfast:handed-over tells of a hand-over: %s', async (via, lockOf) => {
    const handedOver = heard(CHANNELS.handedOver);
    const lock = lockOf(client);
    // A busy machine may take longer than a local hand-over may: then the lock is acquired anew.
    await expect
      .poll(async () => {
        const hold = await lock.acquire();
        const waiting = nextEvent(client, 'waiting');
        const call = lock.acquire();
        await waiting;
        await hold.release();
        const next = await call;
        const told = handedOver.find(({ ownerId }) => ownerId === next.ownerId);
        await next.release();
        return told;
      })
      .toMatchObject({ clientId: client.clientId, lockName: 'orders', via });
    expect(handedOver.at(-1)!.tookMs).toBeGreaterThanOrEqual(0);
  });

  it('holdfast:connection tells that a connection failed, and that it is back', async () => {
    const connections = heard(CHANNELS.connection);
    await client.getLock('a').isLocked();
    const recovered = nextEvent(client, 'recovered');
    const failed = nextEvent(client, 'error');
    redis.down();
    await failed;
    redis.up();
    await recovered;
    const own = connections.filter(({ clientId }) => clientId === client.clientId);
    expect(own.map(({ state }) => state)).toEqual(['failed', 'recovered']);
    expect(own[0]).toMatchObject({ connection: 'commands', error: expect.any(Error) as Error });
    expect(own[1]!.lastedMs).toBeGreaterThanOrEqual(0);
  });
});

it('nothing is built for channels without subscribers', async () => {
  const lock = client.getLock('orders');
  const hold = await lock.acquire();
  await hold.release();
  const stages = traced(CHANNELS.hold);
  await lock.withLock(() => undefined);
  expect(stages.map(({ stage }) => stage)).toEqual(ENDED);
  // The first hold was not numbered: an id is built when it is asked for.
  expect(stages[0]!.message.holdId).toBe(`${client.clientId}#1`);
});
