// Each kind of lock keeps the contract of all locks, on a server in memory.
import { afterAll, beforeAll, vi } from 'vitest';
import { Holdfast, type HoldfastOptions } from '../../../src/index.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { lockContracts, redlockContracts } from '../../support/lock-contract.js';

// With a real server the contract sleeps on real timers; here all time is fake, and passes while nothing else happens.
vi.mock('node:timers/promises', () => ({
  setTimeout: (ms: number) => new Promise((resolve) => setTimeout(resolve, ms)),
}));

beforeAll(() => {
  vi.useFakeTimers();
  vi.setTimerTickMode('nextTimerAsync');
});

afterAll(() => {
  vi.useRealTimers();
});

const redis = new MemoryRedis();
const others = [1, 2].map(() => new MemoryRedis({ timeOf: redis }));
const newClient = (options: Partial<HoldfastOptions>): Holdfast =>
  new Holdfast({ redis, ...options });

lockContracts(newClient);

redlockContracts(
  (options) => [redis, ...others].map((each) => newClient({ ...options, redis: each })),
  { restartGuard: false },
  {},
);
