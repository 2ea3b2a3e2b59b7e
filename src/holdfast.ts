// The client: it makes locks, and has the connection, the events, `run` and `close`.

import { inspect, type InspectOptions } from 'node:util';
import type { HoldfastEvents } from './api/events.js';
import { type Inspection, type ListOptions, parseList } from './api/inspection.js';
import type { FairLock, FencedLock, FencedLockOptions, Hold, Lock } from './api/lock.js';
import {
  type AdoptOptions,
  type KeepOptions,
  ONE_ATTEMPT,
  parseFunction,
  parseKeep,
  parseName,
  parseOptions,
  parseRequest,
  type RedLockOptions,
} from './api/options.js';
import type { ReadWriteLock } from './api/read-write-lock.js';
import type { Semaphore, SemaphoreOptions } from './api/semaphore.js';
import { acquire } from './core/acquisition.js';
import { parseExported } from './core/adoption.js';
import { inspect as inspectLock, list } from './core/inspection.js';
import type { AcquirableLock, ExportedHold, OwnHold } from './core/protocol.js';
import { Server } from './core/server.js';
import { joinProcess } from './core/neighbours.js';
import { newClientId, runAsOneOwner, Session } from './core/session.js';
import { FairLockBackend, FairSingleLock } from './locks/fair.js';
import { fencedLockOver, parseFencedLock } from './locks/fenced.js';
import { MultiLock } from './locks/multi.js';
import { ReadWriteBackend, ReadWriteSingleLock } from './locks/read-write.js';
import { parseRedLock } from './locks/redlock/parts.js';
import { QuorumServices, RedLockBackend } from './locks/redlock/redlock.js';
import { GatheredCalls } from './locks/gather.js';
import { Keeper } from './locks/keeper.js';
import { HOLDS, type PlainSettings, ReentrantLockBackend } from './locks/plain.js';
import { SemaphoreBackend, SingleSemaphore } from './locks/semaphore.js';
import { SingleLock } from './locks/single-lock.js';
import { Listeners } from './core/events.js';
import { explainWrongCalls, KINDS } from './core/wrong-calls.js';
import {
  type HeldLock,
  type HoldfastDescription,
  type HoldfastStats,
  inspected,
} from './api/description.js';
import { now, PROCESS_CLOCK } from './runtime/clock.js';
import { inTurn } from './runtime/node.js';
import { Schedule } from './runtime/schedule.js';
import { libraryFor } from './redis/installed.js';
import { outsideScopes } from './scopes/scope.js';
import {
  type HoldfastOptions,
  type HoldfastStatus,
  parseHoldfastOptions,
  parsePing,
  type PingOptions,
} from './options.js';

/**
 * A client of one Redis or Valkey (standalone, Sentinel or cluster), which makes the locks on it. One for each process and Redis is enough.
 *
 * It opens connections of its own: one for commands; one for subscriptions, as soon as a call waits; and with `replicas` a third.
 *
 * @example
 * ```ts
 * const holdfast = new Holdfast({ redis: 'redis://localhost:6379', wait: 5_000 });
 * await holdfast.getLock('orders:42').withLock(async (hold) => {
 *   // nobody else holds the lock
 * });
 * await holdfast.close();
 * ```
 *
 * @group The client
 */
export class Holdfast implements AsyncDisposable {
  static {
    explainWrongCalls(Holdfast, KINDS.client);
  }

  readonly #session: Session;
  readonly #server: Server;
  readonly #listeners: Listeners;
  readonly #createdAt: Date;
  /** Keeps locks after their last hold; undefined: no lock was made with `keep`. */
  #keeper: Keeper | undefined;
  /** What the client's Redlocks share; undefined: it has made none. */
  #quorum: QuorumServices | undefined;
  #closing: Promise<void> | undefined;
  /** Hides this client from the others of the process. */
  readonly #leaveProcess: () => void;

  /**
   * Creates a client, which connects at once in the background. Locks wait for the connection.
   *
   * @throws {@link OptionError} an option is missing, unknown or out of range
   */
  constructor(options: HoldfastOptions) {
    const given = parseHoldfastOptions(options);
    const library = libraryFor(options.redis);
    const { clock, random } = library;
    const clientId = newClientId(given.clientId, random);
    const schedule = new Schedule(clock);
    this.#createdAt = new Date(now(library.clock ?? PROCESS_CLOCK).wallMs);
    const events = (this.#listeners = new Listeners(clientId));
    this.#server = new Server({ library, ...given }, events, schedule);
    const { connection } = this.#server;
    this.#session = new Session({ ...given, clientId, schedule }, connection, events);
    connection.listen({ ready: this.#session.connected, disturbed: this.#session.moved });
    this.#leaveProcess = joinProcess(clientId, () => this.#sessions);
  }

  /**
   * The reentrant lock of this name. It is not fair between processes: a waiter that is woken competes with newcomers.
   *
   * @param name - 1 to 1,024 bytes; in a cluster it may bring its own `{hash tag}`
   * @throws {@link OptionError} the name or an option is not usable
   */
  getLock(name: string, options: KeepOptions = {}): Lock {
    const lockName = parseName(name);
    const keepMs = parseKeep(lockName, options, this.#session.lockWatchdogTimeoutMs);
    if (keepMs === 0) return new SingleLock(this.#session, this.#plain(lockName));
    const keeper = (this.#keeper ??= new Keeper(
      this.#server,
      this.clientId,
      this.#server.renewer(HOLDS),
    ));
    return new SingleLock(this.#session, this.#plain(lockName, { keep: { keeper, keepMs } }));
  }

  /**
   * The fair lock of this name: reentrant, first come, first served. It is the same lock as `getLock(name)`, whose callers do not queue.
   *
   * @param name - 1 to 1,024 bytes; in a cluster it may bring its own `{hash tag}`
   * @throws {@link OptionError} the name is not usable
   */
  getFairLock(name: string): FairLock {
    return new FairSingleLock(
      this.#session,
      new FairLockBackend(this.#server, this.#plain(parseName(name))),
    );
  }

  /**
   * The fenced lock of this name: each holder gets a token larger than all before it, for the guarded resource to check. Otherwise it
   * is the same lock as `getLock(name)`, or with `fair` as `getFairLock(name)`.
   *
   * @param name - 1 to 1,024 bytes; in a cluster it may bring its own `{hash tag}`
   * @throws {@link OptionError} the name or an option is not usable
   */
  getFencedLock(name: string, options: FencedLockOptions = {}): FencedLock {
    const lockName = parseName(name);
    const { isFair, tokenTtlMs } = parseFencedLock(lockName, options);
    const plain = this.#plain(lockName, { tokenTtlMs });
    return fencedLockOver(this.#session, isFair ? new FairLockBackend(this.#server, plain) : plain);
  }

  /**
   * The read-write lock of this name: many owners may read at the same time, one writes alone; first come, first served.
   *
   * @param name - 1 to 1,024 bytes; in a cluster it may bring its own `{hash tag}`
   * @throws {@link OptionError} the name is not usable
   */
  getReadWriteLock(name: string): ReadWriteLock {
    return new ReadWriteSingleLock(this.#session, this.#server, name);
  }

  /**
   * The semaphore of this name: a number of permits, each a lease, first come, first served. A name is that of a semaphore or of a lock,
   * not of both.
   *
   * @param name - 1 to 1,024 bytes; in a cluster it may bring its own `{hash tag}`
   * @param options - `permits`: how many there are, from 1 to 2^31-1; all clients must declare the same number
   * @throws {@link OptionError} the name or the number is not usable
   */
  getSemaphore(name: string, options: SemaphoreOptions): Semaphore {
    return new SingleSemaphore(this.#session, this.#server, name, options);
  }

  /**
   * One lock over several locks: it holds all of them, or none. Callers may name the same locks in different orders. Inside it each member
   * is held, too: a fenced member has its own token there, and the MultiLock has none.
   *
   * @param locks - at least one, each once: locks, fair locks, fenced locks, halves of read-write locks or Redlocks, also of different
   *   clients; no MultiLock, no semaphore. Two that turn out to be the same key of the same server are an {@link OptionError} when it is
   *   acquired
   * @throws {@link OptionError} a lock cannot be a member
   * @example
   * ```ts
   * const both = holdfast.getMultiLock(holdfast.getLock('account:1'), holdfast.getLock('account:2'));
   * ```
   */
  getMultiLock(...locks: Lock[]): Lock {
    return new MultiLock(this.#session, locks);
  }

  /**
   * One lock on several independent masters, which a majority of them must confirm: it outlives the loss of any minority. This is Redis'
   * Redlock, see https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/.
   *
   * @param locks - locks of `getFencedLock` of one name, none of them `fair`, each from its own Holdfast on its own master; an odd number
   *   is best. Their Redlock is a fenced lock, too, whose tokens grow over all masters
   * @throws {@link OptionError} a lock cannot be a member
   */
  getRedLock(...locks: FencedLock[]): FencedLock;
  /**
   * One lock on several independent masters, over locks of `getLock`: without tokens.
   *
   * @param locks - locks of `getLock` of one name, each from its own Holdfast on its own master; an odd number is best
   * @throws {@link OptionError} a lock cannot be a member
   * @example
   * ```ts
   * const payments = a.getRedLock(a.getLock('payments'), b.getLock('payments'), c.getLock('payments'));
   * ```
   */
  getRedLock(...locks: Lock[]): Lock;
  /**
   * One lock on several independent masters, over locks of `getFencedLock`, with options.
   *
   * @param locksAndOptions - the locks, and then {@link RedLockOptions}
   * @throws {@link OptionError} a lock cannot be a member, or an option is not usable
   */
  getRedLock(...locksAndOptions: [...FencedLock[], RedLockOptions]): FencedLock;
  /**
   * One lock on several independent masters, over locks of `getLock`, with options.
   *
   * @param locksAndOptions - the locks, and then {@link RedLockOptions}
   * @throws {@link OptionError} a lock cannot be a member, or an option is not usable
   */
  getRedLock(...locksAndOptions: [...Lock[], RedLockOptions]): Lock;
  getRedLock(...given: unknown[]): Lock {
    const parts = parseRedLock(given);
    const quorum = (this.#quorum ??= new QuorumServices(this.#session, this.#listeners));
    const backend = new RedLockBackend(parts, quorum);
    return parts.isFenced
      ? fencedLockOver(quorum.session, backend)
      : new SingleLock(quorum.session, backend);
  }

  /**
   * Goes on with a hold that another process, or another client of this one, has exported by {@link Hold.export}. It has a new owner, and
   * of a fenced lock a new, larger token. Only one call for a text succeeds. Like `acquire()`, it counts for the innermost `run`.
   *
   * @param text - what `export()` returned
   * @param options - `lease`: as in {@link AcquireOptions}; it replaces that of the export
   * @throws {@link LockLostError} the hold was adopted already, or its lease has ended
   * @throws {@link OptionError} the text is not that of a hold, or one of another server or `keyPrefix`; or an option is not usable
   * @throws {@link UnavailableError} Redis did not answer within `commandTimeout`, or refuses; the text may be adopted again, or was
   * @throws {@link LockAbortedError} the `signal` aborted: if the hold was adopted all the same, the client removes it
   * @throws {@link ClosedError} the client is closed
   */
  async adopt(text: string, options: AdoptOptions = {}): Promise<Hold> {
    const exported = parseExported(text, this.#server.keyPrefix);
    const { name, kind, restMs } = exported;
    const known = ['lease', 'signal', 'label'] as const;
    const given = parseOptions('the options of adopt()', options, known, name);
    const request = parseRequest(name, { ...given, lockAtLeastFor: restMs }, ONE_ATTEMPT);
    const adopt = (): Promise<OwnHold> =>
      acquire(this.#session, this.#lockOf(exported), { ...request, adopts: exported }, 'acquire');
    const { holdWatch } = this.#session;
    const stack = holdWatch?.here ?? '';
    // Permits are held outside all scopes.
    const hold = await (kind === 'Semaphore' ? outsideScopes(adopt) : adopt());
    return holdWatch?.handOut(hold, hold.watched, stack) ?? hold;
  }

  /** The lock of a hold that was exported. */
  #lockOf({ kind, name, tokenTtlMs, permits }: ExportedHold): AcquirableLock {
    const server = this.#server;
    const { newOwnerId } = this.#session;
    if (permits) {
      const { declared, held } = permits;
      return new SemaphoreBackend(server, newOwnerId, name, declared, held);
    }
    if (kind === 'ReadLock') return new ReadWriteBackend(server, newOwnerId, name, 'read');
    if (kind === 'WriteLock') return new ReadWriteBackend(server, newOwnerId, name, 'write');
    const plain = this.#plain(name, tokenTtlMs === undefined ? {} : { tokenTtlMs });
    return kind.endsWith('FairLock') ? new FairLockBackend(server, plain) : plain;
  }

  #plain(name: string, settings?: PlainSettings): ReentrantLockBackend {
    const { keyPrefix } = this.#server;
    return new ReentrantLockBackend(
      this.#server,
      keyPrefix,
      name,
      this.#session.newOwnerId,
      settings,
    );
  }

  /**
   * The state of the connection that locks use.
   *
   * - `connecting`: there is no connection; also while Redis is down and the client tries to reconnect
   * - `ready`: commands can be sent
   * - `degraded`: a master of the cluster cannot be reached; `ping()` names it
   * - `refused`: Redis rejects this client (a wrong password, a server too old, no Redis at that address), so calls fail at once; the client goes on trying
   * - `closed`: `close()` was called
   */
  get status(): HoldfastStatus {
    return this.#closing ? 'closed' : this.#server.connection.status;
  }

  /**
   * Sends a PING to Redis, in a cluster to all masters, for health checks. If Redis is down, it fails with the next attempt to connect. It
   * needs the permission for PING.
   *
   * @returns after how many milliseconds the answer came; may have decimals
   * @throws {@link UnavailableError} no answer came within `timeout`, by default `commandTimeout`; or Redis cannot be reached, or rejects
   *   this client: the message says why
   * @throws {@link ClosedError} the client is closed, or was closed during the call
   * @throws {@link OptionError} `timeout` is not usable
   */
  async ping(options: PingOptions = {}): Promise<number> {
    const { commandTimeoutMs, acquisitions } = this.#session;
    const limitMs = parsePing(options) ?? commandTimeoutMs;
    if (this.#session.isClosed) throw await inTurn(this.#session.closedError());
    return await this.#server.ping(limitMs, acquisitions);
  }

  /** Identifies this client on the server; no other client has the same. Every `ownerId` begins with it. */
  get clientId(): string {
    return this.#session.clientId;
  }

  /**
   * Runs `fn` as one owner: all `lock()` calls inside belong to it, as they would belong to one thread in Java. Locks that are still held
   * when `fn` ends are released, with a `warning`. The scope holds for the locks of all clients in the process.
   *
   * @returns what `fn` returns
   * @throws {@link OptionError} `fn` is no function
   * @example
   * ```ts
   * await holdfast.run(async () => {
   *   await lock.lock();
   *   try {
   *     // functions called here may lock() it again: they are the same owner
   *   } finally {
   *     await lock.unlock();
   *   }
   * });
   * ```
   */
  async run<T>(fn: () => T | Promise<T>): Promise<T> {
    parseFunction(fn, 'the function given to run()');
    return await runAsOneOwner(fn, this.#session.warnings);
  }

  /**
   * Runs `fn` outside all scopes, for work that outlives the request or job that starts it.
   *
   * @returns what `fn` returns
   * @throws {@link OptionError} `fn` is no function
   */
  detach<T>(fn: () => T): T {
    parseFunction(fn, 'the function given to detach()');
    return outsideScopes(fn);
  }

  /**
   * Adds a listener for an event. `process.emitWarning` reports a listener that throws, once for each message and with a count when the
   * client is closed, and the first `error` of an outage that has no listener.
   *
   * @example
   * ```ts
   * holdfast.on('lost', ({ lockName, lossReason }) => console.error(`lost ${lockName}: ${lossReason}`));
   * ```
   */
  on<Name extends keyof HoldfastEvents>(name: Name, listener: HoldfastEvents[Name]): this {
    this.#listeners.on(name, listener);
    return this;
  }

  /** Adds a listener for the next event of this name only. */
  once<Name extends keyof HoldfastEvents>(name: Name, listener: HoldfastEvents[Name]): this {
    this.#listeners.once(name, listener);
    return this;
  }

  /** Removes a listener that `on` or `once` added. */
  off<Name extends keyof HoldfastEvents>(name: Name, listener: HoldfastEvents[Name]): this {
    this.#listeners.off(name, listener);
    return this;
  }

  /**
   * Closes the client: ends all waits with {@link ClosedError}, releases what is held (the holds' signals abort), and closes the
   * connections. Takes at most `commandTimeout` plus half a second, so that a server that is down may come back. Never rejects; calling it
   * again is harmless.
   */
  close(): Promise<void> {
    if (!this.#closing) {
      // The promise exists before anything is done: a listener of `lost` may call close(), too.
      let settle!: (closed: Promise<void>) => void;
      this.#closing = new Promise((resolve) => (settle = resolve));
      settle(this.#close());
    }
    return this.#closing;
  }

  /** Closes the client at the end of an `await using` block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /**
   * What this client holds, without asking the server: every hold of every caller, oldest first.
   *
   * @example
   * ```ts
   * console.table(holdfast.held());
   * ```
   */
  held(): HeldLock[] {
    const grants = this.#sessions.flatMap((session) => [...session.grants]);
    return grants
      .flatMap((grant) => grant.described)
      .sort((one, other) => Number(one.since) - Number(other.since));
  }

  /** What this client has and does, in numbers, without asking the server. */
  stats(): HoldfastStats {
    const { channels, watchdog } = this.#server;
    const renewals = { ...watchdog.renewals };
    for (const [outcome, count] of Object.entries(this.#quorum?.watchdog.renewals ?? {}))
      renewals[outcome as keyof HoldfastStats['renewals']] += count;
    const waits = this.#sessions.flatMap((session) => [...session.waits.values()]);
    return {
      since: this.#createdAt,
      held: this.held().length,
      kept: this.#session.grants.idleCount,
      waiting: waits.reduce((sum, count) => sum + count, 0),
      lines: waits.length,
      channels: channels.size,
      renewals,
      gathered: this.#server.shared(GatheredCalls).togetherCount,
      outages: this.#listeners.outages,
      tracking: this.#server.connection.tracking.state,
    };
  }

  /**
   * Asks the server who holds a lock of any kind, and who waits for it, whatever client they are of. For people: it costs the server more
   * than a query of the lock's own.
   *
   * @param name - as for `getLock`
   * @returns undefined: nobody holds the lock, and nobody stands in its line
   * @throws {@link KeyConflictError} the name is that of other data
   * @throws {@link UnavailableError} Redis did not answer within `commandTimeout`, or refuses
   * @throws {@link ClosedError} the client is closed
   * @throws {@link OptionError} the name is not usable
   */
  async inspect(name: string): Promise<Inspection | undefined> {
    return await inspectLock(this.#session, this.#server, parseName(name));
  }

  /**
   * Lists the locks that are held, of all clients, in no order. It goes through all keys of the server in small steps, in a cluster of all
   * masters, and needs the permission for SCAN. A lock that is taken or released meanwhile may be left out.
   *
   * @throws {@link UnavailableError} Redis did not answer within `commandTimeout`, or refuses
   * @throws {@link ClosedError} the client is closed
   * @throws {@link OptionError} an option is not usable
   * @example
   * ```ts
   * for await (const { name, holders } of holdfast.list({ prefix: 'orders:' })) console.log(name, holders);
   * ```
   */
  list(options: ListOptions = {}): AsyncIterableIterator<Inspection> {
    return list(this.#session, this.#server, parseList(options));
  }

  /**
   * Frees what one owner has of a semaphore or a read-write lock, also if it has released that and it stays taken, and lets in the next in
   * line. The owner is left word that it was forced out. For the command line.
   *
   * @returns false: the owner has nothing of it (any more)
   * @internal
   */
  async releaseOwner(
    name: string,
    kind: 'semaphore' | 'read-write',
    ownerId: string,
  ): Promise<boolean> {
    const { newOwnerId, lockWatchdogTimeoutMs } = this.#session;
    const lock =
      kind === 'semaphore'
        ? new SemaphoreBackend(this.#server, newOwnerId, parseName(name), 1, 1)
        : new ReadWriteBackend(this.#server, newOwnerId, parseName(name), 'read');
    return await this.#session.askOnce(lock, 'not known to be freed', () =>
      lock.free(ownerId, 2 * lockWatchdogTimeoutMs),
    );
  }

  get #sessions(): Session[] {
    return this.#quorum ? [this.#session, this.#quorum.session] : [this.#session];
  }

  /** Its client id, the state of its connection, and how many locks it holds; nothing about how it connects, such as a password. */
  toJSON(): HoldfastDescription {
    const { clientId, grants } = this.#session;
    const keptCount = grants.idleCount;
    const heldCount = grants.size - keptCount + (this.#quorum?.session.grants.size ?? 0);
    return { clientId, state: this.status, heldCount, keptCount };
  }

  /** The same for `util.inspect` and `console.log`. @internal */
  [inspect.custom](depth: number, options: InspectOptions): string {
    return inspected('Holdfast', this.toJSON(), depth, options);
  }

  async #close(): Promise<void> {
    await this.#session.close(this.#quorum?.close());
    await this.#server.close();
    this.#session.schedule.stop();
    this.#listeners.closed();
    this.#leaveProcess();
  }
}
