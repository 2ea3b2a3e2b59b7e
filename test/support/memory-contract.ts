// The contract of all locks, on servers in memory: in virtual time, which passes while nothing else happens.
import { afterAll, beforeAll, vi } from 'vitest';
import { Holdfast, type HoldfastOptions } from '../../src/index.js';
import { MemoryRedis } from '../../src/testing/memory-redis.js';
import { kindOf, redlockKind, type KindName } from './lock-contract-kinds.js';
import { lockContract } from './lock-contract.js';

export function memoryContract(name: KindName): void {
  inVirtualTime();
  const redis = new MemoryRedis();
  lockContract(name, kindOf(name, onServer(redis)), 'virtual');
}

export function memoryRedlockContract(name: 'Redlock' | 'fenced Redlock'): void {
  inVirtualTime();
  const redis = new MemoryRedis();
  const servers = [redis, ...[1, 2].map(() => new MemoryRedis({ timeOf: redis }))];
  const newClients = (options: Partial<HoldfastOptions>): Holdfast[] =>
    servers.map((server) => onServer(server)(options));
  const options = name === 'Redlock' ? { restartGuard: false as const } : {};
  lockContract(name, redlockKind(name, newClients, options), 'virtual');
}

function onServer(redis: MemoryRedis): (options: Partial<HoldfastOptions>) => Holdfast {
  return (options) => new Holdfast({ redis, wait: Infinity, ...options });
}

function inVirtualTime(): void {
  beforeAll(() => {
    vi.useFakeTimers();
    vi.setTimerTickMode('nextTimerAsync');
  });
  afterAll(() => {
    vi.useRealTimers();
  });
}
