// Takes and releases locks that nobody else wants, and says how long that took.

import { monotonicMs } from '../support/clock.js';
import { quantile } from '../support/statistics.js';
import type { PeerClient } from '../peers/peer.js';
import type { Pairs, PairsOrder } from './messages.js';

export async function pairs(client: PeerClient, order: PairsOrder): Promise<Pairs> {
  const { call, lanes, name, durationMs } = order;
  const operation =
    call === 'withLock'
      ? (key: string) => client.withLock(key, doNothing)
      : async (key: string) => {
          const release = await client.acquire(key);
          await release();
        };
  const tookMs: number[] = [];
  const cpu = process.cpuUsage();
  const startMs = monotonicMs();
  const endMs = startMs + durationMs;
  const lane = async (key: string): Promise<void> => {
    let atMs = monotonicMs();
    do {
      await operation(key);
      const doneMs = monotonicMs();
      tookMs.push(doneMs - atMs);
      atMs = doneMs;
    } while (atMs < endMs);
  };
  await Promise.all(Array.from({ length: lanes }, (_, i) => lane(`${name}:${i}`)));
  const { user, system } = process.cpuUsage(cpu);
  return {
    count: tookMs.length,
    durationMs: monotonicMs() - startMs,
    p50Micros: quantile(tookMs, 0.5) * 1_000,
    p99Micros: quantile(tookMs, 0.99) * 1_000,
    cpuMicros: user + system,
  };
}

async function doNothing(): Promise<void> {
  // The lock is what is measured.
}
