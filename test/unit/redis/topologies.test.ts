// How often a client connects to unhealthy Sentinels, masters and nodes of a cluster.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Events } from '../../../src/api/events.js';
import { RedisClient } from '../../../src/redis/client.js';
import { LostError } from '../../../src/redis/failure.js';
import {
  textOf,
  type Address,
  type Heard,
  type Purpose,
  type Target,
} from '../../../src/redis/port.js';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

/** The fate of one connection; it is ready after 1 ms unless `ready` is false. */
interface Fate {
  readonly ready?: boolean;
  /** The answer to a command; left out: none. */
  readonly replyTo?: (command: string) => unknown;
}

/** A client whose connections behave as `fateOf` says. */
function clientOf(
  target: Target,
  fateOf: (address: string, purpose: Purpose, heard: Heard) => Fate,
): RedisClient {
  const open = (address: Address, purpose: Purpose, heard: Heard) => {
    const { ready = true, replyTo } = fateOf(textOf(address), purpose, heard);
    setTimeout(() => {
      if (ready) heard.ready();
      else heard.ended(new LostError());
    }, 1);
    const send = <T>(command: string, _args: unknown, read: (reply: unknown) => T): Promise<T> =>
      replyTo ? Promise.resolve(read(replyTo(command))) : new Promise(() => undefined);
    const silent = (): void => undefined;
    const others = { subscribe: silent, unsubscribe: silent, gather: silent, flush: silent };
    return { bytesRead: 1, isTls: false, send, ...others, close: () => Promise.resolve() };
  };
  const events = {
    emit: () => true,
    outage: () => undefined,
    publish: () => undefined,
    hears: () => false,
  } as Partial<Events> as Events;
  const options = { silenceLimitMs: 60_000, commandTimeoutMs: 60_000, replicas: 0 };
  const library = { target, keyPrefix: '', open, random: () => 1 };
  return new RedisClient({ library, ...options }, events);
}

function bySentinels(count: number): Target {
  const sentinels = Array.from({ length: count }, (_, port) => ({ host: 'sentinel', port }));
  const [name, database, isFixed] = ['it', 0, true] as const;
  return { kind: 'sentinel', name, database, sentinels, isFixed, remap: () => undefined };
}

const FEW = [5, 14] as const;

it.each([
  { closes: 'after its handshake', others: 0 },
  { closes: 'when it has answered', others: 0 },
  { closes: 'after its handshake', others: 1 },
  { closes: 'when it has answered', others: 1 },
])(
  'a Sentinel that closes each connection $closes, beside $others healthy ones, gets ever fewer connections',
  async ({ closes, others }) => {
    const counts = [0, 0];
    const client = clientOf(bySentinels(1 + others), (address, purpose, heard) => {
      const index = purpose === 'sentinel' ? Number(address.split(':')[1]) : NaN;
      if (purpose === 'sentinel') counts[index]!++;
      const end = (): void => {
        heard.ended(new LostError());
      };
      if (index === 0 && closes === 'after its handshake') {
        setTimeout(end, 2);
        return {};
      }
      return {
        replyTo(command) {
          if (index === 0) setTimeout(end, 1);
          return command === 'sentinel' ? ['master', '1'] : 'redis_version:7.0.15';
        },
      };
    });
    await vi.advanceTimersByTimeAsync(5_000);
    await client.close();
    expect(counts[0]).toBeGreaterThanOrEqual(FEW[0]);
    expect(counts[0]).toBeLessThanOrEqual(FEW[1]);
    expect(counts[1]).toBe(others);
  },
);

it('a client that pauses between attempts connects to the new master as soon as a Sentinel announces it', async () => {
  const tried: string[] = [];
  let master = 'old';
  let sentinel: Heard | undefined;
  const client = clientOf(bySentinels(1), (address, purpose, heard) => {
    if (purpose === 'sentinel') sentinel = heard;
    else tried.push(address);
    return { ready: purpose === 'sentinel', replyTo: () => [master, '1'] };
  });
  await vi.advanceTimersByTimeAsync(5_000); // by now it pauses for 1.25 s
  const before = tried.length;
  expect(new Set(tried)).toEqual(new Set(['old:1']));
  master = 'new';
  sentinel?.message('+switch-master', `it old 1 ${master} 1`);
  await vi.advanceTimersByTimeAsync(5);
  expect(tried.slice(before)).toEqual(['new:1']);
  await client.close();
});

it('a master of a cluster that nobody needs is tried ever less often while it is down, and found when it is back', async () => {
  let [isUp, attempts, lookUps] = [true, 0, 0];
  let second: Heard | undefined;
  const startup = [{ host: 'node', port: 1 }];
  const client = clientOf({ kind: 'cluster', startup, remap: () => undefined }, (at, _, heard) => {
    if (at === 'node:2') {
      attempts++;
      second = heard;
    }
    return {
      ready: isUp || at !== 'node:2',
      replyTo(command) {
        if (command !== 'cluster') return 'redis_version:7.0.15';
        lookUps++;
        return [
          [0, 8_191, ['node', 1]],
          [8_192, 16_383, ['node', 2]],
        ];
      },
    };
  });
  await vi.advanceTimersByTimeAsync(1_000);
  await Promise.all([client.ping(new Set()), vi.advanceTimersByTimeAsync(10)]);
  expect({ status: client.status, attempts, lookUps }).toEqual({
    status: 'ready',
    attempts: 1,
    lookUps: 1,
  });

  isUp = false;
  second?.ended(new LostError());
  expect(client.status).toBe('degraded');
  await vi.advanceTimersByTimeAsync(10_000);
  expect(client.status).toBe('degraded');
  for (const count of [attempts, lookUps]) {
    expect(count).toBeGreaterThan(5);
    expect(count).toBeLessThan(25);
  }

  isUp = true;
  await vi.advanceTimersByTimeAsync(2_000);
  expect(client.status).toBe('ready');
  const before = { attempts, lookUps };
  await vi.advanceTimersByTimeAsync(60_000);
  expect({ attempts, lookUps }).toEqual(before);
  await client.close();
});
