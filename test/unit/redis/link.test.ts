// A link to a server that is not ready to be used: what is told of why.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { ClientListener, RedisClient } from '../../../src/redis/driver.js';
import { replyError } from '../../../src/redis/failure.js';
import { Link } from '../../../src/redis/link.js';

const SILENCE_LIMIT_MS = 1_000;
const BUSY = replyError('BUSY Redis is busy running a script.');

const failed = vi.fn();
const greet = vi.fn<() => Promise<void>>();
let client: ClientListener;
let link: Link;

beforeEach(() => {
  vi.useFakeTimers();
  vi.resetAllMocks();
  const fake: Partial<RedisClient> = {
    isReady: true,
    bytesRead: 0,
    listen: (listener) => (client = listener),
    reconnect: () => undefined,
    close: () => Promise.resolve(),
  };
  const limits = { silenceLimitMs: SILENCE_LIMIT_MS, longestSilenceMs: SILENCE_LIMIT_MS };
  link = new Link(fake as RedisClient, limits, { outage: () => undefined, failed, greet });
});

afterEach(async () => {
  await link.close();
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

it('a server that refuses for now to be greeted is why there is no connection', async () => {
  greet.mockRejectedValue(BUSY);
  client.connected();
  client.ready();
  await vi.advanceTimersByTimeAsync(10);
  expect(link.status).toBe('connecting');
  expect(link.lastError).toBe(BUSY);
  await vi.advanceTimersByTimeAsync(SILENCE_LIMIT_MS);
  expect(failed.mock.calls).toEqual([[BUSY]]); // not that there was no handshake
  expect(link.lastError).toBe(BUSY);
});

it('until it has been greeted', async () => {
  greet.mockRejectedValueOnce(BUSY).mockResolvedValue();
  client.connected();
  client.ready();
  await vi.advanceTimersByTimeAsync(100);
  expect(link.status).toBe('ready');
  expect(link.lastError).toBeUndefined();
});
