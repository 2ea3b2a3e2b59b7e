// Clients whose callers all want one lock, each again as soon as it has released it.
import type { Holdfast } from '../../src/index.js';
import { uniqueName } from './unique-name.js';

export interface Contention {
  /** How many callers each client has. */
  readonly callers: number;
  /** How long each hold lasts, in milliseconds; 0: for one turn of the event loop. */
  readonly holdMs: number;
  readonly forMs: number;
}

/** How often each of the clients has had the lock. */
export async function contend(
  clients: readonly Holdfast[],
  { callers, holdMs, forMs }: Contention,
): Promise<number[]> {
  const name = uniqueName();
  const counts = clients.map(() => 0);
  await Promise.all(clients.map((client) => client.ping()));
  const endsAt = performance.now() + forMs;
  const hold = (): Promise<void> =>
    new Promise((resolve) => {
      if (holdMs === 0) setImmediate(resolve);
      else setTimeout(resolve, holdMs);
    });
  const call = async (client: Holdfast, index: number): Promise<void> => {
    while (performance.now() < endsAt)
      await client.getLock(name).withLock(async () => {
        counts[index]!++;
        await hold();
      });
  };
  const calls = clients.flatMap((client, index) =>
    Array.from({ length: callers }, () => call(client, index)),
  );
  await Promise.all(calls);
  return counts;
}

/** The share of the client that had the lock least often: 1 is an even share. */
export function leastShare(counts: readonly number[]): number {
  const sum = counts.reduce((before, count) => before + count, 0);
  return (Math.min(...counts) * counts.length) / sum;
}
