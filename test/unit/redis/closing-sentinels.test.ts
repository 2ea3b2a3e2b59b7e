// How often a Sentinel is connected to that closes each connection.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Events } from '../../../src/api/events.js';
import { RedisClient } from '../../../src/redis/client.js';
import { LostError } from '../../../src/redis/failure.js';
import type { Library } from '../../../src/redis/port.js';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

type Sentinel = 'closes after its handshake' | 'closes when it has answered' | 'is well';

/** How often each of these Sentinels is connected to in 5 s. The master that they name is well. */
async function connectedTo(...sentinels: readonly Sentinel[]): Promise<number[]> {
  const counts = sentinels.map(() => 0);
  const library: Library = {
    target: {
      kind: 'sentinel',
      name: 'it',
      database: 0,
      sentinels: sentinels.map((_, index) => ({ host: 'sentinel', port: index })),
      isFixed: true,
      remap: () => undefined,
    },
    keyPrefix: '',
    open: (address, purpose, heard) => {
      const port = purpose === 'sentinel' && 'port' in address ? address.port : NaN;
      if (purpose === 'sentinel') counts[port]!++;
      const does = sentinels[port] ?? 'is well';
      const end = (): void => {
        heard.ended(new LostError());
      };
      setTimeout(heard.ready, 1);
      if (does === 'closes after its handshake') setTimeout(end, 2);
      return {
        bytesRead: 1,
        isTls: false,
        send: (command, _args, read) => {
          if (does === 'closes after its handshake') return new Promise(() => undefined);
          if (does === 'closes when it has answered') setTimeout(end, 1);
          const reply = command === 'sentinel' ? ['master', '1'] : 'redis_version:7.0.15';
          return Promise.resolve(read(reply));
        },
        subscribe: () => undefined,
        unsubscribe: () => undefined,
        gather: () => undefined,
        flush: () => undefined,
        close: () => Promise.resolve(),
      };
    },
  };
  const events = { emit: () => true, outage: () => undefined } as Partial<Events> as Events;
  const options = { silenceLimitMs: 10_000, commandTimeoutMs: 10_000, replicas: 0 };
  const client = new RedisClient({ library: { ...library, random: () => 1 }, ...options }, events);
  await vi.advanceTimersByTimeAsync(5_000);
  await client.close();
  return counts;
}

it.each<Sentinel>(['closes after its handshake', 'closes when it has answered'])(
  'the only Sentinel, which %s, is connected to ever less often',
  async (closes) => {
    const [count] = await connectedTo(closes);
    expect(count).toBeGreaterThan(4);
    expect(count).toBeLessThan(15);
  },
);

it.each<Sentinel>(['closes after its handshake', 'closes when it has answered'])(
  'a Sentinel that %s, beside one that is well, is connected to ever less often',
  async (closes) => {
    const [count, countOfOther] = await connectedTo(closes, 'is well');
    expect(count).toBeGreaterThan(4);
    expect(count).toBeLessThan(15);
    expect(countOfOther).toBe(1);
  },
);
