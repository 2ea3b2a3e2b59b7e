// One client's way to Redis: a session for commands, kept; a second one where replicas have to acknowledge; connections for subscriptions. What is
// above it knows of no client library, no node, and no attempt to connect.

import { nextTick } from 'node:process';
import type { Events } from '../api/events.js';
import { UnavailableError } from '../api/errors.js';
import { NO_LIMIT, PROCESS_CLOCK, PROCESS_RANDOM, type TimeLimit } from '../runtime/clock.js';
import { inOwnContext } from '../runtime/own-context.js';
import type { WaitLimit } from '../runtime/wait-limit.js';
import { Cluster } from './cluster.js';
import {
  assertWanted,
  describe,
  failureKind,
  isReply,
  isUnknownScript,
  redirectionOf,
  UnsentError,
} from './failure.js';
import { Greeting, runIdIn, selectDatabase, type ServerFacts } from './greeting.js';
import { Outage } from './outage.js';
import {
  textOf,
  type Address,
  type Argument,
  type Library,
  type Sender,
  type Target,
} from './port.js';
import { Reconnecting, type LinkStatus, type ReconnectingListener } from './reconnecting.js';
import { Refusals } from './refusals.js';
import { Replicated, type ReplicatedOptions } from './replicas.js';
import { denied } from './script-denial.js';
import type { Script } from './scripts.generated.js';
import { Sentinels, SentinelSession } from './sentinel.js';
import type { Session, SessionHeard, Surroundings } from './session.js';
import { SLOT_COUNT, slotOf } from './slots.js';
import { Wire } from './wire.js';

/** Whether the slot of the keys with this hash tag has lost its node, or has moved. */
export type IsDisturbed = (hashTag: string) => boolean;

export interface RedisClientOptions extends ReplicatedOptions {
  library: Library;
}

export class RedisClient {
  readonly surroundings: Surroundings;
  /** What the server refuses. */
  readonly refusals: Refusals;
  readonly #events: Events;
  readonly #sentinels: Sentinels | undefined;
  readonly #commands: Reconnecting;
  readonly #replicated: Replicated | undefined;
  readonly #greeting: Greeting;
  readonly #readyListeners = new Set<(isAnother: boolean) => void>();
  readonly #refusedListeners: (() => void)[] = [];
  readonly #topologyListeners: (() => void)[] = [];
  readonly #disturbanceListeners: ((isDisturbed: IsDisturbed) => void)[] = [];
  /** Where Redis is. A single server may turn out to be a node of a cluster. */
  #target: Target;
  /** The masters by slot, as they were when slots were looked up last. */
  #mastersBySlot: readonly (string | undefined)[] = [];
  /** Whether commands go to another server than on the connection before, or may do so. */
  #isAnother = false;
  /** What is to be sent at the end of this turn of the event loop. */
  #postponed: (() => void) | undefined;

  constructor(options: RedisClientOptions, events: Events) {
    const { library, silenceLimitMs, replicas } = options;
    const { clock = PROCESS_CLOCK, random = PROCESS_RANDOM } = library;
    this.#events = events;
    this.#target = library.target;
    this.surroundings = {
      library,
      silenceLimitMs,
      clock,
      random,
      connectionName: library.connectionName,
      closing: new Set(),
    };
    if (this.#target.kind === 'sentinel')
      this.#sentinels = new Sentinels(this.surroundings, this.#target);
    this.refusals = new Refusals(events, clock);
    this.#greeting = new Greeting(clock, {
      another: () => {
        this.#isAnother = true;
      },
      tooOld: (error) => {
        events.emit('error', () => ({ error }));
      },
    });
    this.#commands = this.#reconnecting('commands', {
      greet: (session) => this.#greeting.greet(session, this.#database),
      ready: () => {
        for (const listener of this.#readyListeners) listener(this.#isAnother);
        this.#isAnother = false;
        this.#topologyChanged();
      },
      refused: () => {
        for (const listener of this.#refusedListeners) listener();
      },
    });
    if (replicas === 0) return;
    const acknowledged = this.#reconnecting('acknowledged commands', {
      greet: (session) => selectDatabase(session, this.#database),
      ready: () => undefined,
      refused: () => undefined,
    });
    this.#replicated = new Replicated(acknowledged, options, clock);
  }

  /** The key prefix of the user's own client. */
  get keyPrefix(): string {
    return this.surroundings.library.keyPrefix;
  }

  get isReady(): boolean {
    return this.#commands.isReady;
  }

  /** The state of the connection for commands; `degraded`: a master of the cluster cannot be reached. */
  get status(): LinkStatus | 'degraded' {
    const { status } = this.#commands;
    return status === 'ready' && this.cluster?.isDegraded ? 'degraded' : status;
  }

  /** Why waiting for that connection would not help; undefined: it would. */
  get refusal(): Error | undefined {
    return this.#commands.refusal;
  }

  /** What went wrong with the connection last; undefined while it is ready. */
  get lastError(): Error | undefined {
    return this.#commands.lastError;
  }

  get isCluster(): boolean {
    return this.#target.kind === 'cluster';
  }

  /** The session with the cluster, if it is one and can be used now. */
  get cluster(): Cluster | undefined {
    const { session } = this.#commands;
    return session instanceof Cluster && session.isReady ? session : undefined;
  }

  /** Whether the keys of one command must be in one slot: in a cluster, and where the server has said so. */
  get isSlotted(): boolean {
    return this.isCluster || this.refusals.areSlotsApart;
  }

  /** What the server says of itself. */
  get server(): ServerFacts {
    return this.#greeting;
  }

  /** Where the one server is that commands go to; undefined: there are several, or it is not known now. */
  get address(): Address | undefined {
    if (this.#target.kind === 'single') return this.#target.address;
    return this.isReady ? this.#commands.session?.address : undefined;
  }

  /** Where Redis is, for people. */
  get place(): string {
    const target = this.#target;
    if (target.kind === 'single') return textOf(target.address);
    if (target.kind === 'cluster') return 'cluster';
    const [sentinel] = target.sentinels;
    return `${target.name} by ${sentinel ? textOf(sentinel) : 'nobody'}`;
  }

  /** Whether Sentinels name the server: another one may take over that has missed what was written last. */
  get hasSentinels(): boolean {
    return this.#sentinels !== undefined;
  }

  /**
   * Which server, or node of a cluster, has a key, and in which database, in words that are the same for all clients; undefined: it does
   * not say.
   */
  async homeOf(key: string, limit: WaitLimit): Promise<string | undefined> {
    await this.whenReady(limit);
    const runId = this.isCluster ? await limit.within(this.#runIdOfNode(key)) : this.server.id;
    return runId === undefined ? undefined : `run_id ${runId}, database ${String(this.#database)}`;
  }

  /** Resolves when commands can be sent; rejects when waiting would not help. */
  whenReady(limit: WaitLimit): Promise<void> {
    return this.#commands.whenReady(limit);
  }

  /** Calls back on every new connection, perhaps to another server, until the function that it returns is called. */
  onReady(listener: (isAnother: boolean) => void): () => void {
    this.#readyListeners.add(listener);
    return () => this.#readyListeners.delete(listener);
  }

  /** Calls back when the server begins to refuse this client: waiting for it does not help. */
  onRefused(listener: () => void): void {
    this.#refusedListeners.push(listener);
  }

  /** Calls back when a node of a cluster was lost, or slots have moved, while commands can be sent. */
  onDisturbance(listener: (isDisturbed: IsDisturbed) => void): void {
    this.#disturbanceListeners.push(listener);
  }

  /** Calls back when a server may have become the home of other channels than before. */
  onTopology(listener: () => void): void {
    this.#topologyListeners.push(listener);
  }

  /** The outages of one connection. `role`: what it is for; `home`: tells it from others that are for the same. */
  outageOf(role: string, home = ''): Outage {
    return new Outage(this.#events, this.surroundings.clock, role, home);
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

  /** Sends what was postponed, without waiting for the end of the turn. */
  sendNow(): void {
    this.#sendPostponed();
    this.#commands.session?.flush();
  }

  /** The one server, or the node of a cluster that has a key, as far as is known: it follows no redirection. */
  senderFor(key: string): Sender | undefined {
    const { session } = this.#commands;
    return session instanceof Cluster ? session.nodeOf(key) : session;
  }

  /**
   * Runs a script once and reads its reply: by EVALSHA, or by EVAL if the server does not know the script and so did not run it. It is
   * not sent in full if the limit is over by then. `sender` may be one node of a cluster.
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
    const parts = [script.sha1 as Argument, keys.length].concat(keys, args);
    const otherwise = (error: Error): Promise<T> | undefined => {
      const isInFull = parts[0] === script.source;
      if (isInFull || !isUnknownScript(error)) return denied(error, script, keys);
      assertWanted(limit);
      parts[0] = script.source;
      return this.#commands.ask('eval', parts, read, otherwise, sender);
    };
    return this.#commands.ask('evalsha', parts, read, otherwise, sender);
  }

  /** Whether there are scripts whose effect counts only when replicas have acknowledged it. */
  get isReplicated(): boolean {
    return this.#replicated !== undefined;
  }

  /** Like `run`, but an effect counts only when enough replicas have it. `isEffect`: whether the reply says that there is an effect. */
  runReplicated<T>(
    script: Script,
    keys: readonly string[],
    args: readonly Argument[],
    read: (reply: unknown) => T,
    isEffect: (reply: T) => boolean,
    limit: TimeLimit = NO_LIMIT,
  ): Promise<T> {
    return this.#replicated
      ? this.#replicated.run({ script, keys, args }, read, isEffect, limit)
      : this.run(script, keys, args, read, limit);
  }

  /** Runs one plain command once. */
  command(command: Lowercase<string>, ...args: readonly Argument[]): Promise<unknown> {
    this.#sendPostponed();
    return this.#commands.ask(command, args, (reply) => reply);
  }

  /**
   * Asks the server, or every master of the cluster, whether it is there. Rejects with the name of one that is not. `asked` has the masters that have
   * not answered yet.
   */
  async ping(asked: Set<string>): Promise<void> {
    const { cluster } = this;
    if (!cluster) {
      await this.#commands.ask('ping', [], Boolean);
      return;
    }
    await Promise.all(
      cluster.masters.map(async (address) => {
        const why = cluster.unreachable.get(address);
        const node = cluster.node(address);
        if (!node) throw unreachable(address, why);
        asked.add(address);
        await this.#commands.ask('ping', [], Boolean, undefined, node).catch((error: unknown) => {
          throw unreachable(address, cluster.unreachable.get(address) ?? (error as Error));
        });
        asked.delete(address);
      }),
    );
  }

  /** Resolves when all its sockets are gone; those of subscriptions excepted. */
  async close(): Promise<void> {
    this.#sendPostponed();
    this.#commands.close();
    this.#replicated?.close();
    this.#sentinels?.close();
    await Promise.all(this.surroundings.closing);
  }

  get #database(): number {
    return this.#target.kind === 'cluster' ? 0 : this.#target.database;
  }

  /** Any node of a cluster may have answered the greeting: the one that has the key is asked. */
  #runIdOfNode(key: string): Promise<string | undefined> {
    const node = this.senderFor(key);
    if (!node) throw new UnsentError(`no connection to the node that has "${key}"`);
    const read = (info: unknown): string | undefined => runIdIn(String(info));
    const notPermitted = (error: Error): Promise<undefined> | undefined =>
      isReply(error) && failureKind(error) !== 'transient' ? Promise.resolve(undefined) : undefined;
    return this.#commands.ask('info', ['server'], read, notPermitted, node);
  }

  #reconnecting(
    role: string,
    listener: Pick<ReconnectingListener, 'greet' | 'ready' | 'refused'>,
  ): Reconnecting {
    const reconnecting = new Reconnecting(
      this.surroundings,
      this.outageOf(role),
      () => this.place,
      {
        open: (heard) => this.#open(heard),
        ...listener,
        explain: (error) => this.#explain(error),
      },
    );
    this.#sentinels?.onSwitch((_, isTold) => {
      if (isTold) reconnecting.hurry();
    });
    return reconnecting;
  }

  #open(heard: SessionHeard): Session {
    const target = this.#target;
    if (target.kind === 'cluster')
      return new Cluster(
        this.surroundings,
        target,
        {
          refreshed: (cluster) => {
            if (cluster === this.cluster) this.#slotsLookedUp(cluster);
          },
          nodeLost: (address) => {
            const masters = this.#mastersBySlot;
            this.#disturbed((tag) => masters[slotOf(tag)] === address);
            this.#topologyChanged();
          },
        },
        heard,
      );
    if (this.#sentinels) return new SentinelSession(this.surroundings, this.#sentinels, heard);
    const { address } = target as Extract<Target, { kind: 'single' }>;
    return new Wire(this.surroundings, address, 'commands', heard);
  }

  #slotsLookedUp(cluster: Cluster): void {
    const former = this.#mastersBySlot;
    const current = Array.from({ length: SLOT_COUNT }, (_, slot) => cluster.masterOf(slot));
    this.#mastersBySlot = current;
    if (former.length > 0 && current.some((master, slot) => master !== former[slot]))
      this.#disturbed((tag) => current[slotOf(tag)] !== former[slotOf(tag)]);
    this.#topologyChanged();
  }

  #disturbed(isDisturbed: IsDisturbed): void {
    if (!this.isReady) return;
    for (const listener of this.#disturbanceListeners) listener(isDisturbed);
  }

  #topologyChanged(): void {
    for (const listener of this.#topologyListeners) listener();
  }

  #explain(error: Error): Error {
    const { session } = this.#commands;
    if (session && this.#target.kind === 'single' && redirectionOf(error))
      this.#becomeCluster(session);
    return this.refusals.explain(error, this.place, this.isCluster);
  }

  /** The one server has turned out to be a node of a cluster, in which another one has what was asked for. */
  #becomeCluster(session: Session): void {
    const { address } = this.#target as Extract<Target, { kind: 'single' }>;
    this.#target = { kind: 'cluster', startup: [address], remap: () => undefined, refreshMs: 0 };
    this.surroundings.clock.setTimer(() => {
      this.#commands.leave(session);
      this.#replicated?.leaveSession();
    }, 1);
  }

  /** Called at the end of the turn, and before another command is sent. */
  readonly #sendPostponed = (): void => {
    const send = this.#postponed;
    this.#postponed = undefined;
    // Not in the context of whoever sends another command now, which has nothing to do with this one.
    if (send) inOwnContext(send);
  };
}

function unreachable(address: string, why: Error | undefined): UnavailableError {
  const reason = why ? `: ${describe(why)}` : '';
  return new UnavailableError(
    `the node ${address} of the cluster cannot be reached${reason}`,
    why && { cause: why },
  );
}
