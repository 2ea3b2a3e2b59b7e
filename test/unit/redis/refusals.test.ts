// A server that is up and keeps refusing: the operator gets one report for each reason.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Events } from '../../../src/api/events.js';
import { LostError, replyError, UnsentError } from '../../../src/redis/failure.js';
import { Refusals } from '../../../src/redis/reconnecting.js';
import { PROCESS_CLOCK } from '../../../src/runtime/clock.js';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

const OOM = replyError('OOM command not allowed');
const TOLD = 'Redis (redis.example:6379) goes on refusing what callers wait for: ';

type Course = readonly [error: unknown, forMs: number, thenNoneForMs?: number];

it.each<[string, readonly Course[], readonly string[]]>([
  ['one that lasts', [[OOM, 60_000]], [OOM.message]],
  [
    'one that is over soon, and comes again',
    [
      [OOM, 1_500, 10_000],
      [OOM, 1_500],
    ],
    [],
  ],
  [
    'one that was over in between',
    [
      [OOM, 10_000, 10_000],
      [OOM, 10_000],
    ],
    [OOM.message, OOM.message],
  ],
  [
    'one after the other',
    [
      [replyError('LOADING'), 3_000],
      [OOM, 3_000],
      [replyError('LOADING'), 3_000],
    ],
    ['LOADING', OOM.message],
  ],
  ['a moving slot: TRYAGAIN', [[replyError('TRYAGAIN Multiple keys'), 10_000]], []],
  ['a moving slot: MOVED', [[replyError('MOVED 3999 10.0.0.2:6379'), 10_000]], []],
  [
    'a moving slot, in a script',
    [[replyError('ERR Script attempted to access a non local key in a cluster node'), 10_000]],
    [],
  ],
  ['a lost connection, which tells that itself', [[new LostError(), 10_000]], []],
  ['one that is not there', [[new UnsentError('not connected'), 10_000]], []],
])('%s', (_, courses, expected) => {
  const told: string[] = [];
  const events: Events = {
    emit: (_name, describe) => void told.push((describe() as { error: Error }).error.message),
    outage: () => undefined,
    publish: () => undefined,
    hears: () => true,
  };
  const refusals = new Refusals(events, PROCESS_CLOCK, () => 'redis.example:6379');
  for (const [error, forMs, thenNoneForMs = 0] of courses) {
    for (let ms = 0; ms <= forMs; ms += 500) {
      refusals.heard(error);
      vi.advanceTimersByTime(500);
    }
    vi.advanceTimersByTime(thenNoneForMs);
  }
  expect(told).toEqual(expected.map((words) => TOLD + words));
});
