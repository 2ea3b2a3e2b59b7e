// A read-write lock on a server in memory, as one client uses it, and what the server knows of it.
import { expect, onTestFinished, vi } from 'vitest';
import {
  Holdfast,
  type HoldfastOptions,
  type Lock,
  type ReadWriteLock,
  type WarningEvent,
} from '../../src/index.js';
import { MemoryRedis } from '../../src/testing/memory-redis.js';
import { eventsOf } from './clients.js';
import { TappedRedis } from './tapped-redis.js';

export interface MemoryReadWriteLock {
  readonly redis: MemoryRedis;
  /** What the client sends. */
  readonly tap: TappedRedis;
  readonly client: Holdfast;
  readonly readLock: Lock;
  readonly writeLock: Lock;
  readonly run: Holdfast['run'];
  readonly detach: Holdfast['detach'];
  /** The same lock, as another client uses it. */
  readonly theirs: ReadWriteLock;
  readonly warnings: readonly WarningEvent[];
  /** Who has it: `RR`, `W`, or nothing. */
  readonly held: () => string;
  /** Lets everything happen that takes no time. */
  readonly settle: () => Promise<void>;
  /** Fails unless the promise is still undecided after that. */
  readonly expectPending: (promise: Promise<unknown>) => Promise<void>;
}

/** To be called in a test; its clients are closed when that has ended. */
export async function readWriteInMemory(
  options: Partial<HoldfastOptions> = {},
): Promise<MemoryReadWriteLock> {
  vi.useFakeTimers({ toFake: ['Date', 'performance'] }); // time passes by advance() alone
  const redis = new MemoryRedis();
  const tap = new TappedRedis(redis);
  const source = tap as unknown as HoldfastOptions['redis'];
  const client = new Holdfast({ redis: source, clientId: 'me', ...options });
  const other = new Holdfast({ redis, clientId: 'other' });
  client.on('error', () => undefined);
  onTestFinished(async () => {
    await Promise.all([client.close(), other.close()]);
    vi.useRealTimers();
  });
  await client.ping();
  const lock = client.getReadWriteLock('a');
  const settle = (): Promise<void> => redis.advance(0);
  return {
    redis,
    tap,
    client,
    readLock: lock.readLock(),
    writeLock: lock.writeLock(),
    run: client.run.bind(client),
    detach: client.detach.bind(client),
    theirs: other.getReadWriteLock('a'),
    warnings: eventsOf(client, 'warning'),
    held: () =>
      redis
        .holders('a')
        .map(({ access }) => (access === 'write' ? 'W' : 'R'))
        .join(''),
    settle,
    expectPending: async (promise) => {
      let state = 'pending';
      promise.then(
        () => (state = 'resolved'),
        () => (state = 'rejected'),
      );
      await settle();
      expect(state).toBe('pending');
    },
  };
}
