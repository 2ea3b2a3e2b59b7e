// Releases that passed a grant on: what proves them, and what does not.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { LockLostError, UnavailableError } from '../../../src/api/errors.js';
import type { GrantedLock } from '../../../src/core/protocol.js';
import { Listeners } from '../../../src/core/events.js';
import { Relay } from '../../../src/core/grant.js';
import { Session } from '../../../src/core/session.js';
import { alwaysReady } from '../../support/fake-holdfast.js';
import { settle } from '../../support/occupancy.js';

/** Fewer than fill a chain. */
const FEW = 1;
const MANY = 100;

let asked: { found: (count: number) => void }[];
let relay: Relay;
let session: Session;
const gone = vi.fn();

beforeEach(() => {
  vi.useFakeTimers();
  asked = [];
  gone.mockClear();
  const options = { clientId: 'me', lockWatchdogTimeoutMs: 30_000, commandTimeoutMs: 1_000 };
  session = new Session(options, alwaysReady, new Listeners());
  const holdCount = (): Promise<number> =>
    new Promise((found) => {
      asked.push({ found });
    });
  relay = new Relay(session, { name: 'a', holdCount } as unknown as GrantedLock, 'me:1', 0, gone);
});

afterEach(() => {
  session.schedule.stop();
  vi.useRealTimers();
});

/** What became of it: nothing so far, fulfilled, or the error. */
function outcome(promise: Promise<void>): { now: unknown } {
  const seen = { now: undefined as unknown };
  promise.then(
    () => (seen.now = 'released'),
    (error: unknown) => (seen.now = error),
  );
  return seen;
}

describe('a release that passed the grant on', () => {
  it('is settled by a question that was asked after it, one at a time', async () => {
    const first = outcome(relay.passed(FEW));
    expect(asked).toHaveLength(1);
    const second = outcome(relay.passed(FEW));
    expect(asked).toHaveLength(1);
    asked[0]?.found(1);
    await settle();
    expect([first.now, second.now]).toEqual(['released', undefined]); // that was asked before the second
    expect(asked).toHaveLength(2);
    asked[1]?.found(2);
    await settle();
    expect(second.now).toBe('released');
    expect(asked).toHaveLength(2);
  });

  it('is not asked about while enough are in line to go on to the end; only after a while', async () => {
    const first = outcome(relay.passed(MANY));
    expect(asked).toHaveLength(0);
    await vi.advanceTimersByTimeAsync(2);
    expect(asked).toHaveLength(1);
    asked[0]?.found(1);
    await settle();
    expect(first.now).toBe('released');
  });

  it('is settled by the release at the end', async () => {
    const all = Array.from({ length: 5 }, () => outcome(relay.passed(MANY)));
    relay.end();
    await vi.advanceTimersByTimeAsync(10);
    expect(asked).toHaveLength(0);
    relay.settle();
    await settle();
    expect(all.map(({ now }) => now)).toEqual(new Array(5).fill('released'));
    expect(vi.getTimerCount()).toBeLessThanOrEqual(1); // the schedule's
  });

  it('is lost when the grant is found to be gone before it was released', async () => {
    const first = outcome(relay.passed(FEW));
    asked[0]?.found(0);
    await settle();
    expect(gone).toHaveBeenCalledOnce();
    expect(first.now).toBeUndefined();
    const error = new LockLostError('gone', { lockName: 'a', lossReason: 'deleted' });
    relay.settle(error);
    await settle();
    expect(first.now).toBe(error);
  });

  it('is not lost when the grant is found to be gone after its release was sent: that answer decides', async () => {
    const first = outcome(relay.passed(FEW));
    relay.end();
    asked[0]?.found(0);
    await settle();
    expect(gone).not.toHaveBeenCalled();
    expect(first.now).toBeUndefined();
    relay.settle();
    await settle();
    expect(first.now).toBe('released');
  });

  it('is told that Redis did not answer when it stays silent for commandTimeout', async () => {
    const first = outcome(relay.passed(FEW));
    await vi.advanceTimersByTimeAsync(500);
    const second = outcome(relay.passed(FEW));
    await vi.advanceTimersByTimeAsync(600);
    expect(first.now).toBeInstanceOf(UnavailableError);
    expect(second.now).toBeUndefined();
    await vi.advanceTimersByTimeAsync(1_100);
    expect(second.now).toBeInstanceOf(UnavailableError);
  });
});

describe('a grant', () => {
  it('may be passed on 16 times', () => {
    const passes = Array.from({ length: 20 }, () => {
      if (!relay.mayPass) return false;
      outcome(relay.passed(MANY));
      return true;
    });
    expect(passes.filter(Boolean)).toHaveLength(16);
  });

  it('may be passed on for 10 ms', () => {
    expect(relay.mayPass).toBe(true);
    vi.advanceTimersByTime(11);
    expect(relay.mayPass).toBe(false);
  });
});
