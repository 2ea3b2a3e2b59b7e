// What the refusals of a server are made into, for whoever has to do something about them.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Events } from '../../../src/api/events.js';
import { failureKind, LostError, replyError, UnsentError } from '../../../src/redis/failure.js';
import { Refusals } from '../../../src/redis/refusals.js';
import { PROCESS_CLOCK } from '../../../src/runtime/clock.js';

const ONE_SERVER = ['redis.example:6379', false] as const;
/** The messages of the `error` events so far. */
let told: string[];

const events: Events = {
  emit: (_name, describe) => {
    const { error } = describe() as { error: Error };
    told.push(error.message);
  },
  outage: () => undefined,
};

const OF_A_CLUSTER = ['cluster', true] as const;

it('to the client of a cluster, which may follow it soon, it is none', () => {
  const moved = replyError('MOVED 3999 10.0.0.2:6379');
  expect(new Refusals(events, PROCESS_CLOCK).explain(moved, ...OF_A_CLUSTER)).toBe(moved);
});

it('a replica is named, with what to do', () => {
  const words = "READONLY You can't write against a read only replica.";
  const inScript = ` script: ${'1a2b'.repeat(10)}, on @user_script:12.`;
  const error = new Refusals(events, PROCESS_CLOCK).explain(
    replyError(words + inScript),
    ...ONE_SERVER,
  );
  expect(failureKind(error)).toBe('transient');
  expect(error.message).toMatch(
    /^READONLY You can't write against a read only replica\. \(redis\.example:6379 is a read-only replica: .*the master.*\)$/,
  );
});

it('what is no redirection is left as it is', () => {
  const loading = replyError('LOADING Redis is loading the dataset in memory');
  expect(new Refusals(events, PROCESS_CLOCK).explain(loading, ...ONE_SERVER)).toBe(loading);
});

describe('a refusal of what somebody waits for', () => {
  let refusals: Refusals;

  beforeEach(() => {
    vi.useFakeTimers();
    told = [];
    refusals = new Refusals(events, PROCESS_CLOCK);
  });

  afterEach(() => {
    vi.useRealTimers();
  });

  /** It is heard every half second for so long. */
  function refusedFor(
    ms: number,
    words = 'OOM command not allowed',
    client: readonly [string, boolean] = ONE_SERVER,
  ): void {
    for (let i = 0; i <= ms; i += 500) {
      refusals.heard(refusals.explain(replyError(words), ...client));
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
    refusedFor(10_000, words, OF_A_CLUSTER);
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
