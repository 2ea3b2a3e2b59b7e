// A server that is up and goes on refusing: whoever has to do something about it hears of it once.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Events } from '../../../src/api/events.js';
import { LostError, replyError, UnsentError } from '../../../src/redis/failure.js';
import { Refusals } from '../../../src/redis/reconnecting.js';
import { PROCESS_CLOCK } from '../../../src/runtime/clock.js';

/** The messages of the `error` events so far. */
let told: string[];

const events: Events = {
  emit: (_name, describe) => {
    const { error } = describe() as { error: Error };
    told.push(error.message);
  },
  outage: () => undefined,
};

describe('a refusal of what somebody waits for', () => {
  let refusals: Refusals;

  beforeEach(() => {
    vi.useFakeTimers();
    told = [];
    refusals = new Refusals(events, PROCESS_CLOCK, () => 'redis.example:6379');
  });

  afterEach(() => {
    vi.useRealTimers();
  });

  /** It is heard every half second for so long. */
  function refusedFor(ms: number, words = 'OOM command not allowed'): void {
    for (let i = 0; i <= ms; i += 500) {
      refusals.heard(replyError(words));
      vi.advanceTimersByTime(500);
    }
  }

  it('is told once when it lasts, with the server and its words', () => {
    refusedFor(60_000);
    expect(told).toEqual([
      'Redis (redis.example:6379) goes on refusing what callers wait for: OOM command not allowed',
    ]);
  });

  it('is not told if it is over soon', () => {
    refusedFor(1_500);
    vi.advanceTimersByTime(10_000);
    refusedFor(1_500);
    expect(told).toEqual([]);
  });

  it('is told again when it was over in between', () => {
    refusedFor(10_000);
    vi.advanceTimersByTime(10_000);
    refusedFor(10_000);
    expect(told).toHaveLength(2);
  });

  it('is told once for each of its reasons', () => {
    refusedFor(3_000, 'LOADING Redis is loading the dataset in memory');
    refusedFor(3_000, 'NOREPLICAS Not enough good replicas to write.');
    refusedFor(3_000, 'LOADING Redis is loading the dataset in memory');
    expect(told).toHaveLength(2);
  });

  it.each([
    'TRYAGAIN Multiple keys request during rehashing of slot',
    'MOVED 3999 10.0.0.2:6379',
    'ASK 3999 10.0.0.2:6379',
    'ERR Script attempted to access a non local key in a cluster node script: 1a2b, on @user_script:12.',
  ])('is not told where it is normal for a moment: "%s"', (words) => {
    refusedFor(10_000, words);
    expect(told).toEqual([]);
  });

  it.each([new LostError(), new UnsentError('not connected'), 'a string'])(
    'is not %s: the connection tells that itself',
    (error) => {
      for (let i = 0; i < 20; i++) {
        refusals.heard(error);
        vi.advanceTimersByTime(500);
      }
      expect(told).toEqual([]);
    },
  );
});
