// Looks at the servers past all proxies, all the time: who has which lock there.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { grouped } from './grouped.js';
import { Takeovers } from './takeovers.js';
import { booksOf, liveHolders, type Books, type Ledger } from './books.js';
import { LockKeys } from '../../../src/redis/keys.js';
import { machineMs } from '../../support/time.js';
import { isWeighted, type Plan } from '../plan.js';
import type { StageServer } from '../stage/server.js';

/** What a server said of a lock at some instant between `from` and `until`. */
export interface Look {
  readonly from: number;
  readonly until: number;
  readonly server: number;
  readonly lock: string;
  /** Nobody, or one; of a semaphore or a read-write lock perhaps several. Who has lapsed is none. */
  readonly holders: readonly Holder[];
  readonly ttlMs: number;
  /** Of a semaphore or a read-write lock that is in use. */
  readonly books?: Books | undefined;
  /** The last fencing token; undefined: it knows of none. */
  readonly counter?: bigint | undefined;
}

export interface Holder {
  readonly owner: string;
  /** How often it holds the lock; of a semaphore or a read-write lock how many permits. */
  readonly count: number;
}

/** The look's entry of this owner, if it was a holder. */
export function heldBy({ holders }: Look, owner: string | undefined): Holder | undefined {
  return holders.find((holder) => holder.owner === owner);
}

/** The looks at which each owner was a holder, and what was said of it. */
export function looksByOwner(looks: readonly Look[]): Map<string, { look: Look; count: number }[]> {
  const entries = looks.flatMap((look) => look.holders.map((holder) => ({ look, ...holder })));
  return grouped(entries, ({ owner }) => owner);
}

const LOOK_EVERY_MS = 8;
const SLOW_MS = 50;

export class Observer implements AsyncDisposable {
  readonly looks: Look[] = [];
  readonly takeovers: Takeovers;
  readonly #plan: Plan;
  readonly #watched: { server: StageServer; connection: Redis }[];
  readonly #looking: Promise<unknown>;
  #isOver = false;

  constructor(servers: readonly StageServer[], plan: Plan) {
    this.#plan = plan;
    this.takeovers = new Takeovers(plan.topology);
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
    const keys = new LockKeys(lock);
    const asked = connection.multi().role().hgetall(lock).pttl(lock);
    if (fencing) asked.get(keys.counter(topology === 'cluster'));
    const hasLedger = isWeighted(this.#plan);
    if (hasLedger)
      asked
        .time()
        .zrange(keys.leases, '0', '-1', 'WITHSCORES')
        .zrange(keys.line, '0', '0')
        .hgetall(keys.places);
    const replies = await asked.exec();
    const until = machineMs();
    if (!replies || replies.some(([error]) => error)) return;
    const [role, fields, ttlMs, ...rest] = replies.map(([, reply]) => reply) as [
      unknown[],
      Record<string, string>,
      number,
      ...unknown[],
    ];
    const isMaster = role[0] === 'master';
    this.takeovers.say(index, isMaster, from, until);
    if (!isMaster) return;
    const seen = { from, until, server: index, lock, ttlMs };
    if (hasLedger) {
      const ledger = [fields, ...rest] as unknown as Ledger;
      this.looks.push({ ...seen, holders: liveHolders(ledger), books: booksOf(ledger) });
      return;
    }
    const holders = Object.entries(fields).map(([owner, count]) => ({
      owner,
      count: Number(count),
    }));
    const [last] = rest as (string | null)[];
    const counter = last == null ? undefined : BigInt(last);
    this.looks.push({ ...seen, holders, counter });
  }
}
