// Turns and limits: first come first served, until the time is up, the signal aborts or the client closes.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { WaitLimit, WaitEnded } from '../../../src/runtime/wait-limit.js';
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
