// A master whose replicas have to acknowledge what it is told, and connections to see what each of them knows.
import { Redis } from 'ioredis';
import { afterEach, beforeEach } from 'vitest';
import { startReplicated, type Replicated } from './redis-topologies.js';

interface ReplicatedServers {
  readonly servers: Replicated;
  readonly master: Redis;
  /** The first one. */
  readonly replica: Redis;
}

/** For each test of the `describe` that this is called in; returns the present test's. The replica learns everything `delayMs` later. */
export function replicatedPerTest({ delayMs = 0 } = {}): () => ReplicatedServers {
  let present: ReplicatedServers;
  beforeEach(async () => {
    const servers = await startReplicated({ delayMs });
    const master = new Redis(servers.master.url);
    const replica = new Redis(servers.replicas[0]!.url);
    present = { servers, master, replica };
    await Promise.all([master.ping(), replica.ping()]);
  }, 60_000);
  afterEach(async () => {
    const { servers, master, replica } = present;
    master.disconnect();
    replica.disconnect();
    await servers[Symbol.asyncDispose]();
  });
  return () => present;
}
