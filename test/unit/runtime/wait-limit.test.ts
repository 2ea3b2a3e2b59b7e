// Turns and limits: first come first served, until the time is up, the signal aborts or the client closes.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { WaitEnded, WaitLimit } from '../../../src/runtime/wait-limit.js';
import { Turns } from '../../../src/scopes/turns.js';
import { expectPending, settle } from '../../support/occupancy.js';

const forever = new Promise<void>(() => undefined);

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

function patient(): WaitLimit {
  return new WaitLimit({ limitMs: Infinity });
}

describe('patience', () => {
  it('ends what it is waiting for when the time is up', async () => {
    const waitLimit = new WaitLimit({ limitMs: 100 });
    const waiting = expect(waitLimit.within(forever)).rejects.toMatchObject({ ending: 'timeout' });
    await vi.advanceTimersByTimeAsync(101);
    await waiting;
    await expect(waitLimit.within(forever)).rejects.toBeInstanceOf(WaitEnded);
  });

  it('lets an answer that was there in time win over a timer that is late', async () => {
    const waitLimit = new WaitLimit({ limitMs: 100 });
    const answer = new Promise<string>((resolve) => setTimeout(resolve, 100, 'answer'));
    const waiting = waitLimit.within(answer);
    await vi.advanceTimersByTimeAsync(200);
    expect(await waiting).toBe('answer');
  });

  it('waits for longer than a timer can', async () => {
    const waitLimit = new WaitLimit({ limitMs: 2 ** 31 + 1_000 });
    const waiting = waitLimit.within(forever);
    const over = expect(waiting).rejects.toMatchObject({ ending: 'timeout' });
    await vi.advanceTimersByTimeAsync(2 ** 31 - 1);
    await expectPending(waiting);
    await vi.advanceTimersByTimeAsync(1_010);
    await over;
  });

  it('ends when the signal aborts, and listens no longer once disposed', async () => {
    const aborter = new AbortController();
    const removed = vi.spyOn(aborter.signal, 'removeEventListener');
    const waitLimit = new WaitLimit({ limitMs: Infinity, signal: aborter.signal });
    const waiting = expect(waitLimit.within(forever)).rejects.toMatchObject({ ending: 'aborted' });
    aborter.abort();
    await waiting;
    waitLimit.dispose();
    expect(removed).toHaveBeenCalledOnce();
  });

  it('is in its registry until disposed, and leaves no timer', () => {
    const registry = new Set<WaitLimit>();
    const waitLimit = new WaitLimit({ limitMs: 100, registry });
    expect(registry.size).toBe(1);
    waitLimit.dispose();
    expect(registry.size).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('keeps the first of two endings', async () => {
    const waitLimit = patient();
    waitLimit.end('closed');
    waitLimit.end('timeout');
    await expect(waitLimit.within(forever)).rejects.toMatchObject({ ending: 'closed' });
  });

  it('sleeps until the promise resolves, or until it shall look again', async () => {
    const waitLimit = patient();
    expect(await waitLimit.sleep(Promise.resolve())).toBe(true);
    const sleeping = waitLimit.sleep(forever);
    waitLimit.lookAgain();
    expect(await sleeping).toBe(false);
  });

  it('that shall look again before it sleeps does not sleep, once', async () => {
    const waitLimit = patient();
    waitLimit.lookAgain();
    expect(await waitLimit.sleep(forever)).toBe(false);
    await expectPending(waitLimit.sleep(forever));
  });

  it('a pause that is ended early leaves no timer', async () => {
    const waitLimit = patient();
    const pausing = expect(waitLimit.pause(1_000)).rejects.toBeInstanceOf(WaitEnded);
    waitLimit.end('closed');
    await pausing;
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('patience that spares an attempt', () => {
  const sparing = (limitMs: number): WaitLimit => new WaitLimit({ limitMs, sparesAttempts: true });
  const answerAfter = (ms: number): Promise<string> =>
    new Promise((resolve) => setTimeout(resolve, ms, 'answer'));

  it('has it for 100 ms since it was sent, and then no longer', async () => {
    const waitLimit = sparing(5);
    const attempt = waitLimit.attempt(() => forever);
    const over = expect(attempt).rejects.toMatchObject({ ending: 'timeout' });
    await vi.advanceTimersByTimeAsync(98);
    await expectPending(attempt);
    expect(waitLimit.isOverdue).toBe(true);
    expect(waitLimit.leftMs).toBeGreaterThan(0);
    await vi.advanceTimersByTimeAsync(5);
    await over;
    expect(waitLimit.leftMs).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('counts from the end of the turn in which it begins', async () => {
    const waitLimit = sparing(100);
    const over = expect(waitLimit.attempt(() => forever)).rejects.toBeInstanceOf(WaitEnded);
    vi.advanceTimersByTime(90); // no time for anything else in this turn
    await settle();
    expect(waitLimit.leftMs).toBe(100);
    await vi.advanceTimersByTimeAsync(110);
    await over;
  });

  it('does not prolong a wait for anything else', async () => {
    const waitLimit = sparing(50);
    expect(await waitLimit.attempt(() => Promise.resolve('answer'))).toBe('answer');
    const over = expect(waitLimit.sleep(forever)).rejects.toMatchObject({ ending: 'timeout' });
    await vi.advanceTimersByTimeAsync(52);
    await over;
  });

  it('waits in no line after an attempt that was answered late, and begins no time anew', async () => {
    const waitLimit = sparing(5);
    const attempt = waitLimit.attempt(() => answerAfter(60));
    await vi.advanceTimersByTimeAsync(60);
    expect(await attempt).toBe('answer');
    const again = expect(waitLimit.attempt(() => forever)).rejects.toBeInstanceOf(WaitEnded);
    await vi.advanceTimersByTimeAsync(45);
    await again;
    await expect(waitLimit.sleep(forever)).rejects.toMatchObject({ ending: 'timeout' });
  });

  it('ends a sleep at once when the time is over by then', async () => {
    const waitLimit = sparing(5);
    const attempt = waitLimit.attempt(() => answerAfter(60));
    await vi.advanceTimersByTimeAsync(60);
    await attempt;
    await expect(waitLimit.sleep(forever)).rejects.toMatchObject({ ending: 'timeout' });
    waitLimit.dispose();
  });

  it('goes on for a look that is unanswered, until it is', async () => {
    const waitLimit = sparing(5);
    let isKnown = false;
    waitLimit.lookBeforeEnd(() => isKnown);
    const sleeping = waitLimit.sleep(forever);
    const over = expect(sleeping).rejects.toMatchObject({ ending: 'timeout' });
    await vi.advanceTimersByTimeAsync(30);
    await expectPending(sleeping);
    isKnown = true;
    await vi.advanceTimersByTimeAsync(6);
    await over;
  });

  it('is no longer than the time for everything else: an abort ends it at once', async () => {
    const aborter = new AbortController();
    const { signal } = aborter;
    const waitLimit = new WaitLimit({ limitMs: 5, signal, sparesAttempts: true });
    const over = expect(waitLimit.attempt(() => forever)).rejects.toMatchObject({
      ending: 'aborted',
    });
    await vi.advanceTimersByTimeAsync(20);
    aborter.abort();
    await over;
    waitLimit.dispose();
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('turns', () => {
  it('are taken in the order in which they were asked for', async () => {
    const turns = new Turns();
    const order: number[] = [];
    const all = [1, 2, 3].map(async (who) => {
      await turns.take(patient());
      order.push(who);
      await settle();
      turns.pass();
    });
    await Promise.all(all);
    expect(order).toEqual([1, 2, 3]);
    expect(turns.isTaken).toBe(false);
  });

  it('one that gives up leaves the queue', async () => {
    const turns = new Turns();
    turns.tryTake();
    const impatient = new WaitLimit({ limitMs: 100 });
    const given = expect(turns.take(impatient)).rejects.toBeInstanceOf(WaitEnded);
    const next = turns.take(patient());
    await vi.advanceTimersByTimeAsync(101);
    await given;
    turns.pass();
    expect(await next).toBe(true);
  });

  it('one that gives up in the instant in which it has its turn passes it on', async () => {
    const turns = new Turns();
    turns.tryTake();
    const impatient = patient();
    const given = expect(turns.take(impatient)).rejects.toBeInstanceOf(WaitEnded);
    const next = turns.take(patient());
    await settle();
    impatient.end('aborted');
    turns.pass();
    await given;
    expect(await next).toBe(true);
    turns.pass();
    expect(turns.isTaken).toBe(false);
  });

  it('one that shall look again leaves the queue, also in the instant of its turn', async () => {
    const turns = new Turns();
    turns.tryTake();
    const curious = patient();
    const given = turns.take(curious);
    await settle();
    curious.lookAgain();
    turns.pass();
    expect(await given).toBe(false);
    expect(turns.isTaken).toBe(false);
  });

  it('disturbed, all in the queue look again', async () => {
    const turns = new Turns();
    turns.tryTake();
    const waiting = Promise.all([turns.take(patient()), turns.take(patient())]);
    await settle();
    turns.disturb();
    expect(await waiting).toEqual([false, false]);
    expect(turns.isTaken).toBe(true);
  });

  it('tell when a turn has ended and the next one, if anybody waits for it, has begun', async () => {
    const areTaken: boolean[] = [];
    const turns: Turns = new Turns(() => areTaken.push(turns.isTaken));
    turns.tryTake();
    const next = turns.take(patient());
    turns.pass();
    await next;
    expect(areTaken).toEqual([true]);
    turns.pass();
    expect(areTaken).toEqual([true, false]);
  });
});
