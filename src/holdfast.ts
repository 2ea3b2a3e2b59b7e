// The client: where locks come from.

import { inspect, type InspectOptionsStylized } from 'node:util';
import { runAsOneOwner } from './core/run.js';
import { Listeners } from './core/listeners.js';
import { Session } from './core/session.js';
import { inspected, type HoldfastDescription } from './api/description.js';
import type { HoldfastEvents } from './api/events.js';
import type { FairLock } from './api/fair-lock.js';
import type { FencedLock, FencedLockOptions } from './api/fenced-lock.js';
import type { Lock } from './api/lock.js';
import type { ReadWriteLock } from './api/read-write-lock.js';
import type { Semaphore, SemaphoreOptions } from './api/semaphore.js';
import { FairSingleLock } from './locks/fair/fair-single-lock.js';
import { FairLockBackend } from './locks/fair/fair-backend.js';
import { fencedLock, fencedLockOver } from './locks/fenced/fenced-single-lock.js';
import { ReadWriteSingleLock } from './locks/read-write/read-write-single-lock.js';
import { ReentrantLockBackend } from './locks/reentrant/reentrant-backend.js';
import { MultiLock } from './locks/multi/multi-lock.js';
import { Server } from './core/server.js';
import { parseFunction, parseName, type RedLockOptions } from './api/options.js';
import { FencedRedLockBackend } from './locks/red/fenced-red-backend.js';
import { parseRedLock } from './locks/red/masters.js';
import { QuorumServices } from './locks/red/quorum-services.js';
import { RedLockBackend } from './locks/red/red-backend.js';
import { Schedule } from './runtime/schedule.js';
import { ioredisDriver } from './redis/ioredis/driver.js';
import { outsideScopes } from './scopes/scope.js';
import { SingleLock } from './locks/single-lock.js';
import { SingleSemaphore } from './locks/shared/single-semaphore.js';
import type { HoldfastOptions, HoldfastStatus, PingOptions } from './holdfast-options.js';
import { parseHoldfastOptions, parsePing } from './holdfast-options.js';

/**
 * A client of one Redis or Valkey (standalone, Sentinel or cluster), and the locks on it.
 *
 * It has two connections of its own: one for commands, one for subscriptions as soon as something waits; with `replicas` a third.
 *
 * ```ts
 * const holdfast = new Holdfast({ redis: 'redis://localhost:6379' });
 * await holdfast.getLock('orders:42').withLock(async () => { … });
 * await holdfast.close();
 * ```
 *
 * @group The client
 */
export class Holdfast implements AsyncDisposable {
  readonly #session: Session;
  readonly #server: Server;
  readonly #listeners = new Listeners();
  #quorum: QuorumServices | undefined;
  #closing: Promise<void> | undefined;

  /**
   * Connects at once, in the background; locks wait for the connection.
   *
   * @throws {@link OptionError} an option is missing, unknown or out of range
   */
  constructor(options: HoldfastOptions) {
    const given = parseHoldfastOptions(options);
    const driver = ioredisDriver(options.redis);
    const schedule = new Schedule();
    this.#server = new Server({ driver, ...given }, this.#listeners, schedule);
    this.#session = new Session({ ...given, schedule }, this.#server.connection, this.#listeners);
    this.#server.connection.onReady(this.#session.cleanup.tryAgain);
  }

  /**
   * How the connection is that locks go by: `connecting` also means connecting anew, for as long as Redis is down; `refused`,
   * that Redis does not let us in (a wrong password, a server too old), so that calls fail at once; it is tried again all the time.
   */
  get status(): HoldfastStatus {
    return this.#closing ? 'closed' : this.#server.connection.status;
  }

  /**
   * Asks Redis whether it is there; in a cluster, all masters. For health checks: it does not wait for a server that is known
   * to be down, and needs the permission for PING.
   *
   * @returns in how many milliseconds the answer came
   * @throws {@link UnavailableError} no answer came within `timeout`, `commandTimeout` by default; Redis cannot be reached, or
   *   refuses us: the message says why
   * @throws {@link ClosedError} this client is closed
   * @throws {@link OptionError} `timeout` is not usable
   */
  async ping(options: PingOptions = {}): Promise<number> {
    const { commandTimeoutMs, acquisitions } = this.#session;
    const limitMs = parsePing(options) ?? commandTimeoutMs;
    this.#session.assertOpen();
    return await this.#server.ping(limitMs, acquisitions);
  }

  /** Identifies this client on the server. */
  get clientId(): string {
    return this.#session.clientId;
  }

  /**
   * The reentrant lock of this name. Not fair: who is woken first, tries first.
   *
   * @param name - 1 to 1,024 bytes; in a cluster it may bring its own `{hash tag}`
   * @throws {@link OptionError} the name is not usable
   */
  getLock(name: string): Lock {
    return new SingleLock(this.#session, this.#backend(ReentrantLockBackend, name));
  }

  /**
   * The fair lock of this name: reentrant, first come first served. The same lock as `getLock(name)`, whose callers do not
   * stand in line.
   *
   * @param name - 1 to 1,024 bytes; in a cluster it may bring its own `{hash tag}`
   * @throws {@link OptionError} the name is not usable
   */
  getFairLock(name: string): FairLock {
    return new FairSingleLock(this.#session, this.#backend(FairLockBackend, name));
  }

  /**
   * The fenced lock of this name: each holder gets a token larger than all before it, for the guarded resource to check. Otherwise
   * as `getLock(name)`, or with `fair` as `getFairLock(name)`, and the same lock.
   *
   * @param name - 1 to 1,024 bytes; in a cluster it may bring its own `{hash tag}`
   * @throws {@link OptionError} the name or an option is not usable
   */
  getFencedLock(name: string, options: FencedLockOptions = {}): FencedLock {
    return fencedLock(this.#session, this.#server, name, options);
  }

  /**
   * The read-write lock of this name: many may read at the same time, whoever writes is alone; first come, first served.
   *
   * @param name - 1 to 1,024 bytes; in a cluster it may bring its own `{hash tag}`
   * @throws {@link OptionError} the name is not usable
   */
  getReadWriteLock(name: string): ReadWriteLock {
    return new ReadWriteSingleLock(this.#session, this.#server, name);
  }

  /**
   * The semaphore of this name: as many holders as there are permits, first come first served, each permit a lease. A name is that of
   * a semaphore or of a lock, not of both.
   *
   * @param name - 1 to 1,024 bytes; in a cluster it may bring its own `{hash tag}`
   * @param options - `permits`: how many there are, the same number for all who use it
   * @throws {@link OptionError} the name or the number is not usable
   */
  getSemaphore(name: string, options: SemaphoreOptions): Semaphore {
    return new SingleSemaphore(this.#session, this.#server, name, options);
  }

  /**
   * A lock of several locks: all of them, or none. They may be reentrant, fair, fenced, or Redlocks, and of different clients.
   * Inside it, each member is held, too: a fenced one has its own token there, and the whole has none. Callers may name the same
   * locks in different orders.
   *
   * @param locks - at least one, each once, no MultiLock
   * @throws {@link OptionError} a member cannot be one
   */
  getMultiLock(...locks: Lock[]): Lock {
    return new MultiLock(this.#session, locks);
  }

  /**
   * A lock on several independent masters, held by whoever most of them say holds it: it outlives the loss of any minority of
   * them. Redis' Redlock, see https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/.
   *
   * @param locks - locks of `getLock` of one name, each from its own Holdfast on its own master; an odd number is best. Or all of
   *   `getFencedLock`, and not `fair`: then it is a fenced lock, too, whose tokens grow over all masters
   * @throws {@link OptionError} a member cannot be one
   */
  getRedLock(...locks: FencedLock[]): FencedLock;
  /** The same, of locks of `getLock`. */
  getRedLock(...locks: Lock[]): Lock;
  /**
   * The same, with options, which come last.
   *
   * @param locksAndOptions - the locks, and then {@link RedLockOptions}
   * @throws {@link OptionError} a member cannot be one, or an option is not usable
   */
  getRedLock(...locksAndOptions: [...FencedLock[], RedLockOptions]): FencedLock;
  /** The same, of locks of `getLock`, and with options. */
  getRedLock(...locksAndOptions: [...Lock[], RedLockOptions]): Lock;
  getRedLock(...given: unknown[]): Lock {
    const parts = parseRedLock(given);
    const quorum = (this.#quorum ??= new QuorumServices(this.#session, this.#listeners));
    return parts.isFenced
      ? fencedLockOver(quorum.session, new FencedRedLockBackend(parts, quorum))
      : new SingleLock(quorum.session, new RedLockBackend(parts, quorum));
  }

  /**
   * Runs `fn` as one owner: all `lock()` calls inside belong to it, as they would belong to one thread. Locks that are
   * still held when `fn` ends are released, and a `warning` is emitted. The scope is the process's: it holds for the
   * locks of other clients, too.
   *
   * @returns what `fn` returns
   */
  async run<T>(fn: () => T | Promise<T>): Promise<T> {
    parseFunction(fn, 'the function given to run()');
    return await runAsOneOwner(fn, this.#session.warnings);
  }

  /** Runs `fn` outside all scopes: for work that outlives the request or job that starts it. Returns what `fn` returns. */
  detach<T>(fn: () => T): T {
    parseFunction(fn, 'the function given to detach()');
    return outsideScopes(fn);
  }

  /** Adds a listener. One that throws is reported by `process.emitWarning`; of an `error` without listener the process is warned, once in an outage. */
  on<Name extends keyof HoldfastEvents>(name: Name, listener: HoldfastEvents[Name]): this {
    this.#listeners.on(name, listener);
    return this;
  }

  /** Adds a listener for the next such event only. */
  once<Name extends keyof HoldfastEvents>(name: Name, listener: HoldfastEvents[Name]): this {
    this.#listeners.once(name, listener);
    return this;
  }

  /** Removes a listener. */
  off<Name extends keyof HoldfastEvents>(name: Name, listener: HoldfastEvents[Name]): this {
    this.#listeners.off(name, listener);
    return this;
  }

  /**
   * Ends all waits with {@link ClosedError}, takes back and releases what is held (the holds' signals abort), and closes
   * the connections. If something may stand on a server that is away, it has `commandTimeout` to come back; that bounds it
   * all. Never rejects; once more is harmless.
   */
  close(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  /** Closes it at the end of an `await using` block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Who it is on the server, the state of its connection, and how many locks it holds. Nothing of how it connects. */
  toJSON(): HoldfastDescription {
    const { clientId, grants } = this.#session;
    const heldCount = grants.size + (this.#quorum?.session.grants.size ?? 0);
    return { clientId, state: this.status, heldCount };
  }

  /** The same for `util.inspect` and `console.log`. @internal */
  [inspect.custom](depth: number, options: InspectOptionsStylized): string {
    return inspected('Holdfast', this.toJSON(), depth, options);
  }

  async #close(): Promise<void> {
    await this.#session.close(this.#quorum?.close());
    await this.#server.close();
    this.#session.schedule.stop();
  }

  #backend<Backend>(
    Kind: new (...args: ConstructorParameters<typeof ReentrantLockBackend>) => Backend,
    name: unknown,
  ): Backend {
    const { newOwnerId } = this.#session;
    return new Kind(this.#server, this.#server.keyPrefix, parseName(name), newOwnerId);
  }
}
