// The line of one client for one lock: who is woken, when, and that no wake-up is lost.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Line, type LineEntry } from '../../../src/waiting/line.js';
import { settle } from '../../support/occupancy.js';

let line: Line;
let mayHaveMissed = false;
const closed = vi.fn();
const emptied = vi.fn();

beforeEach(() => {
  vi.useFakeTimers();
  vi.clearAllMocks();
  mayHaveMissed = false;
  line = new Line({
    lookEveryMs: 10_000,
    subscribe: () => ({ isSubscribed: true, mayHaveMissed: () => mayHaveMissed, close: closed }),
    onEmpty: emptied,
  });
});

afterEach(() => {
  vi.useRealTimers();
});

/** Joins so many, behind a holder whose lease goes on for `ttlMs`. */
function join(count: number, ttlMs = 30_000): LineEntry[] {
  return Array.from({ length: count }, () => line.join(performance.now(), ttlMs));
}

/** The indexes of those whose sleep is over. */
async function woken(places: readonly LineEntry[]): Promise<number[]> {
  const indexes: number[] = [];
  for (const [index, place] of places.entries()) void place.woken.then(() => indexes.push(index));
  await settle();
  return indexes;
}

function mayTry(places: readonly LineEntry[]): boolean[] {
  return places.map((place) => place.mayTry);
}

describe('a message', () => {
  it('wakes the first in line, and only that one', async () => {
    const places = join(3);
    line.message();
    expect(await woken(places)).toEqual([0]);
    expect(mayTry(places)).toEqual([true, false, false]);
  });

  it('while somebody tries counts for one more try, since that one may have been too early', () => {
    const places = join(2);
    line.message();
    line.message();
    places[0]!.stillHeld(30_000);
    expect(mayTry(places)).toEqual([true, false]);
    places[0]!.stillHeld(30_000);
    expect(mayTry(places)).toEqual([false, false]);
  });

  it('while somebody tries who then leaves without the lock goes to the next', () => {
    const places = join(2);
    line.message();
    line.message();
    places[0]!.leave();
    expect(mayTry(places)).toEqual([false, true]);
  });

  it('while somebody looks who then leaves goes to the next; without one nobody tries in its place', () => {
    const places = join(3);
    places[2]!.look(0);
    expect(mayTry(places)).toEqual([true, false, false]);
    places[0]!.leave(); // its answer is shared when it comes
    expect(mayTry(places)).toEqual([false, false, false]);
    places[2]!.look(0);
    line.message();
    places[1]!.leave();
    expect(mayTry(places)).toEqual([false, false, true]);
  });

  it('is not needed by a look while a young try is on its way; after one that is too old somebody looks', () => {
    const places = join(2);
    line.message();
    places[1]!.look(0);
    places[0]!.stillHeld(30_000);
    expect(mayTry(places)).toEqual([false, false]);
    line.message();
    places[1]!.look(Infinity);
    expect(mayTry(places)).toEqual([true, false]);
    places[0]!.stillHeld(30_000);
    expect(mayTry(places)).toEqual([true, false]);
    places[0]!.leave();
    expect(mayTry(places)).toEqual([false, false]);
  });

  it('while somebody tries who gets the lock lets the next try', () => {
    const places = join(2);
    line.message();
    line.message();
    places[0]!.leave(30_000);
    expect(mayTry(places)).toEqual([false, true]);
  });
});

describe('whoever was woken', () => {
  it('and found it still held keeps the first place', async () => {
    const places = join(2);
    line.message();
    places[0]!.stillHeld(30_000);
    expect(await woken(places)).toEqual([]);
    line.message();
    expect(mayTry(places)).toEqual([true, false]);
  });

  it('and gives up passes the wake-up on', async () => {
    const places = join(3);
    line.message();
    places[0]!.leave();
    expect(await woken(places.slice(1))).toEqual([0]);
  });

  it('and gets the lock wakes nobody', async () => {
    const places = join(2);
    line.message();
    places[0]!.leave(30_000);
    expect(await woken(places.slice(1))).toEqual([]);
  });
});

describe('whoever defers to others', () => {
  const deferring = (deferMs: number, sinceMs = performance.now()): LineEntry =>
    line.join(performance.now(), 30_000, { sinceMs, deferMs: () => deferMs });

  it('is woken so much later, and nobody else meanwhile', async () => {
    const places = [deferring(50), ...join(1)];
    line.message();
    vi.advanceTimersByTime(49);
    expect(await woken(places)).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(await woken(places)).toEqual([0]);
    expect(mayTry(places)).toEqual([true, false]);
  });

  it('and gives up meanwhile passes the wake-up on, and leaves no timer', () => {
    const places = [deferring(50), ...join(1)];
    line.message();
    places[0]!.leave();
    expect(mayTry(places)).toEqual([false, true]);
    places[1]!.leave();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('is still behind those who have waited for longer', () => {
    const places = [deferring(0, performance.now() + 1), deferring(0, performance.now() - 1)];
    line.message();
    expect(mayTry(places)).toEqual([false, true]);
  });
});

it('one that leaves without having been woken wakes nobody', async () => {
  const places = join(2);
  places[0]!.leave();
  expect(await woken(places.slice(1))).toEqual([]);
  line.message();
  expect(places[1]!.mayTry).toBe(true);
});

describe('when no message comes', () => {
  it('one tries when the holder’s lease is over, and again when the next one is', () => {
    const places = join(100, 500);
    vi.advanceTimersByTime(499);
    expect(places.filter((place) => place.mayTry)).toHaveLength(0);
    vi.advanceTimersByTime(1);
    expect(mayTry(places)[0]).toBe(true);
    places[0]!.stillHeld(700);
    vi.advanceTimersByTime(699);
    expect(places.filter((place) => place.mayTry)).toHaveLength(0);
    vi.advanceTimersByTime(1);
    expect(mayTry(places)[0]).toBe(true);
  });

  it('one tries when the lease of the one who got it is over', () => {
    const places = join(2, 500);
    line.message();
    places[0]!.leave(900);
    vi.advanceTimersByTime(899);
    expect(places[1]!.mayTry).toBe(false);
    vi.advanceTimersByTime(1);
    expect(places[1]!.mayTry).toBe(true);
  });

  it('somebody who joins later does not put the try off', () => {
    const places = [...join(1, 500), ...join(1, 30_000)];
    vi.advanceTimersByTime(500);
    expect(mayTry(places)).toEqual([true, false]);
  });

  it.each([
    ['without expiry', -1],
    ['whose lease goes on for long', 30_000],
  ])('a lock %s is looked at every now and then, by the first', (_what, ttlMs) => {
    const places = join(2, ttlMs);
    for (let look = 0; look < 3; look++) {
      vi.advanceTimersByTime(9_999);
      expect(mayTry(places)).toEqual([false, false]);
      vi.advanceTimersByTime(1);
      expect(mayTry(places)).toEqual([true, false]);
      places[0]!.stillHeld(ttlMs);
    }
    places[0]!.leave(30_000); // acquired: the next one is first
    vi.advanceTimersByTime(10_000);
    expect(mayTry(places)).toEqual([false, true]);
  });
});

describe('the subscription', () => {
  it('once confirmed, or anew after a reconnect, wakes the first', () => {
    const places = join(2);
    line.subscribed();
    expect(mayTry(places)).toEqual([true, false]);
  });

  it('that may have missed a message since the try wakes at once', () => {
    mayHaveMissed = true;
    expect(mayTry(join(1))).toEqual([true]);
  });

  it('is closed with the last place, and no timer stays', () => {
    const places = join(2);
    places[0]!.leave();
    expect(closed).not.toHaveBeenCalled();
    places[1]!.leave();
    expect(closed).toHaveBeenCalledOnce();
    expect(emptied).toHaveBeenCalledOnce();
    expect(vi.getTimerCount()).toBe(0);
  });
});
