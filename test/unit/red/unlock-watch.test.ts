// The unlock messages of several masters: one release wakes once, and none is missed.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Master } from '../../../src/locks/redlock/master.js';
import { UnlockWatch } from '../../../src/locks/redlock/redlock.js';
import type { ChannelListener, Subscription } from '../../../src/waiting/channels.js';

class FakeMaster {
  #listener: ChannelListener | undefined;
  readonly lock = {
    subscribeToUnlocks: (listener: ChannelListener): Subscription => {
      this.#listener = listener;
      return { isSubscribed: true, mayHaveMissed: () => false, close: () => undefined };
    },
  };

  tell(): void {
    this.#listener!.message('0');
  }
}

let masters: FakeMaster[];
let heard: number;

beforeEach(() => {
  vi.useFakeTimers();
  masters = Array.from({ length: 5 }, () => new FakeMaster());
  heard = 0;
  new UnlockWatch(masters as unknown as Master[], 3, 50, {
    subscribed: () => undefined,
    message: () => heard++,
  });
});

afterEach(() => {
  vi.useRealTimers();
});

function tell(...indexes: number[]): void {
  for (const index of indexes) masters[index]!.tell();
}

it('wakes once for a release of which all tell, when most have', () => {
  tell(0, 1);
  expect(heard).toBe(0);
  tell(2);
  expect(heard).toBe(1);
  vi.advanceTimersByTime(40); // those far away
  tell(3, 4);
  vi.advanceTimersByTime(1_000);
  expect(heard).toBe(1);
});

it('wakes for a release of which few tell, a moment later', () => {
  tell(4);
  expect(heard).toBe(0);
  vi.advanceTimersByTime(10);
  expect(heard).toBe(1);
});

it('hears a master that told nothing of the release before', () => {
  tell(0, 1, 2);
  vi.advanceTimersByTime(50);
  tell(3, 4);
  vi.advanceTimersByTime(10);
  expect(heard).toBe(2);
});
