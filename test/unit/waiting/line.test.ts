// The waiting line of one client for one lock: which waiter is woken, when, and that no wake-up is lost.
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
    subscribe: () => ({ mayHaveMissed: () => mayHaveMissed, close: closed }),
    onEmpty: emptied,
  });
});

afterEach(() => {
  vi.useRealTimers();
});

/** Adds `count` waiters, behind a holder whose lease lasts another `ttlMs`. */
function join(count: number, ttlMs = 30_000): LineEntry[] {
  return Array.from({ length: count }, () => line.join(performance.now(), ttlMs));
}

/** The indexes of the waiters whose sleep is over. */
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
  it('wakes the first waiter, and only that one', async () => {
    const places = join(3);
    line.message();
    expect(await woken(places)).toEqual([0]);
    expect(mayTry(places)).toEqual([true, false, false]);
  });

  it('during a try allows one more try, since the first may have been too early', () => {
    const places = join(2);
    line.message();
    line.message();
    places[0]!.stillHeld(30_000);
    expect(mayTry(places)).toEqual([true, false]);
    places[0]!.stillHeld(30_000);
    expect(mayTry(places)).toEqual([false, false]);
  });

  it('during a try goes to the next waiter when the trying one leaves without the lock', () => {
    const places = join(2);
    line.message();
    line.message();
    places[0]!.leave();
    expect(mayTry(places)).toEqual([false, true]);
  });

  it('during a query goes to the next waiter when the asking one leaves; without a message nobody tries in its place', () => {
    const places = join(3);
    places[2]!.look(0);
    expect(mayTry(places)).toEqual([true, false, false]);
    places[0]!.leave(); // the answer to its query is shared when it comes
    expect(mayTry(places)).toEqual([false, false, false]);
    places[2]!.look(0);
    line.message();
    places[1]!.leave();
    expect(mayTry(places)).toEqual([false, false, true]);
  });

  it('makes a query share a try that has just begun; behind an older try the query is sent as well', () => {
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

  it('during a try lets the next waiter try when the trying one gets the lock', () => {
    const places = join(2);
    line.message();
    line.message();
    places[0]!.leave(30_000);
    expect(mayTry(places)).toEqual([false, true]);
  });
});

describe('a woken waiter', () => {
  it('that finds the lock still held keeps the first place', async () => {
    const places = join(2);
    line.message();
    places[0]!.stillHeld(30_000);
    expect(await woken(places)).toEqual([]);
    line.message();
    expect(mayTry(places)).toEqual([true, false]);
  });

  it('that leaves without the lock passes the wake-up on', async () => {
    const places = join(3);
    line.message();
    places[0]!.leave();
    expect(await woken(places.slice(1))).toEqual([0]);
  });

  it('sleeps again when another one gets the lock first, and has the next turn', async () => {
    const places = join(2);
    line.message();
    places[1]!.goOn();
    expect(await woken(places)).toEqual([1]);
    expect(mayTry(places)).toEqual([false, true]);
    places[1]!.leave(30_000);
    expect(await woken(places.slice(0, 1))).toEqual([]);
    line.message();
    expect(await woken(places.slice(0, 1))).toEqual([0]);
  });

  it('that gets the lock wakes nobody', async () => {
    const places = join(2);
    line.message();
    places[0]!.leave(30_000);
    expect(await woken(places.slice(1))).toEqual([]);
  });
});

describe('a waiter that defers to other clients', () => {
  const deferring = (deferMs: number, sinceMs = performance.now()): LineEntry =>
    line.join(performance.now(), 30_000, { sinceMs, deferMs: () => deferMs });

  it('is woken after the deferral, and no other waiter meanwhile', async () => {
    const places = [deferring(50), ...join(1)];
    line.message();
    vi.advanceTimersByTime(49);
    expect(await woken(places)).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(await woken(places)).toEqual([0]);
    expect(mayTry(places)).toEqual([true, false]);
  });

  it('and leaves meanwhile passes the wake-up on and leaves no timer', () => {
    const places = [deferring(50), ...join(1)];
    line.message();
    places[0]!.leave();
    expect(mayTry(places)).toEqual([false, true]);
    places[1]!.leave();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('stays behind those that have waited longer', () => {
    const places = [deferring(0, performance.now() + 1), deferring(0, performance.now() - 1)];
    line.message();
    expect(mayTry(places)).toEqual([false, true]);
  });
});

it('a waiter that leaves without having been woken wakes nobody', async () => {
  const places = join(2);
  places[0]!.leave();
  expect(await woken(places.slice(1))).toEqual([]);
  line.message();
  expect(places[1]!.mayTry).toBe(true);
});

describe('when no message comes', () => {
  it("one waiter tries when the holder's lease ends, and again when the next holder's does", () => {
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

  it('one waiter tries when the lease that another waiter acquired ends', () => {
    const places = join(2, 500);
    line.message();
    places[0]!.leave(900);
    vi.advanceTimersByTime(899);
    expect(places[1]!.mayTry).toBe(false);
    vi.advanceTimersByTime(1);
    expect(places[1]!.mayTry).toBe(true);
  });

  it('a waiter that joins later does not postpone the try', () => {
    const places = [...join(1, 500), ...join(1, 30_000)];
    vi.advanceTimersByTime(500);
    expect(mayTry(places)).toEqual([true, false]);
  });

  it.each([
    ['without expiry', -1],
    ['whose lease goes on for long', 30_000],
  ])('the first waiter polls a lock %s', (_what, ttlMs) => {
    const places = join(2, ttlMs);
    for (let look = 0; look < 3; look++) {
      vi.advanceTimersByTime(9_999);
      expect(mayTry(places)).toEqual([false, false]);
      vi.advanceTimersByTime(1);
      expect(mayTry(places)).toEqual([true, false]);
      places[0]!.stillHeld(ttlMs);
    }
    places[0]!.leave(30_000); // it acquired the lock: the next waiter is first
    vi.advanceTimersByTime(10_000);
    expect(mayTry(places)).toEqual([false, true]);
  });
});

describe('the subscription', () => {
  it('wakes the first waiter when it is confirmed, and after each reconnect', () => {
    const places = join(2);
    line.subscribed();
    expect(mayTry(places)).toEqual([true, false]);
  });

  it("wakes a waiter that joins at once if it may have missed a message since that one's try", () => {
    mayHaveMissed = true;
    expect(mayTry(join(1))).toEqual([true]);
  });

  it('begins with an answer "held" where the line had none: a message that overtook that answer allows one more try', () => {
    const queued = line.queue(); // this client has the lock, so the line does not listen yet
    line.free();
    mayHaveMissed = true;
    queued.stillHeld(30_000);
    expect(mayTry([queued])).toEqual([true]);
    queued.stillHeld(30_000);
    expect(mayTry([queued])).toEqual([false]); // from now on the line hears each message itself
  });

  it('is closed when the last waiter leaves, and no timer remains', () => {
    const places = join(2);
    places[0]!.leave();
    expect(closed).not.toHaveBeenCalled();
    places[1]!.leave();
    expect(closed).toHaveBeenCalledOnce();
    expect(emptied).toHaveBeenCalledOnce();
    expect(vi.getTimerCount()).toBe(0);
  });
});
