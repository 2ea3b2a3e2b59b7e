// The client: where locks come from, its connection, its events, its scopes, and its end.

import { inspect, type InspectOptionsStylized } from 'node:util';
import type { HoldfastEvents } from './api/events.js';
import type { FairLock, FencedLock, FencedLockOptions, Lock } from './api/lock.js';
import { parseFunction, parseName, type RedLockOptions } from './api/options.js';
import type { ReadWriteLock } from './api/read-write-lock.js';
import type { Semaphore, SemaphoreOptions } from './api/semaphore.js';
import { Server } from './core/server.js';
import { newClientId, runAsOneOwner, Session } from './core/session.js';
import { FairLockBackend, FairSingleLock } from './locks/fair.js';
import { fencedLockOver, parseFencedLock } from './locks/fenced.js';
import { MultiLock } from './locks/multi.js';
import { ReadWriteSingleLock } from './locks/read-write.js';
import { parseRedLock } from './locks/redlock/parts.js';
import { QuorumServices, RedLockBackend } from './locks/redlock/redlock.js';
import { ReentrantLockBackend } from './locks/plain.js';
import { SingleSemaphore } from './locks/semaphore.js';
import { SingleLock } from './locks/single-lock.js';
import { Listeners } from './core/events.js';
import { type HoldfastDescription, inspected } from './api/description.js';
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
  /** What its Redlocks share; undefined: it has made none. */
  #quorum: QuorumServices | undefined;
  #closing: Promise<void> | undefined;

  /**
   * Connects at once, in the background; locks wait for the connection.
   *
   * @throws {@link OptionError} an option is missing, unknown or out of range
   */
  constructor(options: HoldfastOptions) {
    const given = parseHoldfastOptions(options);
    const library = libraryFor(options.redis);
    const { clock, random } = library;
    const clientId = newClientId(given.clientId, random);
    const schedule = new Schedule(clock);
    const events = this.#listeners;
    this.#server = new Server({ library, ...given }, events, schedule);
    const { connection } = this.#server;
    this.#session = new Session({ ...given, clientId, schedule }, connection, events);
    connection.listen({ ready: this.#session.cleanup.connected });
  }

  /**
   * The reentrant lock of this name. Not fair: who is woken first, tries first.
   *
   * @param name - 1 to 1,024 bytes; in a cluster it may bring its own `{hash tag}`
   * @throws {@link OptionError} the name is not usable
   */
  getLock(name: string): Lock {
    return new SingleLock(this.#session, this.#plain(parseName(name)));
  }

  /**
   * The fair lock of this name: reentrant, first come first served. The same lock as `getLock(name)`, whose callers do not
   * stand in line.
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
   * behaves as `getLock(name)`, or with `fair` as `getFairLock(name)`, and is the same lock.
   *
   * @param name - 1 to 1,024 bytes; in a cluster it may bring its own `{hash tag}`
   * @throws {@link OptionError} the name or an option is not usable
   */
  getFencedLock(name: string, options: FencedLockOptions = {}): FencedLock {
    const lockName = parseName(name);
    const { isFair, tokenTtlMs } = parseFencedLock(lockName, options);
    const plain = this.#plain(lockName, tokenTtlMs);
    return fencedLockOver(this.#session, isFair ? new FairLockBackend(this.#server, plain) : plain);
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
   * A lock of several locks: all of them, or none. They may be reentrant, fair, fenced, one half of a read-write lock, or Redlocks,
   * and of different clients. Inside it, each member is held, too: a fenced one has its own token there, and the whole has none.
   * Callers may name the same locks in different orders.
   *
   * @param locks - at least one, each once, no MultiLock. Two that turn out to be the same key of the same server, by two clients, are an
   *   {@link OptionError} when it is acquired
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
  /** A Redlock over locks of `getLock`, without tokens. */
  getRedLock(...locks: Lock[]): Lock;
  /**
   * A Redlock over locks of `getFencedLock`, with options, which come last.
   *
   * @param locksAndOptions - the locks, and then {@link RedLockOptions}
   * @throws {@link OptionError} a member cannot be one, or an option is not usable
   */
  getRedLock(...locksAndOptions: [...FencedLock[], RedLockOptions]): FencedLock;
  /** A Redlock over locks of `getLock`, with options, which come last. */
  getRedLock(...locksAndOptions: [...Lock[], RedLockOptions]): Lock;
  getRedLock(...given: unknown[]): Lock {
    const parts = parseRedLock(given);
    const quorum = (this.#quorum ??= new QuorumServices(this.#session, this.#listeners));
    const backend = new RedLockBackend(parts, quorum);
    return parts.isFenced
      ? fencedLockOver(quorum.session, backend)
      : new SingleLock(quorum.session, backend);
  }

  /** `tokenTtlMs`: how long a fenced lock's tokens are remembered; left out: it is none. */
  #plain(name: string, tokenTtlMs?: number): ReentrantLockBackend {
    const { keyPrefix } = this.#server;
    return new ReentrantLockBackend(
      this.#server,
      keyPrefix,
      name,
      this.#session.newOwnerId,
      tokenTtlMs,
    );
  }

  /**
   * The state of the connection that locks use. `connecting`: also while it is made anew, for as long as Redis is down. `refused`:
   * Redis does not let this client in (a wrong password, a server too old), so that calls fail at once; the client goes on trying.
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
    if (this.#session.isClosed) throw await inTurn(this.#session.closedError());
    return await this.#server.ping(limitMs, acquisitions);
  }

  /** Identifies this client on the server; no other one has the same. */
  get clientId(): string {
    return this.#session.clientId;
  }

  /**
   * Runs `fn` as one owner: all `lock()` calls inside belong to it, as they would belong to one thread. Locks that are
   * still held when `fn` ends are released, and a `warning` is emitted. The scope is not this client's alone: it holds
   * for the locks of other clients in the process, too.
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

  /** Adds a listener. One that throws is reported by `process.emitWarning`, and so is an `error` without a listener, once in an outage. */
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
   * the connections. If something may be left on a server that is down, that has `commandTimeout` to come back, which, with
   * half a second for the sockets, bounds the whole call. Never rejects; calling it again is harmless.
   */
  close(): Promise<void> {
    if (!this.#closing) {
      // There is the promise before anything is done: a listener that is told of a loss may call close(), too.
      let settle!: (closed: Promise<void>) => void;
      this.#closing = new Promise((resolve) => (settle = resolve));
      settle(this.#close());
    }
    return this.#closing;
  }

  /** Closes it at the end of an `await using` block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Its client id, the state of its connection, and how many locks it holds; nothing of how it connects, such as a password. */
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
}
