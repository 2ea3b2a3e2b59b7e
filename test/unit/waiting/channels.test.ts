// Channels of a closed client, to which other objects may still refer.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Listeners } from '../../../src/core/events.js';
import type { RedisClient } from '../../../src/redis/client.js';
import { PROCESS_CLOCK } from '../../../src/runtime/clock.js';
import { Channels } from '../../../src/waiting/channels.js';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

it('a closed client makes no further subscription and leaves no timer', async () => {
  const connect = vi.fn();
  const client = {
    surroundings: { library: { open: connect }, clock: PROCESS_CLOCK, closing: new Set() },
    listen: vi.fn(),
  };
  const channels = new Channels(client as unknown as RedisClient, new Listeners(), 10_000);
  await channels.close();
  const listener = { subscribed: vi.fn(), message: vi.fn() };
  const subscription = channels.subscribe('orders', () => false, listener);
  expect(channels.isSubscribed('orders')).toBe(false);
  expect(subscription.mayHaveMissed(0)).toBe(false);
  subscription.close();
  expect(vi.getTimerCount()).toBe(0);
  expect(connect).not.toHaveBeenCalled();
});
