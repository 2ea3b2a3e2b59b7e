// Commands of fair locks that run late or twice: none of them acquires, releases or extends a lock wrongly, and the line stays in order.
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import {
  COURSE_NAMES,
  COURSES,
  disturbedLinePerTest,
  LEASE_MS,
} from '../../support/fair-courses.js';
import type { FairLine } from '../../support/fair-line.js';
import { rises, watchTtl } from '../../support/lock-commands.js';
import { sharedConnection } from '../../support/clients.js';
import { EventLoopLag } from '../../support/time.js';

const redis = sharedConnection();
const disturbed = disturbedLinePerTest(redis);

describe.each([
  ['a copy', 'copyNext'],
  ['the held-back original', 'holdBack'],
] as const)('%s that arrives late', (_title, fault) => {
  it.each(COURSE_NAMES)('%s: does not change what others have', async (course) => {
    const { line, other, holder } = disturbed();
    const late = await COURSES[course](disturbed(), fault);
    const hold = await line.lockOf(holder).acquire({ lease: 10_000 });
    const next = await line.join(other, 'one more');
    const before = await stateOf(line);
    const watching = watchTtl(redis, line.name, 300);
    await late.deliver();
    const seen = await watching;
    expect(rises(seen)).toBe(false);
    expect(seen.at(-1)).toBeGreaterThan(0);
    const { lock, tickets, nonces } = await stateOf(line);
    expect(lock).toEqual(before.lock);
    if (course.startsWith('join')) {
      expect(tickets.slice(0, 2)).toEqual(before.tickets); // with an abandoned place behind it
      expect(tickets).toHaveLength(4);
    } else expect({ tickets, nonces }).toMatchObject({ tickets: before.tickets });
    await hold.release();
    await next.done;
  });

  it.each(COURSE_NAMES)('%s: has no lasting effect on a free lock', async (course) => {
    const { line } = disturbed();
    const late = await COURSES[course](disturbed(), fault);
    await line.isGone();
    await late.deliver();
    const seen = await watchTtl(redis, line.name, 1.2 * LEASE_MS);
    expect(rises(seen)).toBe(false);
    if (!course.startsWith('join')) expect(new Set(seen)).toEqual(new Set([-2]));
    expect(await line.ttls()).toEqual([-2, -2, -2]);
  });

  it.each(['join that stands in line', 'renewal of a place'] as const)(
    '%s: does not change its own place',
    async (course) => {
      const { line, client, other, holder, disturb } = disturbed();
      const hold = await line.lockOf(holder).acquire();
      const late = disturb(fault, course === 'renewal of a place' ? 'renewPlaces' : 'join');
      const first = await line.join(client, 'first');
      const next = await line.join(other, 'next');
      await late.happened;
      await sleep(LEASE_MS); // it is renewed meanwhile
      const before = await stateOf(line);
      await late.deliver();
      const after = await stateOf(line);
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
    const { line, client, holder, disturb } = disturbed();
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

  it('join: its abandoned place delays those behind it by one lease at most', async () => {
    const { line, other, holder } = disturbed();
    const late = await COURSES['join that stands in line'](disturbed(), fault);
    const hold = await line.lockOf(holder).acquire();
    await late.deliver();
    await line.hasLength(1);
    using lag = new EventLoopLag();
    const deliveredAt = performance.now();
    const behind = await line.join(other, 'behind');
    await hold.release();
    await behind.done;
    expect(performance.now() - deliveredAt).toBeLessThan(LEASE_MS + 500 + lag.longestMs);
  });
});

interface LineState {
  readonly lock: Record<string, string>;
  /** Owner, ticket, owner, ticket, and so on. */
  readonly tickets: string[];
  readonly nonces: Map<string, number>;
}

async function stateOf(line: FairLine): Promise<LineState> {
  const [lockKey, lineKey, placesKey] = line.keys;
  const places = Object.entries(await redis.hgetall(placesKey));
  return {
    lock: await redis.hgetall(lockKey),
    tickets: await redis.zrange(lineKey, '0', '-1', 'WITHSCORES'),
    nonces: new Map(places.map(([owner, place]) => [owner, Number(place.split(' ')[0])])),
  };
}
