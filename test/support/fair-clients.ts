// The line of one fair lock and the clients that use it, new for each test.
import type { Redis } from 'ioredis';
import { afterEach, beforeEach } from 'vitest';
import type { FairLock, Holdfast } from '../../src/index.js';
import { newClient } from './clients.js';
import { FairLine } from './fair-line.js';

/**
 * For each test of the file, or of the `describe`, that this is called in; returns the present test's. A test fails if it
 * leaves anything of the line behind.
 */
export function fairClientsPerTest<Clients extends Record<string, Holdfast>>(
  redis: Redis,
  connect: () => Clients | Promise<Clients>,
): () => Clients & { readonly line: FairLine } {
  let line: FairLine;
  let clients: Clients;
  beforeEach(async () => {
    line = new FairLine(redis);
    clients = await connect();
  });
  afterEach(async () => {
    await line.isGone();
    await Promise.all(Object.values(clients).map((client) => client.close()));
  });
  return () => ({ ...clients, line });
}

interface TwoFairClients {
  readonly line: FairLine;
  readonly client: Holdfast;
  readonly other: Holdfast;
  /** The client's, and the other's. */
  readonly lock: FairLock;
  readonly others: FairLock;
}

/** The same with two of them, whose leases are longer than a test. */
export function twoFairClientsPerTest(redis: Redis): () => TwoFairClients {
  const clients = fairClientsPerTest(redis, () => ({
    client: newClient({ lockWatchdogTimeout: 30_000 }),
    other: newClient({ lockWatchdogTimeout: 30_000 }),
  }));
  return () => {
    const { line, client, other } = clients();
    return { line, client, other, lock: line.lockOf(client), others: line.lockOf(other) };
  };
}
