// Queries the servers continuously, past all proxies: the holder of each lock, and which server is master.
import type { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { LockKeys } from '../../../src/redis/keys.js';
import { machineMs } from '../../support/time.js';
import type { Fault } from '../faults.js';
import { isWeighted, type Plan, type Topology } from '../plan.js';
import type { StageServer } from '../stage/server.js';
import { booksOf, liveHolders, type Ledger, type Look } from './looks.js';

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
      // It is down, or does not serve this lock: no answer.
      for (const lock of this.#plan.locks)
        await this.#look(server, connection, lock).catch(() => undefined);
      await sleep(LOOK_EVERY_MS);
    }
  }

  async #look({ index }: StageServer, connection: Redis, lock: string): Promise<void> {
    const from = machineMs();
    // In a transaction, so that all answers are about one instant.
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

// Replicas that take over although nobody asked them to: on an overloaded machine, Sentinel takes a live master for dead.

const NAME = 'a replica takes over by itself';
/** How long before a planned takeover the last query may have been, and how long after it a master may still change. */
const SETTLES_WITHIN_MS = 1_000;

interface Takeover {
  readonly server: number;
  /** When it was still a replica; -Infinity: there were two masters at the first query. */
  readonly from: number;
  /** Until when another server claimed to be master. */
  until: number;
}

export class Takeovers {
  readonly #all: Takeover[] = [];
  readonly #last = new Map<number, { readonly isMaster: boolean; readonly from: number }>();
  readonly #topology: Topology;

  constructor(topology: Topology) {
    this.#topology = topology;
  }

  /** A server's answer about its role, at some instant between `from` and `until`. */
  say(server: number, isMaster: boolean, from: number, until: number): void {
    const last = this.#last.get(server);
    // Before the first query, one of two masters has taken over from the other one.
    const isSecond =
      this.#topology === 'sentinel' &&
      !last &&
      [...this.#last.values()].some((other) => other.isMaster);
    this.#last.set(server, { isMaster, from });
    if (!isMaster) return;
    if (isSecond || last?.isMaster === false)
      this.#all.push({ server, from: last?.from ?? -Infinity, until });
    const present = this.#all.at(-1);
    if (present && present.server !== server && this.#last.get(present.server)?.isMaster)
      present.until = until;
  }

  /**
   * Takeovers that no noted fault caused: a caused one lies within the fault, from the replica's last known time to the former master's
   * last. A takeover that began with a fault and continued after it may be another one.
   */
  besides(noted: readonly Fault[]): Fault[] {
    const doing = noted.filter(({ nemesis }) => nemesis.startsWith('a replica takes over'));
    return this.#all
      .filter(
        ({ from, until }) =>
          !doing.some(
            (fault) =>
              fault.from - SETTLES_WITHIN_MS <= from && until <= fault.until + SETTLES_WITHIN_MS,
          ),
      )
      .map(({ server, from, until }) => ({
        nemesis: NAME,
        servers: [server],
        // The new master may have missed the former one's last grants.
        loses: 'all',
        endsHolds: true,
        from,
        until,
        detail: '',
      }));
  }
}
