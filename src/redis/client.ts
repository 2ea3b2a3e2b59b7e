// One client's way to Redis: a lasting session for commands; a second one if replicas have to acknowledge; connections for subscriptions.
// The layers above know no client library, no node, and no attempt to connect.

import { nextTick } from 'node:process';
import type { Events } from '../api/events.js';
import { UnavailableError } from '../api/errors.js';
import { NO_LIMIT, PROCESS_CLOCK, PROCESS_RANDOM, type TimeLimit } from '../runtime/clock.js';
import { inOwnContext } from '../runtime/node.js';
import type { WaitLimit } from '../runtime/wait-limit.js';
import { Cluster, type Watcher } from './cluster.js';
import {
  assertWanted,
  denied,
  describe,
  isCrossSlot,
  isReadOnly,
  isUnknownScript,
  mayConcernSome,
  redirectionOf,
  replyError,
  UnsentError,
} from './failure.js';
import { infoField, UNKNOWN_SERVER, type ServerFacts } from './greeting.js';
import { Outage, Reconnecting, Refusals, type Way } from './reconnecting.js';
import { textOf, type Argument, type Library, type Sender, type Target } from './port.js';
import { reading } from './replies.js';
import { Replicated, type ReplicatedOptions } from './replicas.js';
import type { Script } from './scripts.generated.js';
import { Sentinels, SentinelSession } from './sentinel.js';
import type { Session, Surroundings } from './session.js';
import { SLOT_COUNT, slotOf, tagOf } from './keys.js';
import { isUploading, uploading } from './uploads.js';
import { Tracking } from './tracking.js';
import { Wire } from './wire.js';

/** How many keys one step of SCAN looks at: the server is busy for a millisecond or two. */
const KEYS_PER_STEP = 1_000;

/** In how many slots a client of one node looks whether there are other nodes. */
const PROBED_SLOTS = 64;

export interface RedisClientOptions extends ReplicatedOptions {
  library: Library;
}

/** Callbacks of a client. */
export interface ClientListener {
  /** There is a new connection; `isAnother`: it may be to another server. */
  ready(isAnother: boolean): void;
  /** The server begins to refuse this client: waiting for the connection does not help. */
  refused(): void;
  /** The connection is not ready; `lastError` says what is wrong. */
  failed(): void;
  /**
   * A cluster node was lost, or slots have moved, while commands can be sent; `isDisturbed`: whether that concerns the slot of a hash tag.
   */
  disturbed(isDisturbed: (hashTag: string) => boolean): void;
  /** A server may deliver the messages of other channels than before. */
  nodesChanged(): void;
}

export class RedisClient {
  readonly surroundings: Surroundings;
  /** What the server said in the greeting. */
  server: ServerFacts = UNKNOWN_SERVER;
  readonly refusals: Refusals;
  readonly tracking: Tracking;
  readonly #events: Events;
  readonly #commands: Reconnecting;
  readonly #replicated: Replicated | undefined;
  readonly #listeners = new Set<Partial<ClientListener>>();
  /** Where Redis is. A single server may turn out to be a node of a cluster. */
  #target: Target;
  #sentinels: Sentinels | undefined;
  #areSlotsApart = false;
  /** The masters by slot, at the last look-up of slots. */
  #mastersBySlot: readonly (string | undefined)[] = [];
  /** Sends the postponed commands, at the end of this turn of the event loop. */
  #postponed: (() => void) | undefined;

  constructor(options: RedisClientOptions, events: Events) {
    const { library, silenceLimitMs, replicas } = options;
    const { clock = PROCESS_CLOCK, random = PROCESS_RANDOM } = library;
    this.surroundings = { library, silenceLimitMs, clock, random, closing: new Set() };
    this.#events = events;
    this.#target = library.target;
    this.refusals = new Refusals(events, clock, () => this.place);
    this.#commands = new Reconnecting(this.surroundings, this.outageOf('commands'), {
      ...this.#way,
      ready: (server) => {
        const isAnother = server.id === undefined || server.id !== this.server.id;
        this.server = server;
        this.#tell('ready', isAnother);
        this.#tell('nodesChanged');
      },
      refused: () => {
        this.#tell('refused');
      },
      failed: () => {
        this.#tell('failed');
      },
    });
    this.tracking = new Tracking(this);
    const outage = this.outageOf('acknowledged commands');
    const acknowledged = replicas > 0 && new Reconnecting(this.surroundings, outage, this.#way);
    if (acknowledged) this.#replicated = new Replicated(acknowledged, options, clock);
    this.#sentinels?.onSwitch((_, isTold) => {
      if (!isTold) return;
      this.#commands.hurry();
      if (acknowledged) acknowledged.hurry();
    });
  }

  get isReady(): boolean {
    return this.#commands.isReady;
  }

  /** The state of the connection for commands; `degraded`: a master of the cluster cannot be reached. */
  get status(): Reconnecting['status'] | 'degraded' {
    const { status } = this.#commands;
    return status === 'ready' && this.cluster?.isDegraded ? 'degraded' : status;
  }

  /** Why waiting for that connection would not help; undefined: it would. */
  get refusal(): Error | undefined {
    return this.#commands.refusal;
  }

  /** The latest error of the connection; undefined while it is ready. */
  get lastError(): Error | undefined {
    return this.#commands.lastError;
  }

  /** Says which handshake commands wait for; undefined: none. */
  get opening(): Error | undefined {
    return this.#commands.session?.opening;
  }

  get isCluster(): boolean {
    return this.#target.kind === 'cluster';
  }

  /** The session with the cluster, if Redis is one and can be used now. */
  get cluster(): Cluster | undefined {
    const { session } = this.#commands;
    return session instanceof Cluster && session.isReady ? session : undefined;
  }

  /**
   * Whether the keys of one command must be in one slot: in a cluster, and after an error that says so, as from a proxy in front of one.
   */
  get isSlotted(): boolean {
    return this.isCluster || this.#areSlotsApart;
  }

  /** The address of the one server that commands go to; undefined: there are several, or it is not known at present. */
  get address(): Session['address'] {
    if (this.#target.kind === 'single') return this.#target.address;
    return this.isReady ? this.#commands.session?.address : undefined;
  }

  /** Where Redis is, for messages. */
  get place(): string {
    const target = this.#target;
    if (target.kind === 'single') return textOf(target.address);
    if (target.kind === 'cluster') return 'cluster';
    const [sentinel = 'nobody'] = target.sentinels.map(textOf);
    return `${target.name} by ${sentinel}`;
  }

  /** The number of the database on it. */
  get database(): number {
    return this.#way.database();
  }

  /** Whether Sentinels name the server: a server that takes over may miss the latest writes. */
  get hasSentinels(): boolean {
    return this.#target.kind === 'sentinel';
  }

  /**
   * The server or cluster node, and the database, that have a key, in the same words for all clients; undefined: the server does not say.
   */
  async homeOf(key: string, limit: WaitLimit): Promise<string | undefined> {
    await this.whenReady(limit);
    let { id } = this.server;
    if (this.isCluster) {
      // Any node may have answered the greeting, so the node that has the key is asked.
      const node = this.senderFor(key);
      if (!node) throw new UnsentError(`no connection to the node that has "${key}"`);
      const read = (info: unknown): string | undefined => infoField(info, 'run_id');
      const untold = (error: Error): Promise<undefined> | undefined =>
        mayConcernSome(error) ? Promise.resolve(undefined) : undefined;
      id = await limit.within(this.#commands.ask('info', ['server'], read, untold, node));
    }
    return id === undefined ? undefined : `run_id ${id}, database ${this.database}`;
  }

  whenReady(limit: WaitLimit): Promise<void> {
    return this.#commands.whenReady(limit);
  }

  /** Calls the listener from now on, until the returned function is called. */
  listen(listener: Partial<ClientListener>): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Makes the outages of a new connection. `role`: what the connection is for. */
  outageOf(role: string): Outage {
    return new Outage(this.#events, this.surroundings.clock, role);
  }

  /** Whether a command is unanswered, or is to be sent at the end of this turn of the event loop. */
  get isBusy(): boolean {
    return this.#postponed !== undefined || this.#commands.session?.owesAnswer === true;
  }

  /** Calls `send` at the end of this turn of the event loop; earlier if another command is to be sent, so that none overtakes it. */
  postpone(send: () => void): void {
    this.#sendPostponed();
    this.#postponed = send;
    nextTick(this.#sendPostponed);
  }

  /** Sends the postponed commands, without waiting for the end of the turn. */
  sendNow(): void {
    this.#sendPostponed();
    this.#commands.session?.flush();
  }

  /** The one server, or the cluster node that has a key, as far as is known; it follows no redirection. */
  senderFor(key: string): Sender | undefined {
    const { session } = this.#commands;
    return session instanceof Cluster ? session.nodeOf(key) : session;
  }

  /**
   * Runs a script once: by EVALSHA, or, if the server did not know it, by EVAL or behind another call's EVAL, unless the limit is over by
   * then. `sender` may be one cluster node.
   */
  run<T>(
    script: Script,
    keys: readonly string[],
    args: readonly Argument[],
    read: (reply: unknown) => T,
    limit: TimeLimit = NO_LIMIT,
    sender?: Sender,
  ): Promise<T> {
    this.#sendPostponed();
    const readChecked = reading(script, keys, args, read);
    const parts = [script.sha1 as Argument, keys.length].concat(keys, args);
    let isBehind = false;
    const otherwise = (error: Error): Promise<T> | undefined => {
      const isInFull = parts[0] === script.source;
      if (isInFull || !isUnknownScript(error)) return denied(error, script, keys);
      assertWanted(limit);
      const at = sender ?? this.senderFor(keys[0] ?? '');
      if (!isBehind && isUploading(at, script)) {
        isBehind = true;
        return this.#commands.ask('evalsha', parts, readChecked, otherwise, sender);
      }
      parts[0] = script.source;
      return uploading(
        at,
        script,
        this.#commands.ask('eval', parts, readChecked, otherwise, sender),
      );
    };
    return this.#commands.ask('evalsha', parts, readChecked, otherwise, sender);
  }

  /** Whether the effects of some scripts count only when replicas have acknowledged them. */
  get isReplicated(): boolean {
    return this.#replicated !== undefined;
  }

  /** Like `run`, but an effect counts only when enough replicas have acknowledged it. `isEffect`: whether a reply means an effect. */
  runReplicated<T>(
    script: Script,
    keys: readonly string[],
    args: readonly Argument[],
    read: (reply: unknown) => T,
    isEffect: (reply: T) => boolean,
    limit: TimeLimit = NO_LIMIT,
  ): Promise<T> {
    return this.#replicated
      ? this.#replicated.run(
          { script, keys, args },
          reading(script, keys, args, read),
          isEffect,
          limit,
        )
      : this.run(script, keys, args, read, limit);
  }

  command(command: Lowercase<string>, ...args: readonly Argument[]): Promise<unknown> {
    this.#sendPostponed();
    return this.#commands.ask(command, args, (reply) => reply);
  }

  /**
   * Pings the server, or every master of the cluster; rejects with the name of a master that is gone. `asked`: receives the masters that
   * have not answered yet.
   */
  async ping(asked: Set<string>): Promise<void> {
    const { cluster } = this;
    if (!cluster) {
      await this.#commands.ask('ping', [], Boolean);
      return;
    }
    const pings = cluster.masters.map(async (address) => {
      const failed = (error?: Error): Promise<never> => {
        const cause = cluster.goneFor(address) ?? error;
        const why = cause ? `: ${describe(cause)}` : '';
        const message = `the node ${address} of the cluster cannot be reached${why}`;
        return Promise.reject(new UnavailableError(message, { cause }));
      };
      asked.add(address);
      await (cluster.node(address)?.send('ping', [], Boolean, failed) ?? failed());
      asked.delete(address);
    });
    await Promise.all(pings);
  }

  /**
   * The masters that have keys, by address; undefined: there is one server. A client that knows of one node of a cluster finds the others:
   * some key is not there, and the node says so.
   */
  async findMasters(keyPrefix: string, limit: TimeLimit): Promise<readonly (string | undefined)[]> {
    if (this.#target.kind === 'single' && this.server.isClusterNode) {
      for (let slot = 0; slot < SLOT_COUNT; slot += SLOT_COUNT / PROBED_SLOTS) {
        try {
          await this.command('exists', `${keyPrefix}{${tagOf(slot)}}`);
        } catch (error) {
          if (!this.isCluster) throw error;
        }
        assertWanted(limit);
        if (this.isCluster) throw new UnsentError('the cluster is not known yet'); // to be asked again
      }
    }
    if (!this.isCluster) return [undefined];
    if (!this.cluster) throw new UnsentError('the cluster is not known yet');
    return this.cluster.masters;
  }

  /** One step over the hashes of one master, from a cursor to the next; '0' ends it. */
  scanHashes(
    cursor: string,
    pattern: string,
    master: string | undefined,
  ): Promise<{ cursor: string; keys: readonly string[] }> {
    const sender = master === undefined ? undefined : this.cluster?.node(master);
    if (master !== undefined && !sender)
      return Promise.reject(new UnsentError(`the node ${master} of the cluster cannot be reached`));
    const args = [cursor, 'MATCH', pattern, 'COUNT', KEYS_PER_STEP, 'TYPE', 'hash'];
    const read = (reply: unknown): { cursor: string; keys: readonly string[] } => {
      const [next, keys] = reply as [string, string[]];
      return { cursor: next, keys };
    };
    return this.#commands.ask('scan', args, read, undefined, sender);
  }

  /** Resolves when all its sockets are gone, except those of subscriptions. */
  async close(): Promise<void> {
    this.#sendPostponed();
    this.tracking.close();
    this.#commands.close();
    this.#replicated?.close();
    this.#sentinels?.close();
    await Promise.all(this.surroundings.closing);
  }

  readonly #way: Way = {
    place: () => this.place,
    database: () => (this.#target.kind === 'cluster' ? 0 : this.#target.database),
    open: (heard) => {
      const target = this.#target;
      if (target.kind === 'single')
        return new Wire(this.surroundings, target.address, 'commands', heard);
      if (target.kind === 'cluster')
        return new Cluster(this.surroundings, target, this.#watcher, heard);
      this.#sentinels ??= new Sentinels(this.surroundings, target);
      return new SentinelSession(this.surroundings, this.#sentinels, heard);
    },
    explain: (error) => {
      const { session } = this.#commands;
      const target = this.#target;
      this.#areSlotsApart ||= isCrossSlot(error);
      if (session && target.kind === 'single' && redirectionOf(error)) {
        // The one server is a cluster node, and another node has the key.
        const startup = [target.address];
        this.#target = { kind: 'cluster', startup, remap: () => undefined };
        this.#commands.leave(session);
        this.#replicated?.leaveSession();
      }
      if (this.isCluster || !isReadOnly(error)) return error;
      const hint = `${this.place} is a read-only replica: if it stays one, give the address of the master, a "primary endpoint"`;
      return replyError(`${describe(error)} (${hint})`, { cause: error });
    },
  };

  readonly #watcher: Watcher = {
    refreshed: (cluster) => {
      if (cluster !== this.cluster) return;
      const former = this.#mastersBySlot;
      const current = Array.from({ length: SLOT_COUNT }, (_, slot) => cluster.masterOf(slot));
      this.#mastersBySlot = current;
      const isMoved = (slot: number): boolean => current[slot] !== former[slot];
      if (this.isReady && former.length > 0 && current.some((_, slot) => isMoved(slot)))
        this.#tell('disturbed', (tag) => isMoved(slotOf(tag)));
      this.#tell('nodesChanged');
    },
    nodeLost: (address) => {
      const masters = this.#mastersBySlot;
      if (this.isReady) this.#tell('disturbed', (tag) => masters[slotOf(tag)] === address);
      this.#tell('nodesChanged');
    },
  };

  #tell<Name extends keyof ClientListener>(
    name: Name,
    ...what: Parameters<ClientListener[Name]>
  ): void {
    for (const listener of this.#listeners)
      (listener[name] as ((...what: unknown[]) => void) | undefined)?.(...what);
  }

  /** Called at the end of the turn, and before another command is sent. */
  readonly #sendPostponed = (): void => {
    const send = this.#postponed;
    this.#postponed = undefined;
    // Not in the context of the caller that sends another command now, which has nothing to do with these.
    if (send) inOwnContext(send);
  };
}
