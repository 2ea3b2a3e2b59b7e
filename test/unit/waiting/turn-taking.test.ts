// How long a client that has released a lock stands back for others who want it.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Line, TURN_MS, FairnessBetweenClients } from '../../../src/waiting/line.js';
import { settle } from '../../support/occupancy.js';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

/** Of those in line one has it. */
function turnsOfHolder(): FairnessBetweenClients {
  const turns = new FairnessBetweenClients();
  turns.granted();
  return turns;
}

describe('turns', () => {
  it('are awaited of all who listen, and after that of as many as came last time', () => {
    const turns = turnsOfHolder();
    expect(turns.released(3)).toBe(3);
    expect([turns.othersReleased(), turns.othersReleased()]).toEqual([false, false]);
    turns.granted(); // two of three wanted it
    expect(turns.released(3)).toBe(2);
  });

  it('are awaited of half as many when nobody came: whoever wants it may be slow', () => {
    const turns = turnsOfHolder();
    const awaited = Array.from({ length: 4 }, () => {
      const count = turns.released(4);
      turns.granted();
      return count;
    });
    expect(awaited).toEqual([4, 2, 1, 0]);
  });

  it('are awaited of one more when somebody else still has it after all have had theirs', () => {
    const turns = turnsOfHolder();
    turns.released(2);
    turns.othersReleased();
    turns.granted();
    expect(turns.released(2)).toBe(1);
    expect(turns.othersReleased()).toBe(true);
    turns.stillHeld();
    turns.granted();
    expect(turns.released(2)).toBe(2);
  });

  it('are not awaited after a release of what those in line did not have', () => {
    const turns = turnsOfHolder();
    turns.released(2);
    expect(turns.released(2)).toBeUndefined();
    expect([turns.othersReleased(), turns.othersReleased()]).toEqual([false, true]); // as before
  });

  it('are awaited of all who listen every 16th time, though nobody came of late', () => {
    const turns = turnsOfHolder();
    const awaited = Array.from({ length: 32 }, () => {
      const count = turns.released(2);
      turns.granted();
      return count;
    });
    expect(awaited.filter((count) => count === 2)).toHaveLength(3); // the first time, the 16th and the 32nd
    expect(new Set(awaited.slice(2))).toEqual(new Set([0, 2]));
  });

  it('are awaited of nobody when nobody listens', () => {
    expect(turnsOfHolder().released(0)).toBe(0);
  });

  it('do not count our own message, which comes soon or never', () => {
    const turns = new FairnessBetweenClients();
    expect(turns.takeOwnMessage()).toBe(false);
    turns.expectOwnMessage();
    expect([turns.takeOwnMessage(), turns.takeOwnMessage()]).toEqual([true, false]);
    turns.expectOwnMessage();
    vi.advanceTimersByTime(1_000);
    expect(turns.takeOwnMessage()).toBe(false);
  });
});

describe('a line whose client has released the lock', () => {
  let isHeldHere: boolean;
  let answers: (() => void)[];
  let line: Line;
  const verify = vi.fn();

  beforeEach(() => {
    isHeldHere = true;
    answers = [];
    verify.mockClear();
    line = new Line({
      lookEveryMs: 10_000,
      turns: turnsOfHolder(),
      get localHolder() {
        return isHeldHere ? { holder: 'us:1', holderTtlMs: 1_000 } : undefined;
      },
      verify,
      subscribe: () => ({ isSubscribed: true, mayHaveMissed: () => false, close: () => undefined }),
      roundTrip: () => new Promise<void>((resolve) => answers.push(resolve)),
      onEmpty: () => undefined,
    });
  });

  /** Two in line, and then so many others hear of the release. */
  function released(others: number): { mayTry: () => boolean } {
    const first = line.queue();
    line.queue();
    isHeldHere = false;
    line.released(others);
    return { mayTry: () => first.mayTry };
  }

  it('tries at once when nobody else listens', () => {
    expect(released(0).mayTry()).toBe(true);
  });

  it('tries when all others who listen have released it, or a while has gone by since the last of them did', () => {
    const first = released(2);
    line.message();
    expect(first.mayTry()).toBe(false);
    vi.advanceTimersByTime(TURN_MS - 1);
    expect(first.mayTry()).toBe(false);
    line.message();
    expect(first.mayTry()).toBe(true);
  });

  it('tries when a turn has gone by in which nobody released it', () => {
    const first = released(2);
    line.message();
    vi.advanceTimersByTime(TURN_MS);
    expect(first.mayTry()).toBe(true);
  });

  it('stands back for one more release at most after a try that came too early, however many listen', () => {
    const sleeper = line.queue();
    isHeldHere = false;
    line.released(11);
    vi.advanceTimersByTime(TURN_MS);
    sleeper.stillHeld(30_000);
    let heard = 0;
    for (; !sleeper.mayTry && heard < 20; heard++) line.message();
    expect(heard).toBe(1);
    sleeper.leave();
  });

  it('is woken by the next release where the server did not count its own subscription', () => {
    const sleeper = line.queue();
    isHeldHere = false;
    line.released(-1);
    expect(sleeper.mayTry).toBe(true);
    sleeper.stillHeld(30_000);
    line.message();
    expect(sleeper.mayTry).toBe(true);
    sleeper.leave();
  });

  it('of newcomers owes nothing to those who waited here before', () => {
    const turns = turnsOfHolder();
    const make = (): Line =>
      new Line({
        lookEveryMs: 10_000,
        turns,
        subscribe: () => ({
          isSubscribed: true,
          mayHaveMissed: () => false,
          close: () => undefined,
        }),
        onEmpty: () => undefined,
      });
    const before = make();
    const gaveUp = before.queue();
    before.released(3);
    gaveUp.leave();
    const anew = make();
    const newcomer = anew.join(performance.now(), 30_000);
    anew.message();
    expect(newcomer.mayTry).toBe(true);
    newcomer.leave();
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
  ])('has no pause left over from before it had it, when it %s', (_, end) => {
    const [first, second] = [line.queue(), line.queue()];
    isHeldHere = false;
    line.released(3);
    vi.advanceTimersByTime(TURN_MS);
    line.message(); // during the try, which succeeds
    first.leave(30_000);
    end();
    expect(second.mayTry).toBe(true);
    second.leave();
  });

  it('does not stand back for longer when another caller of its client gives back what it had for a moment', () => {
    const first = released(2);
    vi.advanceTimersByTime(TURN_MS - 1);
    line.released(2); // by one who stands in no line
    vi.advanceTimersByTime(1);
    expect(first.mayTry()).toBe(true);
  });

  it('goes on to stand back when it tried before all had released it, and somebody else still had it', () => {
    const sleeper = line.queue();
    isHeldHere = false;
    line.released(2);
    vi.advanceTimersByTime(TURN_MS);
    expect(sleeper.mayTry).toBe(true);
    line.message(); // during the try: the first of two
    sleeper.stillHeld(1_000);
    expect(sleeper.mayTry).toBe(false);
    line.message();
    expect(sleeper.mayTry).toBe(true);
    sleeper.leave();
  });

  it('is not kept waiting by its own message, nor woken by it', () => {
    line.releasing();
    const first = released(1);
    line.message(); // its own
    expect(first.mayTry()).toBe(false);
    line.message();
    expect(first.mayTry()).toBe(true);
  });

  it('tries when the answers to two questions are here, where nobody came last time', async () => {
    const turns = turnsOfHolder();
    turns.released(1);
    turns.granted();
    const calm = new Line({
      lookEveryMs: 10_000,
      turns,
      subscribe: () => ({ isSubscribed: true, mayHaveMissed: () => false, close: () => undefined }),
      roundTrip: () => new Promise<void>((resolve) => answers.push(resolve)),
      onEmpty: () => undefined,
    });
    const first = calm.queue();
    calm.released(1);
    for (const count of [1, 2]) {
      expect([first.mayTry, answers.length]).toEqual([false, count]);
      answers.at(-1)?.();
      await settle();
    }
    expect(first.mayTry).toBe(true);
  });

  it('looks for itself in the end, though no message comes and no answer', () => {
    const turns = turnsOfHolder();
    turns.released(1);
    turns.granted();
    const deaf = new Line({
      lookEveryMs: 10_000,
      turns,
      subscribe: () => ({ isSubscribed: true, mayHaveMissed: () => false, close: () => undefined }),
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

  it('wakes nobody while its client has the lock, and finds out whether it still has when somebody released it', () => {
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
