// Everything that a round of the simulator is played with: servers, processes with their clients and callers, and what they write down.
import type { HoldfastOptions } from '../../src/index.js';
import type * as Connection from '../../src/testing/connection.js';
import type { Library } from '../../src/redis/port.js';
import type * as Port from '../../src/redis/port.js';
import { LockKeys } from '../../src/redis/keys.js';
import type { Deafness } from '../chaos/checker/evidence.js';
import { History } from '../chaos/checker/history.js';
import { FaultLog } from '../chaos/faults.js';
import { paceMs, type Plan } from '../chaos/plan.js';
import { Random } from '../chaos/random.js';
import { Beliefs, type SectionsContext } from '../chaos/worker/section.js';
import { actionsOf } from '../chaos/worker/actions.js';
import type { Parcel, Post } from '../chaos/worker/post.js';
import { callersOf, type Caller } from '../chaos/worker/caller.js';
import type { Journal, Note } from '../chaos/worker/journal.js';
import { Party } from '../chaos/worker/party.js';
import { loaded } from './library.js';
import { Link, SimServer } from './network.js';
import { SimProcess, VirtualTime, type Machine } from './time.js';

const { memoryLibrary } = await loaded<typeof Connection>('testing/connection');
const { LIBRARY } = await loaded<typeof Port>('redis/port');

/** What lies between two notes at least. */
const INSTANT_MS = 1e-6;

/** One incarnation of a worker process. */
export interface Crew {
  readonly process: SimProcess;
  readonly parties: readonly Party[];
  readonly callers: readonly Caller[];
  /** Resolves when all callers have stopped. */
  readonly working: Promise<unknown>;
}

export class World {
  readonly plan: Plan;
  readonly time = new VirtualTime();
  readonly random: Random;
  readonly servers: readonly SimServer[];
  /** By worker: the one that runs now. */
  readonly crews: Crew[] = [];
  /** By client, then by server. */
  readonly links: readonly (readonly Link[])[];
  /** By worker. */
  readonly machines: readonly Machine[];
  readonly history: History;
  readonly faults = new FaultLog(() => this.time.nowMs);
  /** Times at which a client was not told of changed keys. */
  readonly deafness: Deafness[] = [];
  /** Those that last, by client. */
  readonly #deaf = new Map<string, Deafness & { until: number }>();
  noteCount = 0;
  /** When the last note was written. */
  #notedMs = 0;
  /** Documents that fenced locks guard: the largest token that each has seen. */
  readonly #documents = new Map<string, bigint>();
  /** Exported holds on their way to another process. */
  readonly #posted: Parcel[] = [];
  readonly #incarnations: number[] = [];
  readonly #trace: (line: string) => void;

  constructor(plan: Plan, trace: (line: string) => void) {
    this.plan = plan;
    this.#trace = trace;
    this.random = new Random(plan.seed, `simulation ${plan.kind}`);
    this.history = new History(plan.clientsPerWorker);
    const count = plan.topology === 'masters' ? plan.masters : 1;
    this.servers = Array.from({ length: count }, (_, index) => {
      const machine = { wallAheadMs: plan.clocksAheadMs?.[index] ?? 0 };
      const random = this.random.fork(`server ${index}`);
      const latestMs = 2 * paceMs(plan);
      return new SimServer(
        index,
        this.time,
        machine,
        () => random.next(),
        latestMs,
        (what) => {
          this.trace(`server ${what}`);
        },
      );
    });
    this.links = Array.from({ length: this.clientCount }, (_, client) =>
      this.servers.map(
        (server) => new Link(this.time, server, this.random.fork(`link ${client} ${server.index}`)),
      ),
    );
    this.machines = Array.from({ length: plan.workers }, () => ({ wallAheadMs: 0 }));
    for (let worker = 0; worker < plan.workers; worker++) this.start(worker);
  }

  get clientCount(): number {
    return this.plan.workers * this.plan.clientsPerWorker;
  }

  get commandCount(): number {
    return this.servers.reduce((sum, { commandCount }) => sum + commandCount, 0);
  }

  trace(what: string): void {
    this.#trace(`${this.time.nowMs.toFixed(4)} ${what}`);
  }

  /** `process`: whose it is, such as `w0.2.`. No two notes are of the same instant: what was entered and left was held in between. */
  noteIn(process: string, note: Note, at?: number): void {
    this.#notedMs = Math.max(this.time.nowMs, this.#notedMs + INSTANT_MS);
    this.noteCount++;
    this.trace(`${process} ${JSON.stringify(note)}`);
    this.history.take({ at: at ?? this.#notedMs, ...note }, process);
  }

  /** Writes down which clients are not told of changed keys now. */
  noteDeafness(): void {
    const { nowMs } = this.time;
    const parties = this.crews.flatMap((crew) => crew.parties);
    for (const [index, { clientId: client }] of parties.entries()) {
      const isDeaf = !this.links[index]!.every((link) => link.isTelling(client));
      const deaf = this.#deaf.get(client);
      if (deaf) deaf.until = nowMs;
      if (isDeaf && !deaf) {
        const begins = { client, from: nowMs, until: nowMs };
        this.deafness.push(begins);
        this.#deaf.set(client, begins);
      } else if (!isDeaf) this.#deaf.delete(client);
    }
  }

  /** A worker begins, or begins again. */
  start(worker: number): void {
    const { plan, time } = this;
    const incarnation = (this.#incarnations[worker] = (this.#incarnations[worker] ?? -1) + 1);
    const name = `w${worker}.${incarnation}.`;
    const process = new SimProcess(time, this.machines[worker]!);
    const journal: Journal = {
      note: (note, at) => {
        this.noteIn(name, note, at);
      },
    };
    const post: Post = {
      put: (parcel) => this.#posted.push(parcel),
      take: () => this.#posted.shift(),
    };
    const context: SectionsContext & { readonly post: Post } = {
      post,
      journal,
      beliefs: new Beliefs(journal, process),
      watchdogMs: plan.watchdogMs,
      documents: plan.fencing && { write: (lock, token) => this.#write(process, lock, token) },
      witnesses:
        plan.fencing && plan.topology === 'masters'
          ? { ask: (lock) => this.#counters(process, lock) }
          : undefined,
    };
    const order = {
      ...plan,
      name,
      fencing: plan.fencing,
      permits: plan.permits,
      keepMs: plan.keepMs,
    };
    const parties = Array.from({ length: plan.clientsPerWorker }, (_, client) => {
      const index = worker * plan.clientsPerWorker + client;
      let opened = 0;
      return new Party({
        order,
        name: `${name}c${client}`,
        journal,
        time: process,
        sources: () => this.#sources(index, process, `${name}c${client}.${opened++}`),
      });
    });
    const callers = callersOf(parties, plan, name, context, process);
    const working = Promise.all(callers.map((caller) => caller.work(actionsOf(caller.party))));
    this.crews[worker] = { process, parties, callers, working };
  }

  /** The process is gone at once, with all that it had under way. The servers hear of it. */
  kill(worker: number): void {
    this.crews[worker]!.process.kill();
    for (let client = 0; client < this.plan.clientsPerWorker; client++)
      for (const link of this.links[worker * this.plan.clientsPerWorker + client]!) link.drop();
  }

  /** Where the servers of a client are, by links of its own. */
  #sources(client: number, process: SimProcess, name: string): readonly HoldfastOptions['redis'][] {
    return this.links[client]!.map((link) => {
      const random = this.random.fork(`client ${name} ${link.server.index}`);
      return { [LIBRARY]: () => libraryOf(link, process, () => random.next(), name) };
    });
  }

  async #write(process: SimProcess, lock: string, token: bigint): Promise<string | undefined> {
    await process.sleep(this.random.between(0, 2));
    const seen = this.#documents.get(lock);
    const isRefused = seen !== undefined && seen > token;
    if (!isRefused) this.#documents.set(lock, token);
    await process.sleep(this.random.between(0, 2));
    return isRefused ? String(seen) : undefined;
  }

  async #counters(process: SimProcess, lock: string): Promise<(string | undefined)[]> {
    await process.sleep(this.random.between(0, 1));
    const key = new LockKeys(lock).counter(false);
    return this.servers.map((server) => {
      if (server.isDown || server.process.isStopped) return undefined;
      return (server.ask('get', key) as string | null | undefined) ?? '0';
    });
  }
}

/** The server at the other end of the link, for this client of this process. */
export function libraryOf(
  link: Link,
  process: SimProcess,
  random: () => number,
  client: string,
): Library {
  const { target, keyPrefix } = memoryLibrary(link.server, { carry: () => undefined });
  return {
    target,
    keyPrefix,
    clock: process.clock,
    random,
    open(address, purpose, heard) {
      const pipe = link.pipe(process, purpose === 'subscriptions', client);
      return memoryLibrary(link.server, pipe).open(address, purpose, heard);
    },
  };
}
