// One client (of a Redlock: one for each master) and its locks; it may be closed, and is then opened anew.
import { Cluster } from 'ioredis';
import { inspect } from 'node:util';
import type * as Library from '../../../src/index.js';
import type {
  AcquireOptions,
  FencedLock,
  Hold,
  Holdfast,
  HoldfastOptions,
  Lock,
  Semaphore,
} from '../../../src/index.js';
import type { Kind } from '../plan.js';
import type { Random } from '../random.js';
import type { Half, Journal } from './journal.js';
import type { WorkTime } from './time.js';
import type { Address, WorkOrder } from './work-order.js';

export interface Request {
  readonly wait?: number | undefined;
  readonly lease?: number | undefined;
  readonly lockAtLeastFor?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** How many of a semaphore. */
  readonly permits?: number | undefined;
}

/** A hold of a lock, or of permits, in which nothing can be nested. */
export type Held = Pick<
  Hold,
  'ownerId' | 'remaining' | 'signal' | 'extend' | 'release' | 'export'
> &
  Partial<Pick<Hold, 'token' | 'run'>>;

/** What is asked for, as far as the checker has to know it. */
export interface Locked {
  readonly names: readonly string[];
  readonly isFair: boolean;
  /** Whether its client may keep it between holds. */
  readonly mayBeKept?: boolean;
  readonly half?: Half;
}

/** A lock or a semaphore, and what it locks. */
export interface Target extends Locked {
  acquire(request: Request): Promise<Held>;
  tryAcquire(request: Request): Promise<Held | undefined>;
  /** Does this while it is held. */
  with(request: Request, fn: (held: Held) => Promise<void>): Promise<void>;
  /** undefined: it is a semaphore. */
  readonly lock?: Lock;
  /** The half of a read-write lock that only reads, where this one writes. */
  readonly reads?: PartyLock;
  /** How many permits a semaphore is declared with. */
  readonly declared?: number;
}

export interface PartyLock extends Target {
  readonly lock: Lock;
  /** The same lock, where it gives tokens. */
  readonly fenced?: FencedLock;
}

type WriteLock = PartyLock & { readonly reads: PartyLock };

export interface PartySemaphore extends Target {
  readonly semaphore: Semaphore;
  readonly declared: number;
}

interface PartyContext {
  readonly order: Omit<WorkOrder, 'journal' | 'post' | 'clients' | 'documents' | 'witnesses'>;
  readonly name: string;
  readonly journal: Journal;
  readonly time: WorkTime;
  /** Where its servers are: of a Redlock each master, else one. Asked anew for each client that is opened. */
  readonly sources: () => readonly HoldfastOptions['redis'][];
}

/** Of locks that are kept: how many of those who lock the same names are fair, and how many of the others keep them. */
const FAIR_BESIDE_KEPT = 0.08;
const KEEP = 0.75;

const COUNTS = 20;
const COUNT_EVERY_MS = 100;

export class Party {
  readonly #order: PartyContext['order'];
  readonly #name: string;
  readonly #journal: Journal;
  readonly #time: WorkTime;
  readonly #sources: PartyContext['sources'];
  #times = 0;
  #clients: readonly Holdfast[];
  #isReopening = false;

  constructor({ order, name, journal, time, sources }: PartyContext) {
    this.#order = order;
    this.#name = name;
    this.#journal = journal;
    this.#time = time;
    this.#sources = sources;
    this.#clients = this.#open();
  }

  /** The client that now is. */
  get clientId(): string {
    return `${this.#name}.${this.#times}`;
  }

  /** Which locks it is about. */
  get kind(): Kind {
    return this.#order.kind;
  }

  /** Whether leases are long, and locks are taken away. */
  get isLong(): boolean {
    return this.#order.isLong ?? false;
  }

  /** Whether callers change how many permits there are. */
  get changesPermits(): boolean {
    return this.#order.permits?.isChanged ?? false;
  }

  /** Whether its locks give tokens. */
  get isFenced(): boolean {
    return this.#order.fencing !== undefined;
  }

  /** The first is the one that runs and makes locks of several. */
  get client(): Holdfast {
    return this.#clients[0]!;
  }

  /** Any of the locks, or semaphores, that this round is about. */
  someTarget(random: Random): Target {
    return this.kind === 'semaphore' ? this.someSemaphore(random) : this.someLock(random);
  }

  /** Any of the locks that this round is about. */
  someLock(random: Random): PartyLock {
    const { kind, locks, fencing } = this.#order;
    const several =
      kind === 'multi' ? random.some(locks, random.whole(1, 3)) : [random.pick(locks)];
    const isMixed = kind === 'mixed' || kind === 'exported';
    const share = isMixed ? 0.5 : kind === 'kept' ? FAIR_BESIDE_KEPT : fencing?.fairShare;
    const isFair = kind === 'fair' || (share !== undefined && random.chance(share));
    const lock = this.lock(several, isFair, random);
    return lock.reads && random.chance(0.65) ? lock.reads : lock;
  }

  /** Any of the locks that this round is about, kept. */
  someKeptLock(random: Random): PartyLock {
    return this.#single(random.pick(this.#order.locks), false, true);
  }

  /** For how long a lock is kept. */
  get keepMs(): number {
    return this.#order.keepMs ?? 0;
  }

  /** Any of the read-write locks that this round is about: the half that writes. */
  someWriteLock(random: Random): WriteLock {
    return this.#writeLock(random.pick(this.#order.locks));
  }

  /** Any of the semaphores that this round is about. */
  someSemaphore(random: Random): PartySemaphore {
    return this.#semaphore(random.pick(this.#order.locks));
  }

  /** What has a name that this round is not about. */
  ownTarget(name: string): Target {
    return this.kind === 'semaphore' ? this.#semaphore(name) : this.ownLock(name);
  }

  ownLock(name: string): PartyLock {
    const { kind, fencing } = this.#order;
    return this.#single(name, kind === 'fair' || fencing?.fairShare === 1, kind === 'kept');
  }

  /** A lock of one name, or of several. */
  lock(names: readonly string[], isFair: boolean, random: Random): PartyLock {
    const [name] = names;
    const { client } = this;
    const { kind, nodeTimeoutMs: nodeTimeout } = this.#order;
    if (kind === 'red' && this.isFenced) {
      const [first, ...rest] = this.#clients.map((master) => master.getFencedLock(name!));
      const fenced = client.getRedLock(first!, ...rest, { nodeTimeout });
      return { ...ofLock(fenced), fenced, names, isFair: false };
    }
    if (kind === 'red') {
      const [first, ...rest] = this.#clients.map((master) => master.getLock(name!));
      const lock = client.getRedLock(first!, ...rest, { nodeTimeout });
      return { ...ofLock(lock), names, isFair: false };
    }
    if (kind === 'multi' && (names.length > 1 || random.chance(0.3))) {
      const members = names.map((each) =>
        random.chance(0.5) ? client.getLock(each) : client.getFairLock(each),
      );
      return { ...ofLock(client.getMultiLock(...members)), names, isFair: false };
    }
    const isKept = kind === 'kept' && !isFair && random.chance(KEEP);
    return this.#single(name!, isFair, isKept);
  }

  /** Closes the client while others use it, and opens another one. */
  async reopen(): Promise<void> {
    if (this.#isReopening) return;
    this.#isReopening = true;
    const closing = this.close();
    this.#times++;
    this.#clients = this.#open();
    await closing;
    this.#isReopening = false;
  }

  /** Writes down what its clients say of themselves. */
  describe(): void {
    for (const client of this.#clients) {
      this.#journal.note({ what: 'warned', message: inspect(client, { depth: 4 }) });
      client.ping({ timeout: 1_000 }).catch((error: unknown) => {
        this.#journal.note({ what: 'warned', message: String(error) });
      });
    }
  }

  /** All callers have stopped: all permits are there, after a moment, as many as were declared. Writes down how many are. */
  async countPermits(): Promise<void> {
    if (this.kind !== 'semaphore') return;
    await Promise.all(this.#order.locks.map((name) => this.#countPermits(this.#semaphore(name))));
  }

  async close(): Promise<void> {
    const client = this.clientId;
    this.#journal.note({ what: 'closing', client });
    await Promise.all(this.#clients.map((each) => each.close()));
    this.#journal.note({ what: 'closed', client });
  }

  #single(name: string, isFair: boolean, isKept = false): PartyLock {
    const { client } = this;
    const { fencing } = this.#order;
    const names = [name];
    if (this.kind === 'read-write') return this.#writeLock(name);
    if (isKept) {
      const lock = client.getLock(name, { keep: this.keepMs });
      return { ...ofLock(lock), names, isFair, mayBeKept: true };
    }
    if (!fencing)
      return { ...ofLock(isFair ? client.getFairLock(name) : client.getLock(name)), names, isFair };
    const fenced = client.getFencedLock(name, { fair: isFair, tokenTtl: fencing.tokenTtlMs });
    return { ...ofLock(fenced), fenced, names, isFair };
  }

  #writeLock(name: string): WriteLock {
    const pair = this.client.getReadWriteLock(name);
    const both = { names: [name], isFair: true };
    const reads: PartyLock = { ...ofLock(pair.readLock()), ...both, half: 'read' };
    return { ...ofLock(pair.writeLock()), ...both, half: 'write', reads };
  }

  #semaphore(name: string): PartySemaphore {
    const { declared } = this.#order.permits!;
    const semaphore = this.client.getSemaphore(name, { permits: declared });
    return {
      acquire: (request) => semaphore.acquire(request),
      tryAcquire: (request) => semaphore.tryAcquire(request),
      with: (request, fn) => semaphore.withPermits(request, fn),
      semaphore,
      declared,
      names: [name],
      isFair: true,
    };
  }

  async #countPermits({ semaphore, declared }: PartySemaphore): Promise<void> {
    const { clientId: client } = this;
    const lock = semaphore.name;
    const ask = async (): Promise<number> => {
      if (this.changesPermits) await semaphore.setPermits(declared);
      return await semaphore.availablePermits();
    };
    let permits: number | undefined;
    // What was given up in the last moment is still on its way back.
    for (let tries = 0; tries < COUNTS && permits !== declared; tries++) {
      if (tries > 0) await this.#time.sleep(COUNT_EVERY_MS);
      // Where nobody answers any more, nothing is known.
      permits = await ask().catch(() => permits);
    }
    if (permits !== undefined) this.#journal.note({ what: 'available', client, lock, permits });
  }

  #open(): Holdfast[] {
    this.#journal.note({ what: 'opened', client: this.clientId });
    const sources = this.#sources();
    if (sources.length === 1) return [this.#client(sources[0]!, this.clientId)];
    return sources.map((source, master) => this.#client(source, `${this.clientId}m${master}`));
  }

  #client(redis: HoldfastOptions['redis'], name: string): Holdfast {
    const { watchdogMs, commandTimeoutMs } = this.#order;
    const client = new HoldfastOf({
      redis,
      clientId: name,
      lockWatchdogTimeout: watchdogMs,
      wait: Infinity,
      commandTimeout: commandTimeoutMs,
    });
    client.on('waiting', ({ lockName, ownerId }) => {
      this.#journal.note({ what: 'waiting', lock: lockName, owner: ownerId });
    });
    if (this.kind === 'kept')
      client.on('acquired', ({ lockName, ownerId, via }) => {
        if (via === 'kept') this.#journal.note({ what: 'kept', lock: lockName, owner: ownerId });
      });
    client.on('lost', ({ lockName, ownerId, lossReason }) => {
      this.#journal.note({ what: 'lost', lock: lockName, owner: ownerId, reason: lossReason });
    });
    client.on('error', ({ error }) => {
      this.#journal.note({ what: 'warned', message: `${name}: ${error.message}` });
    });
    client.on('warning', ({ message }) => {
      this.#journal.note({ what: 'warned', message: `${name}: ${message}` });
    });
    return client;
  }
}

function ofLock(lock: Lock): Pick<PartyLock, 'lock' | 'acquire' | 'tryAcquire' | 'with'> {
  return {
    lock,
    acquire: (request) => lock.acquire(optionsOf(request)),
    tryAcquire: (request) => lock.tryAcquire(optionsOf(request)),
    with: (request, fn) => lock.withLock(optionsOf(request), fn),
  };
}

function optionsOf({ wait, lease, lockAtLeastFor, signal }: Request): AcquireOptions {
  return { wait, lease, lockAtLeastFor, signal };
}

export function sourcesOf(address: Address): readonly HoldfastOptions['redis'][] {
  switch (address.topology) {
    case 'masters':
      return address.urls;
    case 'single':
      return [address.url];
    case 'sentinel': {
      const { name, sentinels, natMap } = address;
      return [{ name, sentinels, natMap }];
    }
    case 'cluster': {
      const { nodes, natMap } = address;
      return [new Cluster([...nodes], { natMap, lazyConnect: true })];
    }
  }
}

/** The library that the worker tries: the present one, or a mutant of it. */
const path = process.env['HOLDFAST_CHAOS_LIBRARY'] ?? '../../../src/index.js';

const { Holdfast: HoldfastOf } = (await import(path)) as typeof Library;
