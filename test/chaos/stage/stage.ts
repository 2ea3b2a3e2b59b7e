// All that a round plays on: servers, a proxy in front of each for every client, worker processes, and what goes wrong.
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startRedisProcess, type RedisServer } from '../../support/redis-server.js';
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.js';
import { FaultLog, type Excuses, type Touched } from '../faults.js';
import type { Kind, Plan, PlannedFault, Topology } from '../plan.js';
import { CrewMember } from './crew.js';
import type { StageServer } from './server.js';
import { startTopology, type StageTopology } from './topology.js';

interface Props {
  readonly topology: StageTopology;
  readonly links: readonly (readonly TcpProxy[])[];
  readonly documents: RedisServer | undefined;
  readonly folder: string;
  readonly library: string | undefined;
}

export class Stage implements AsyncDisposable {
  readonly plan: Plan;
  readonly topology: StageTopology;
  readonly crew: readonly CrewMember[];
  readonly faults = new FaultLog();
  /** Commands and messages that were treated badly, one by one. */
  readonly mess = { commands: 0, messages: 0 };
  readonly #links: readonly (readonly TcpProxy[])[];
  /** The documents that fenced locks guard are there, and nothing goes wrong with it. */
  readonly #documents: RedisServer | undefined;
  readonly #folder: string;

  /** `library`: what the workers import; undefined: src/. */
  static async set(plan: Plan, library?: string): Promise<Stage> {
    const topology = await startTopology(plan);
    const links = await Promise.all(
      Array.from({ length: plan.workers * plan.clientsPerWorker }, () =>
        Promise.all(topology.servers.map(({ redis }) => startProxy(redis.port, redis.host))),
      ),
    );
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-chaos-'));
    await mkdir(join(folder, 'journals'));
    const documents = plan.fencing && (await startRedisProcess({}));
    return new Stage(plan, { topology, links, documents, folder, library });
  }

  private constructor(plan: Plan, { topology, links, documents, folder, library }: Props) {
    this.plan = plan;
    this.topology = topology;
    this.#links = links;
    this.#documents = documents;
    this.#folder = folder;
    this.crew = Array.from({ length: plan.workers }, (_, index) => this.#member(index, library));
  }

  /** Where each process writes to a journal of its own. */
  get journals(): string {
    return join(this.#folder, 'journals');
  }

  get servers(): readonly StageServer[] {
    return this.topology.servers;
  }

  get clientCount(): number {
    return this.#links.length;
  }

  member(target: number): CrewMember {
    return this.crew[target % this.crew.length]!;
  }

  server(target: number): StageServer {
    return this.servers[target % this.servers.length]!;
  }

  /** The proxies between this client and each server. */
  links(client: number): readonly TcpProxy[] {
    return this.#links[client]!;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.crew.map((member) => member[Symbol.asyncDispose]()));
    await Promise.all(this.#links.flat().map((link) => link[Symbol.asyncDispose]()));
    await this.topology[Symbol.asyncDispose]();
    await this.#documents?.[Symbol.asyncDispose]();
    await rm(this.#folder, { recursive: true, force: true });
  }

  #member(index: number, library: string | undefined): CrewMember {
    const { plan } = this;
    const { clientsPerWorker, callersPerClient, kind, locks, watchdogMs } = plan;
    const { commandTimeoutMs, nodeTimeoutMs, fencing, permits, keepMs, isLong } = plan;
    const clients = Array.from({ length: clientsPerWorker }, (_, client) =>
      this.topology.address(this.links(index * clientsPerWorker + client)),
    );
    return new CrewMember(index, library, (incarnation) => ({
      name: `w${index}.${incarnation}.`,
      seed: plan.seed,
      post: join(this.#folder, 'post'),
      journal: join(this.journals, `w${index}.${incarnation}.jsonl`),
      kind,
      locks,
      clients,
      callersPerClient,
      watchdogMs,
      isLong,
      commandTimeoutMs,
      nodeTimeoutMs,
      fencing,
      permits,
      keepMs,
      documents: this.#documents?.url,
      witnesses:
        fencing && plan.topology === 'masters'
          ? this.servers.map(({ redis }) => redis.url)
          : undefined,
    }));
  }
}

/** One way in which things go wrong. */
export interface Nemesis {
  readonly name: string;
  /** How often it is drawn, against the others. */
  readonly weight: number;
  /** Of which locks it is a fault; left out: of all. */
  readonly kinds?: readonly Kind[];
  /** Whether it is a fault only where locks give tokens. */
  readonly isOfTokens?: true;
  /** Where leases are long: it happens there, too, or only there; left out: not there. */
  readonly whenLong?: 'too' | 'only';
  /** Where it can happen; left out: everywhere. */
  readonly topologies?: readonly Topology[];
  /** How long it lasts, in leases: from, to. */
  readonly leases: readonly [number, number];
  /** Makes it happen; resolves when it is healed. `lasting` resolves when its time is over, or the round's faults are. */
  act(stage: Stage, fault: PlannedFault, lasting: () => Promise<void>): Promise<void>;
}

/** What a fault is called, whom it touches, what it may excuse, and how much of it there is. */
type Noted = readonly [name: string, touched: Touched, excuses?: Excuses, detail?: string];

/** Lets something go wrong with the target for its time, unless something else does; `begin` returns what heals it. */
export async function disturb(
  { faults }: Stage,
  target: string,
  noted: Noted,
  lasting: () => Promise<unknown>,
  begin: () => unknown,
): Promise<void> {
  const free = faults.take(target);
  if (!free) return;
  const fault = faults.begin(...noted);
  const heal = await begin();
  await lasting();
  if (typeof heal === 'function') await (heal as () => unknown)();
  fault.end();
  free();
}
