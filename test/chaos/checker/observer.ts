// Looks at the servers past all proxies, all the time: who has which lock there.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { LockKeys } from '../../../src/redis/keys.js';
import { machineMs } from '../../support/machine-clock.js';
import type { Plan } from '../plan.js';
import type { StageServer } from '../stage/server.js';

/** What a server said of a lock at some instant between `from` and `until`. */
export interface Look {
  readonly from: number;
  readonly until: number;
  readonly server: number;
  readonly lock: string;
  /** undefined: nobody has it. */
  readonly owner: string | undefined;
  readonly count: number;
  readonly ttlMs: number;
  /** The last fencing token; undefined: it knows of none. */
  readonly counter?: bigint | undefined;
}

const LOOK_EVERY_MS = 8;
const SLOW_MS = 50;

export class Observer implements AsyncDisposable {
  readonly looks: Look[] = [];
  readonly #plan: Plan;
  readonly #watched: { server: StageServer; connection: Redis }[];
  readonly #looking: Promise<unknown>;
  #isOver = false;

  constructor(servers: readonly StageServer[], plan: Plan) {
    this.#plan = plan;
    this.#watched = servers.map((server) => ({ server, connection: server.connection() }));
    this.#looking = Promise.all(this.#watched.map((watched) => this.#watch(watched)));
  }

  /** Whether a server, or this machine, took so long to answer that a client may have given up, now and then. */
  isSlowSince(at: number): boolean {
    const since = this.looks.slice(this.looks.findLastIndex(({ until }) => until < at) + 1);
    return since.filter(({ from, until }) => until - from > SLOW_MS).length > 2;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true;
    for (const { connection } of this.#watched) connection.disconnect();
    await this.#looking;
  }

  async #watch({ server, connection }: { server: StageServer; connection: Redis }): Promise<void> {
    while (!this.#isOver) {
      // It is down, or does not serve this lock: it says nothing.
      for (const lock of this.#plan.locks)
        await this.#look(server, connection, lock).catch(() => undefined);
      await sleep(LOOK_EVERY_MS);
    }
  }

  async #look({ index }: StageServer, connection: Redis, lock: string): Promise<void> {
    const from = machineMs();
    // In a transaction, so that all of it is about one instant.
    const { fencing, topology } = this.#plan;
    const asked = connection.multi().role().hgetall(lock).pttl(lock);
    if (fencing) asked.get(new LockKeys(lock).counter(topology === 'cluster'));
    const replies = await asked.exec();
    const until = machineMs();
    if (!replies || replies.some(([error]) => error)) return;
    const [[, role], [, fields], [, ttlMs], last] = replies as [unknown, unknown][] as [
      [null, unknown[]],
      [null, Record<string, string>],
      [null, number],
      [null, string | null] | undefined,
    ];
    if (role[0] !== 'master') return;
    const [[owner, count] = []] = Object.entries(fields);
    const held = { owner, count: Number(count ?? 0), ttlMs };
    const counter = last?.[1] == null ? undefined : BigInt(last[1]);
    this.looks.push({ from, until, server: index, lock, ...held, counter });
  }
}
