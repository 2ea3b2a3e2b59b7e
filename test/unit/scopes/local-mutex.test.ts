// The mutex within a process: first come first served, one at a time, or several that share.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { WaitLimit } from '../../../src/runtime/wait-limit.js';
import { LocalMutex } from '../../../src/scopes/local-mutex.js';
import { settle } from '../../support/occupancy.js';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

/** The callers that want a turn, as letters: a small one wants a shared turn. */
class Callers {
  readonly turns = new LocalMutex(() => this.eased++);
  /** The callers that have a turn. */
  readonly inside: string[] = [];
  eased = 0;

  async come(who: string, waitLimit = new WaitLimit({ limitMs: Infinity })): Promise<void> {
    const hasTurn = await this.turns.take(waitLimit, who === who.toLowerCase()).finally(() => {
      waitLimit.dispose();
    });
    if (hasTurn) this.inside.push(who);
  }

  async all(...names: string[]): Promise<string> {
    for (const who of names) void this.come(who).catch(() => undefined);
    return await this.now();
  }

  async go(who: string): Promise<string> {
    this.inside.splice(this.inside.indexOf(who), 1);
    this.turns.pass();
    return await this.now();
  }

  async now(): Promise<string> {
    await settle();
    return this.inside.join('');
  }
}

describe('turns', () => {
  it('that are not shared go one at a time, in order', async () => {
    const callers = new Callers();
    expect(await callers.all('A', 'B', 'C')).toBe('A');
    expect(callers.turns.tryTake()).toBe(false);
    expect(await callers.go('A')).toBe('B');
    expect(await callers.go('B')).toBe('C');
    expect(await callers.go('C')).toBe('');
    expect(callers.turns.isTaken).toBe(false);
  });

  it('that are shared overlap, and nobody overtakes', async () => {
    const callers = new Callers();
    expect(await callers.all('a', 'b', 'C', 'd', 'e', 'F')).toBe('ab');
    expect(callers.turns.tryTake(true)).toBe(false); // C came before
    expect(callers.turns.isExclusive).toBe(false);
    expect(await callers.go('a')).toBe('b');
    expect(await callers.go('b')).toBe('C');
    expect(callers.turns.isExclusive).toBe(true);
    expect(await callers.go('C')).toBe('de');
    expect(await callers.go('e')).toBe('d');
    expect(await callers.go('d')).toBe('F');
  });

  it('that become shared let in the next callers, up to the first that is not shared', async () => {
    const callers = new Callers();
    expect(await callers.all('A', 'b', 'c', 'D', 'e')).toBe('A');
    callers.turns.share();
    expect(await callers.now()).toBe('Abc');
    expect(callers.turns.tryTake(true)).toBe(false);
    await callers.go('A');
    await callers.go('b');
    expect(await callers.go('c')).toBe('D');
  });

  it.each(['times out', 'aborts', 'looks again'])(
    'are given to the callers behind when the one that waits to be alone %s',
    async (how) => {
      const callers = new Callers();
      const aborter = new AbortController();
      const waitLimit = new WaitLimit({
        limitMs: how === 'times out' ? 500 : Infinity,
        signal: aborter.signal,
      });
      await callers.all('a');
      const waiting = callers.come('B', waitLimit).catch(() => 'ended');
      expect(await callers.all('c', 'd', 'E')).toBe('a');
      if (how === 'looks again') waitLimit.lookAgain();
      else aborter.abort();
      if (how === 'times out') await vi.advanceTimersByTimeAsync(510);
      await waiting;
      expect(await callers.now()).toBe('acd');
    },
  );

  it.each(['B', 'b'])('that come at the moment in which %s gives up are passed on', async (who) => {
    const callers = new Callers();
    const waitLimit = new WaitLimit({ limitMs: Infinity });
    await callers.all('A');
    const waiting = callers.come(who, waitLimit).catch(() => 'ended');
    await callers.all('C');
    callers.inside.length = 0;
    waitLimit.end('aborted'); // and, before that is seen:
    callers.turns.pass();
    expect(await waiting).toBe('ended');
    expect(await callers.now()).toBe('C');
    await callers.go('C');
    expect(callers.turns.isTaken).toBe(false);
  });

  it('of callers that were let in are visible to the callback about it', async () => {
    const seen: boolean[] = [];
    const turns = new LocalMutex(() => seen.push(turns.isTaken, turns.isExclusive));
    turns.tryTake();
    turns.share();
    expect(seen.splice(0)).toEqual([true, false]);
    turns.pass();
    expect(seen.splice(0)).toEqual([false, false]);
    turns.tryTake(true);
    const waitLimit = new WaitLimit({ limitMs: Infinity });
    const next = turns.take(waitLimit);
    turns.pass();
    expect(seen).toEqual([true, true]);
    await next;
    waitLimit.dispose();
  });
});
