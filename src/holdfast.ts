// The client: its connection, its events, its scopes, and its end. Its locks come from locks/lock-source.ts.

import { inspect, type InspectOptionsStylized } from 'node:util';
import { newClientId, ownersOf } from './core/client-id.js';
import { runAsOneOwner } from './core/run.js';
import { Listeners } from './core/listeners.js';
import { Session } from './core/session.js';
import { inspected, type HoldfastDescription } from './api/description.js';
import type { HoldfastEvents } from './api/events.js';
import { Server } from './core/server.js';
import { parseFunction } from './api/options.js';
import { inTurn } from './runtime/loop-turns.js';
import { Schedule } from './runtime/schedule.js';
import { libraryFor } from './redis/installed.js';
import { outsideScopes } from './scopes/scope.js';
import { LockSource } from './locks/lock-source.js';
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
export class Holdfast extends LockSource implements AsyncDisposable {
  readonly #session: Session;
  readonly #server: Server;
  readonly #listeners: Listeners;
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
    const clientId = given.clientId ?? newClientId(random);
    const schedule = new Schedule(clock);
    const listeners = new Listeners();
    const server = new Server({ library, ...given }, listeners, schedule);
    const session = new Session(
      { ...given, clientId, newOwnerId: ownersOf(clientId, random), schedule },
      server.connection,
      listeners,
    );
    super(session, server, listeners);
    this.#server = server;
    this.#session = session;
    this.#listeners = listeners;
    server.connection.onReady(session.cleanup.connected);
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

  /** Identifies this client on the server. */
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
    const heldCount = grants.size + (this.quorum?.session.grants.size ?? 0);
    return { clientId, state: this.status, heldCount };
  }

  /** The same for `util.inspect` and `console.log`. @internal */
  [inspect.custom](depth: number, options: InspectOptionsStylized): string {
    return inspected('Holdfast', this.toJSON(), depth, options);
  }

  async #close(): Promise<void> {
    await this.#session.close(this.quorum?.close());
    await this.#server.close();
    this.#session.schedule.stop();
  }
}
