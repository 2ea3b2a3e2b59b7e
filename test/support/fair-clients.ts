// The line of one fair lock and the clients that use it, new for each test.
import type { Redis } from 'ioredis';
import { afterEach, beforeEach } from 'vitest';
import type { Holdfast } from '../../src/index.js';
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
