// Tests of replicas and failovers: servers for each test, what Sentinels announce, who gets in first.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach } from 'vitest';
import type { Hold, Lock } from '../../src/index.js';
import { startReplicated, type Replicated, type SentinelSetup } from './redis-topologies.js';

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

// Hears from Sentinels that another server is master, beside the clients that a test is about.

export class SwitchWatch implements AsyncDisposable {
  /** When the first Sentinel announced `+switch-master`; Infinity: none has. */
  announcedAtMs = Infinity;
  /** When the leader of the failover announced `+promoted-slave`; Infinity: it has not. */
  promotionToldAtMs = Infinity;
  /** When a replica first said that it is a master; Infinity: none has. */
  promotedAtMs = Infinity;
  /** The port of that replica. */
  successorPort = 0;
  readonly #listeners: Redis[];
  readonly #replicas: Redis[];
  readonly #timer: NodeJS.Timeout;

  private constructor(listeners: Redis[], replicas: Redis[]) {
    this.#listeners = listeners;
    this.#replicas = replicas;
    for (const sentinel of listeners) {
      sentinel.on('message', (channel: string) => {
        const nowMs = performance.now();
        if (channel === '+switch-master') this.announcedAtMs = Math.min(this.announcedAtMs, nowMs);
        else this.promotionToldAtMs = Math.min(this.promotionToldAtMs, nowMs);
      });
    }
    this.#timer = setInterval(() => {
      for (const replica of replicas) void this.#look(replica);
    }, 5);
  }

  static async open({ sentinels, replicas }: SentinelSetup): Promise<SwitchWatch> {
    const listeners = sentinels.map((at) => new Redis({ ...at, enableReadyCheck: false }));
    await Promise.all(listeners.map((one) => one.subscribe('+switch-master', '+promoted-slave')));
    return new SwitchWatch(
      listeners,
      replicas.map(({ url }) => new Redis(url)),
    );
  }

  /** A connection to the server that was promoted. */
  get successor(): Redis {
    return this.#replicas.find(({ options }) => options.port === this.successorPort)!;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    for (const redis of [...this.#listeners, ...this.#replicas]) redis.disconnect();
    await Promise.resolve();
  }

  async #look(replica: Redis): Promise<void> {
    if (this.promotedAtMs < Infinity) return;
    const [role] = await replica.role();
    if (role !== 'master' || this.promotedAtMs < Infinity) return;
    this.promotedAtMs = performance.now();
    this.successorPort = replica.options.port!;
  }
}

// What tests of a failover share: somebody who gets in as soon as the new master lets anybody.

/** Tries until it gets it, whatever the servers say meanwhile. */
export async function getIn(lock: Lock): Promise<Hold> {
  for (;;) {
    const hold = await lock.tryAcquire({ wait: 200 }).catch(() => undefined);
    if (hold) return hold;
    await sleep(10);
  }
}
