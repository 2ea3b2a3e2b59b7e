// How long a client that has released a lock stands back for other clients that want it.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Line, TURN_MS, FairnessBetweenClients } from '../../../src/waiting/line.js';
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

describe('the turns that a client gives others', () => {
  it('are one for each listener, and next time as many as came', () => {
    const turns = turnsOfHolder();
    expect(turns.released(3)).toBe(3);
    expect([turns.othersReleased(), turns.othersReleased()]).toEqual([false, false]);
    turns.granted(); // two of three wanted it
    expect(turns.released(3)).toBe(2);
  });

  it('are halved when nobody came, since a client that wants the lock may be slow', () => {
    const turns = turnsOfHolder();
    const awaited = Array.from({ length: 4 }, () => {
      const count = turns.released(4);
      turns.granted();
      return count;
    });
    expect(awaited).toEqual([4, 2, 1, 0]);
  });

  it('are one more when another client still holds the lock after all have had their turns', () => {
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

  it('are none after a release by a caller outside this line', () => {
    const turns = turnsOfHolder();
    turns.released(2);
    expect(turns.released(2)).toBeUndefined();
    expect([turns.othersReleased(), turns.othersReleased()]).toEqual([false, true]); // as before
  });

  it('are one for each listener every 16th time, even if nobody came lately', () => {
    const turns = turnsOfHolder();
    const awaited = Array.from({ length: 32 }, () => {
      const count = turns.released(2);
      turns.granted();
      return count;
    });
    expect(awaited.filter((count) => count === 2)).toHaveLength(3); // the first time, the 16th and the 32nd
    expect(new Set(awaited.slice(2))).toEqual(new Set([0, 2]));
  });

  it('are none when nobody else listens', () => {
    expect(turnsOfHolder().released(0)).toBe(0);
  });

  it('do not include our own message, which comes soon or never', () => {
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
    line.released(others);
    return { mayTry: () => first.mayTry };
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

  it('tries when a turn has passed without a release', () => {
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

  it('of new waiters owes nothing to the listeners of earlier waiters', () => {
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
  ])('has no pause left over from before it acquired the lock, when it %s', (_, end) => {
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

  it('does not stand back longer when another caller of its client releases the lock after a moment', () => {
    const first = released(2);
    vi.advanceTimersByTime(TURN_MS - 1);
    line.released(2); // by a caller that is not in the line
    vi.advanceTimersByTime(1);
    expect(first.mayTry()).toBe(true);
  });

  it('continues to stand back when it tried before all had released the lock, and another client still held it', () => {
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

  it('is neither delayed nor woken by its own message', () => {
    line.releasing();
    const first = released(1);
    line.message(); // its own
    expect(first.mayTry()).toBe(false);
    line.message();
    expect(first.mayTry()).toBe(true);
  });

  it('tries when the answers to two queries have come, where nobody came last time', async () => {
    const turns = turnsOfHolder();
    turns.released(1);
    turns.granted();
    const calm = new Line({
      lookEveryMs: 10_000,
      turns,
      subscribe: () => ({ mayHaveMissed: () => false, close: () => undefined }),
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

  it('polls in the end, even without a message and without an answer', () => {
    const turns = turnsOfHolder();
    turns.released(1);
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
