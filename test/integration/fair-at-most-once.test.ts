// Commands of fair locks that run twice, late, or without a reply: none takes, frees or prolongs what it should not, and the
// line stays in order.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Holdfast } from '../../src/index.js';
import type { scripts } from '../../src/redis/scripts.generated.js';
import { eventsOf, newClient, rejectionOf } from '../support/clients.js';
import { eventually } from '../support/eventually.js';
import { FairLine } from '../support/fair-line.js';
import { commandOf, rises, watchTtl } from '../support/lock-commands.js';
import type { HeldCommand } from '../support/proxy-interceptors.js';
import { sharedConnection } from '../support/shared-connection.js';
import { proxyPerTest } from '../support/shared-proxy.js';

const LEASE_MS = 1_500;

type Fault = 'loseReplyTo' | 'cutAfterForwarding' | 'holdBack' | 'copyNext';

const redis = sharedConnection();
const proxy = proxyPerTest();
let line: FairLine;
/** Goes through the proxy. */
let client: Holdfast;
let other: Holdfast;
let holder: Holdfast;

beforeEach(() => {
  line = new FairLine(redis);
  // The time-out: so that a command is repeated rather than given up.
  const options = { lockWatchdogTimeout: LEASE_MS, commandTimeout: 5_000 };
  client = newClient({ ...options, redis: proxy().url });
  other = newClient(options);
  holder = newClient({ lockWatchdogTimeout: 30_000 });
});

afterEach(async () => {
  await line.isGone();
  await Promise.all([client, other, holder].map((each) => each.close()));
});

/** Each one runs to its end, with everybody served in order, and disturbs the command that it is called after. */
const COURSES = {
  'join that takes the lock': async (fault: Fault) => {
    const late = disturb(fault, 'join');
    const hold = await line.lockOf(client).acquire();
    const next = await line.join(other, 'next');
    await hold.release();
    await next.done;
    return late;
  },
  'join that stands in line': async (fault: Fault) => {
    const hold = await line.lockOf(holder).acquire();
    const late = disturb(fault, 'join');
    const first = await line.join(client, 'first');
    const next = await line.join(other, 'next');
    await hold.release();
    await Promise.all([first.done, next.done]);
    return late;
  },
  'renewal of a place': async (fault: Fault) => {
    const hold = await line.lockOf(holder).acquire();
    const first = await line.join(client, 'first');
    const next = await line.join(other, 'next');
    const late = disturb(fault, 'renewPlaces');
    await late.happened;
    await sleep(LEASE_MS);
    await hold.release();
    await Promise.all([first.done, next.done]);
    return late;
  },
  'hand-over by a release': async (fault: Fault) => {
    const hold = await line.lockOf(client).acquire();
    const next = await line.join(other, 'next');
    const late = disturb(fault, 'handOver');
    await hold.release();
    await next.done;
    return late;
  },
  'leave of the line': async (fault: Fault) => {
    const hold = await line.lockOf(holder).acquire();
    const aborter = new AbortController();
    const first = await line.join(client, 'first', { signal: aborter.signal });
    const next = await line.join(other, 'next');
    const late = disturb(fault, 'handOver');
    aborter.abort();
    expect(await rejectionOf(first.done)).toMatchObject({ code: 'LOCK_ABORTED' });
    await line.hasLength(1);
    await hold.release();
    await next.done;
    return late;
  },
  'confirmation of a hand-over': async (fault: Fault) => {
    const hold = await line.lockOf(holder).acquire();
    const late = disturb(fault, 'confirm');
    const body = async (): Promise<void> => {
      await late.happened;
      await eventually(async () => {
        expect(await redis.pttl(line.name)).toBeGreaterThan(50_000);
      });
    };
    const first = await line.join(client, 'first', { lease: 60_000, body });
    const next = await line.join(other, 'next');
    await hold.release();
    await Promise.all([first.done, next.done]);
    return late;
  },
};

type CourseName = keyof typeof COURSES;
const ALL = Object.keys(COURSES) as CourseName[];

describe.each(['loseReplyTo', 'cutAfterForwarding', 'holdBack'] as const)('%s', (fault) => {
  it.each(ALL)('%s: everything goes as if nothing had happened', async (course) => {
    const events = [client, other, holder].flatMap((each) => [
      eventsOf(each, 'lost'),
      eventsOf(each, 'warning'),
    ]);
    const { happened } = await COURSES[course](fault);
    await happened;
    expect(line.turns.at(-1)).toBe('next');
    await line.isGone();
    const after = await watchTtl(redis, line.name, LEASE_MS / 2);
    expect(new Set(after)).toEqual(new Set([-2]));
    expect(events.flat()).toEqual([]);
  });
});

describe.each([
  ['a copy', 'copyNext'],
  ['the held-back original', 'holdBack'],
] as const)('%s that arrives late', (_title, fault) => {
  it.each(ALL)('%s: changes nothing of what others have', async (course) => {
    const late = await COURSES[course](fault);
    const hold = await line.lockOf(holder).acquire({ lease: 10_000 });
    const next = await line.join(other, 'one more');
    const before = await state();
    const watching = watchTtl(redis, line.name, 300);
    await late.deliver();
    const seen = await watching;
    expect(rises(seen)).toBe(false);
    expect(seen.at(-1)).toBeGreaterThan(0);
    const { lock, tickets, nonces } = await state();
    expect(lock).toEqual(before.lock);
    if (course.startsWith('join')) {
      expect(tickets.slice(0, 2)).toEqual(before.tickets); // with a place of nobody behind it
      expect(tickets).toHaveLength(4);
    } else expect({ tickets, nonces }).toMatchObject({ tickets: before.tickets });
    await hold.release();
    await next.done;
  });

  it.each(ALL)('%s: does nothing that lasts to a lock that is free', async (course) => {
    const late = await COURSES[course](fault);
    await line.isGone();
    await late.deliver();
    const seen = await watchTtl(redis, line.name, 1.2 * LEASE_MS);
    expect(rises(seen)).toBe(false);
    if (!course.startsWith('join')) expect(new Set(seen)).toEqual(new Set([-2]));
    expect(await line.ttls()).toEqual([-2, -2, -2]);
  });

  it.each(['join that stands in line', 'renewal of a place'] as const)(
    '%s: changes nothing of the place that it belongs to',
    async (course) => {
      const hold = await line.lockOf(holder).acquire();
      const late = disturb(fault, course === 'renewal of a place' ? 'renewPlaces' : 'join');
      const first = await line.join(client, 'first');
      const next = await line.join(other, 'next');
      await late.happened;
      await sleep(LEASE_MS); // it is renewed meanwhile
      const before = await state();
      await late.deliver();
      const after = await state();
      expect(after.tickets).toEqual(before.tickets);
      for (const [owner, nonce] of before.nonces) {
        expect(after.nonces.get(owner)).toBeGreaterThanOrEqual(nonce);
      }
      await hold.release();
      await Promise.all([first.done, next.done]);
      expect(line.turns).toEqual(['first', 'next']);
    },
  );

  it('confirmation of a hand-over: does not shorten a lease that was extended since', async () => {
    const hold = await line.lockOf(holder).acquire();
    const late = disturb(fault, 'confirm');
    const acquiring = line.lockOf(client).acquire({ lease: 5_000 });
    await line.hasLength(1);
    await hold.release();
    const handedOver = await acquiring;
    await late.happened;
    await handedOver.extend(60_000);
    await late.deliver();
    expect(await redis.pttl(line.name)).toBeGreaterThan(50_000);
    await handedOver.release();
  });

  it('join: its place, which is nobody’s, delays those behind it by one lease at most', async () => {
    const late = await COURSES['join that stands in line'](fault);
    const hold = await line.lockOf(holder).acquire();
    await late.deliver();
    await line.hasLength(1);
    const deliveredAt = performance.now();
    const behind = await line.join(other, 'behind');
    await hold.release();
    await behind.done;
    expect(performance.now() - deliveredAt).toBeLessThan(LEASE_MS + 500);
  });
});

function disturb(fault: Fault, script: keyof typeof scripts): HeldCommand {
  return proxy()[fault](commandOf(script, line.name)) as HeldCommand;
}

interface LineState {
  readonly lock: Record<string, string>;
  /** Owner, ticket, owner, ticket, and so on. */
  readonly tickets: string[];
  readonly nonces: Map<string, number>;
}

async function state(): Promise<LineState> {
  const [lockKey, lineKey, placesKey] = line.keys;
  const places = Object.entries(await redis.hgetall(placesKey));
  return {
    lock: await redis.hgetall(lockKey),
    tickets: await redis.zrange(lineKey, '0', '-1', 'WITHSCORES'),
    nonces: new Map(places.map(([owner, place]) => [owner, Number(place.split(' ')[0])])),
  };
}
