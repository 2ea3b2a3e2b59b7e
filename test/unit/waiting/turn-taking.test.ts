// How long a client that has released a lock stands back for other clients that want it.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  Line,
  type LineEntry,
  TURN_MS,
  FairnessBetweenClients,
} from '../../../src/waiting/line.js';
import { settle } from '../../support/occupancy.js';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

/** A caller in this line holds the lock. */
function turnsOfHolder(): FairnessBetweenClients {
  const turns = new FairnessBetweenClients();
  turns.granted();
  return turns;
}

/** This client releases the lock, which `others` other listeners hear. Returns for how many releases by others it waits. */
function release(turns: FairnessBetweenClients, others: number): number {
  turns.releasing(false);
  turns.answered();
  return turns.released(others);
}

describe('the turns that a client gives others', () => {
  it('are one for each listener, and next time as many as came', () => {
    const turns = turnsOfHolder();
    expect(release(turns, 3)).toBe(3);
    expect([turns.othersReleased(), turns.othersReleased()]).toEqual([false, false]);
    turns.granted(); // two of three wanted it
    expect(release(turns, 3)).toBe(2);
  });

  it('are none when nobody came last time', () => {
    const turns = turnsOfHolder();
    const awaited = Array.from({ length: 4 }, () => {
      const count = release(turns, 4);
      turns.granted();
      return count;
    });
    expect(awaited).toEqual([4, 0, 0, 0]);
  });

  it('are as many as came last time, even if that were more than awaited, but one for each listener at most', () => {
    const turns = turnsOfHolder();
    release(turns, 3);
    turns.othersReleased();
    turns.granted();
    const awaited = Array.from({ length: 2 }, () => {
      const count = release(turns, 3);
      for (let came = 0; came < 5; came++) turns.othersReleased();
      turns.granted();
      return count;
    });
    expect(awaited).toEqual([1, 3]);
  });

  it('are one for each listener when more listen than last time: a new one wants the lock', () => {
    const turns = turnsOfHolder();
    const awaited = [1, 1, 2, 2].map((listeners) => {
      const count = release(turns, listeners);
      turns.granted();
      return count;
    });
    expect(awaited).toEqual([1, 0, 2, 0]);
  });

  it('are one for each listener every 16th time, even if nobody came lately', () => {
    const turns = turnsOfHolder();
    const awaited = Array.from({ length: 32 }, () => {
      const count = release(turns, 2);
      turns.granted();
      return count;
    });
    expect(awaited.filter((count) => count === 2)).toHaveLength(3); // the first time, the 16th and the 32nd
    expect(new Set(awaited.slice(2))).toEqual(new Set([0, 2]));
  });

  it('are none when nobody else listens', () => {
    expect(turnsOfHolder().released(0)).toBe(0);
  });

  it('do not include our own message, which comes before the answer, soon after it, or never', () => {
    const turns = new FairnessBetweenClients();
    expect(turns.takeOwnMessage()).toBe(false);
    turns.releasing(true);
    vi.advanceTimersByTime(1_000);
    expect([turns.takeOwnMessage(), turns.takeOwnMessage()]).toEqual([true, false]);
    turns.answered();
    expect(turns.takeOwnMessage()).toBe(false);
    turns.releasing(true);
    turns.answered();
    vi.advanceTimersByTime(1_000);
    expect(turns.takeOwnMessage()).toBe(false);
  });

  it.each([
    [0, true],
    [TURN_MS - 1, true],
    [TURN_MS, false],
  ])('are still owed %i ms after the release: %s', (ms, owes) => {
    const turns = turnsOfHolder();
    release(turns, 1);
    vi.advanceTimersByTime(ms);
    expect(turns.owes).toBe(owes);
  });

  it('are not owed any more when all have had them, or when we have the lock again', () => {
    const turns = turnsOfHolder();
    release(turns, 1);
    turns.othersReleased();
    expect(turns.owes).toBe(false);
    release(turns, 1);
    expect(turns.owes).toBe(true);
    turns.granted();
    expect(turns.owes).toBe(false);
  });
});

describe('a line whose client has released the lock', () => {
  let isHeldHere: boolean;
  let answers: (() => void)[];
  let line: Line;
  let turns: FairnessBetweenClients;
  const verify = vi.fn();

  beforeEach(() => {
    isHeldHere = true;
    answers = [];
    verify.mockClear();
    turns = turnsOfHolder();
    line = new Line({
      lookEveryMs: 10_000,
      turns,
      get localHolder() {
        return isHeldHere ? { holder: 'us:1', holderTtlMs: 1_000 } : undefined;
      },
      verify,
      subscribe: () => ({ mayHaveMissed: () => false, close: () => undefined }),
      roundTrip: () => new Promise<void>((resolve) => answers.push(resolve)),
      onEmpty: () => undefined,
    });
  });

  /** Two callers join the line, then `others` listeners receive the release message. */
  function released(others: number): { mayTry: () => boolean } {
    const first = line.queue();
    line.queue();
    isHeldHere = false;
    turns.releasing(false);
    line.released(others);
    return { mayTry: () => first.mayTry };
  }

  /** A line with one caller, in which a query is answered when the test says so. */
  function calmLine(of: FairnessBetweenClients): { line: Line; first: LineEntry } {
    const calm = new Line({
      lookEveryMs: 10_000,
      turns: of,
      subscribe: () => ({ mayHaveMissed: () => false, close: () => undefined }),
      roundTrip: () => new Promise<void>((resolve) => answers.push(resolve)),
      onEmpty: () => undefined,
    });
    return { line: calm, first: calm.queue() };
  }

  it('tries at once when nobody else listens', () => {
    expect(released(0).mayTry()).toBe(true);
  });

  it('tries when all other listeners have released the lock, or when a while has passed since the last release', () => {
    const first = released(2);
    line.message();
    expect(first.mayTry()).toBe(false);
    vi.advanceTimersByTime(TURN_MS - 1);
    expect(first.mayTry()).toBe(false);
    line.message();
    expect(first.mayTry()).toBe(true);
  });

  it.each([
    [0, 4],
    [1, 3],
    [4, 0],
    [5, 0],
  ])(
    'tries when a turn has passed without a release, the sooner the more there were since its own: %i',
    (count, moreMs) => {
      const first = released(10);
      for (let came = 0; came < count; came++) line.message();
      vi.advanceTimersByTime(TURN_MS + moreMs - 1);
      expect(first.mayTry()).toBe(false);
      vi.advanceTimersByTime(1);
      expect(first.mayTry()).toBe(true);
    },
  );

  it('is woken by the next release if the server did not count its own subscription', () => {
    const sleeper = line.queue();
    isHeldHere = false;
    line.released(-1);
    expect(sleeper.mayTry).toBe(true);
    sleeper.stillHeld(30_000);
    line.message();
    expect(sleeper.mayTry).toBe(true);
    sleeper.leave();
  });

  it.each([
    ['lets others pass while they have not had their turns', 0, false],
    ['owes nothing after a while', TURN_MS, true],
  ])('of new waiters %s', (_, afterMs, mayTry) => {
    const turns = turnsOfHolder();
    const make = (): Line =>
      new Line({
        lookEveryMs: 10_000,
        turns,
        subscribe: () => ({ mayHaveMissed: () => false, close: () => undefined }),
        onEmpty: () => undefined,
      });
    const before = make();
    const gaveUp = before.queue();
    before.released(3);
    gaveUp.leave();
    vi.advanceTimersByTime(afterMs);
    const anew = make();
    const newcomer = anew.join(performance.now(), 30_000);
    anew.message();
    expect(newcomer.mayTry).toBe(mayTry);
    newcomer.leave();
  });

  it('lets others pass for two round trips when a caller comes right after the release', async () => {
    const turns = turnsOfHolder();
    release(turns, 2);
    const { first } = calmLine(turns);
    for (const count of [1, 2]) {
      expect([first.mayTry, answers.length]).toEqual([false, count]);
      answers.at(-1)?.();
      await settle();
    }
    expect(first.mayTry).toBe(true);
    first.stillHeld(30_000);
    first.leave();
  });

  it('lets others pass when a caller comes while the release is under way, and others heard the one before', () => {
    const holder = turnsOfHolder();
    holder.releasing(false);
    expect(holder.owes).toBe(false); // nobody is known to listen
    holder.released(1);
    holder.granted();
    holder.releasing(false);
    expect(holder.owes).toBe(true);
    holder.answered(); // it was not ours any more
    expect(holder.owes).toBe(false);
  });

  it('counts the releases that it hears while nobody waits', () => {
    const turns = turnsOfHolder();
    const { line: empty, first } = calmLine(turns);
    first.leave(30_000);
    turns.releasing(true);
    turns.released(1);
    empty.late(); // its own
    expect(turns.owes).toBe(true);
    empty.late();
    expect(turns.owes).toBe(false);
  });

  it('keeps standing back when another client holds the lock for longer than a turn', () => {
    const sleeper = line.queue();
    isHeldHere = false;
    line.released(3);
    vi.advanceTimersByTime(2 * TURN_MS);
    expect(sleeper.mayTry).toBe(true);
    sleeper.stillHeld(30_000);
    line.message();
    line.message();
    expect(sleeper.mayTry).toBe(false);
    line.message();
    expect(sleeper.mayTry).toBe(true);
    sleeper.leave();
  });

  it.each([
    [
      'released it with nobody else listening',
      () => {
        line.released(0);
      },
    ],
    [
      'lost it',
      () => {
        line.free();
      },
    ],
  ])('has no pause left over from before it acquired the lock, when it %s', (_, end) => {
    const [first, second] = [line.queue(), line.queue()];
    isHeldHere = false;
    line.released(3);
    vi.advanceTimersByTime(2 * TURN_MS);
    line.message(); // during the try, which succeeds
    first.leave(30_000);
    end();
    expect(second.mayTry).toBe(true);
    second.leave();
  });

  it('does not stand back longer when another caller of its client releases the lock after a moment', () => {
    const first = released(2);
    vi.advanceTimersByTime(TURN_MS + 3);
    line.released(2); // by a caller that is not in the line
    vi.advanceTimersByTime(1);
    expect(first.mayTry()).toBe(true);
  });

  it('continues to stand back when it tried before all had released the lock, and another client still held it', () => {
    const sleeper = line.queue();
    isHeldHere = false;
    line.released(2);
    vi.advanceTimersByTime(2 * TURN_MS);
    expect(sleeper.mayTry).toBe(true);
    line.message(); // during the try: the first of two
    sleeper.stillHeld(1_000);
    expect(sleeper.mayTry).toBe(false);
    line.message();
    expect(sleeper.mayTry).toBe(true);
    sleeper.leave();
  });

  it.each(['before', 'after'])(
    'is neither delayed nor woken by its own message %s the answer to its release',
    (when) => {
      turns.releasing(true);
      const sleeper = line.queue();
      isHeldHere = false;
      if (when === 'before') line.message();
      expect(sleeper.mayTry).toBe(false);
      turns.answered();
      line.released(1);
      if (when === 'after') line.message();
      expect(sleeper.mayTry).toBe(false);
      line.message();
      expect(sleeper.mayTry).toBe(true);
      sleeper.leave();
    },
  );

  it("tries a turn later if what it took for its own message was another client's", () => {
    turns.releasing(true);
    const sleeper = line.queue();
    isHeldHere = false;
    line.message(); // the answer to the release never comes
    vi.advanceTimersByTime(2 * TURN_MS);
    expect(sleeper.mayTry).toBe(true);
    sleeper.leave();
  });

  it('tries when the answers to two queries have come, where nobody came last time', async () => {
    release(turns, 1);
    turns.granted();
    const { line: calm, first } = calmLine(turns);
    calm.released(1);
    for (const count of [1, 2]) {
      expect([first.mayTry, answers.length]).toEqual([false, count]);
      answers.at(-1)?.();
      await settle();
    }
    expect(first.mayTry).toBe(true);
  });

  it('polls in the end, even without a message and without an answer', () => {
    const turns = turnsOfHolder();
    release(turns, 1);
    turns.granted();
    const deaf = new Line({
      lookEveryMs: 10_000,
      turns,
      subscribe: () => ({ mayHaveMissed: () => false, close: () => undefined }),
      roundTrip: () => new Promise(() => undefined),
      onEmpty: () => undefined,
    });
    const first = deaf.queue();
    deaf.released(1);
    vi.advanceTimersByTime(10_000);
    expect(first.mayTry).toBe(true);
    first.leave();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('wakes nobody while its client holds the lock, and queries the holder when a release message comes', () => {
    const sleeper = line.queue();
    line.message();
    expect(sleeper.mayTry).toBe(false);
    expect(verify).toHaveBeenCalledOnce();
    vi.advanceTimersByTime(60_000);
    expect(sleeper.mayTry).toBe(false);
    isHeldHere = false;
    line.free();
    expect(sleeper.mayTry).toBe(true);
    sleeper.leave();
    expect(vi.getTimerCount()).toBe(0);
  });
});
