// A master of a cluster that cannot be reached, while nobody needs it.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Events } from '../../../src/api/events.js';
import { RedisClient } from '../../../src/redis/client.js';
import { LostError } from '../../../src/redis/failure.js';
import type { Heard, Library } from '../../../src/redis/port.js';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

/** Two masters, each of which has half of the slots. */
class TwoMasters {
  /** Whether the second one is up. */
  isUp = true;
  /** How often the second one was connected to. */
  attempts = 0;
  lookUps = 0;
  #ofSecond: Heard | undefined;

  readonly library: Library = {
    target: {
      kind: 'cluster',
      startup: [{ host: 'node', port: 1 }],
      remap: () => undefined,
      refreshMs: 0,
    },
    keyPrefix: '',
    open: (address, _purpose, heard) => {
      const isSecond = 'port' in address && address.port === 2;
      if (isSecond) {
        this.attempts++;
        this.#ofSecond = heard;
      }
      setTimeout(() => {
        if (isSecond && !this.isUp) heard.ended(new LostError());
        else heard.ready();
      }, 1);
      return {
        bytesRead: 1,
        isTls: false,
        send: (command, _args, read) => Promise.resolve(read(this.#replyTo(command))),
        subscribe: () => undefined,
        unsubscribe: () => undefined,
        gather: () => undefined,
        flush: () => undefined,
        close: () => Promise.resolve(),
      };
    },
  };

  goesDown(): void {
    this.isUp = false;
    this.#ofSecond?.ended(new LostError());
  }

  #replyTo(command: string): unknown {
    if (command !== 'cluster') return 'redis_version:7.0.15';
    this.lookUps++;
    return [
      [0, 8_191, ['node', 1]],
      [8_192, 16_383, ['node', 2]],
    ];
  }
}

it('it is tried ever less often, and found when it is back', async () => {
  const masters = new TwoMasters();
  const { library } = masters;
  const events = { emit: () => true, outage: () => undefined } as Partial<Events> as Events;
  const options = { silenceLimitMs: 60_000, commandTimeoutMs: 60_000, replicas: 0 };
  const client = new RedisClient({ library: { ...library, random: () => 1 }, ...options }, events);
  await vi.advanceTimersByTimeAsync(1_000);
  await Promise.all([client.ping(new Set()), vi.advanceTimersByTimeAsync(10)]);
  expect(client.status).toBe('ready');
  expect(masters).toMatchObject({ attempts: 1, lookUps: 1 });

  masters.goesDown();
  expect(client.status).toBe('degraded');
  await vi.advanceTimersByTimeAsync(10_000);
  expect(client.status).toBe('degraded');
  for (const count of [masters.attempts, masters.lookUps]) {
    expect(count).toBeGreaterThan(5);
    expect(count).toBeLessThan(25);
  }

  masters.isUp = true;
  await vi.advanceTimersByTimeAsync(2_000);
  expect(client.status).toBe('ready');
  const { attempts, lookUps } = masters;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(masters).toMatchObject({ attempts, lookUps });
  await client.close();
});
