// A client's way to Redis: one connection for commands, and one for subscriptions when somebody first waits.

import { NO_LIMIT, type TimeLimit } from '../runtime/clock.js';
import type { Events } from '../api/events.js';
import type { WaitLimit } from '../runtime/wait-limit.js';
import type { Argument, Driver, RedisClient, Sender } from './driver.js';
import { assertWanted, isUnknownScript } from './failure.js';
import { Greeting, selectDatabase, type ServerFacts } from './greeting.js';
import { homesOf, type Homes } from './homes.js';
import type { Link, LinkStatus, SubscriptionListener } from './link.js';
import { Links } from './links.js';
import { Postponed } from './postponed.js';
import type { Refusals } from './refusals.js';
import { Replicated, type ReplicatedOptions } from './replicated.js';
import { SameServer } from './same-server.js';
import { denied } from './script-denial.js';
import type { Script } from './scripts.generated.js';
import { watchTopology, type IsDisturbed } from './topology.js';
import { runIdOfNode, whoHas } from './who-has.js';

export interface ConnectionOptions extends ReplicatedOptions {
  driver: Driver;
}

export class Connection {
  /** The key prefix of the user's own client. */
  readonly keyPrefix: string;
  /** A connection is dropped and made anew when it does not answer for this long. */
  readonly silenceLimitMs: number;
  /** What the server refuses. */
  readonly refusals: Refusals;
  readonly #links: Links;
  readonly #commands: Link;
  readonly #greeting: Greeting;
  readonly #replicated: Replicated | undefined;
  readonly #readyListeners = new Set<(isAnother: boolean) => void>();
  readonly #postponed = new Postponed();
  readonly #sameServer = new SameServer(() => (this.isReady ? this.#greeting.id : undefined));

  #isAnother = false;

  constructor(options: ConnectionOptions, events: Events) {
    const { driver, silenceLimitMs, replicas } = options;
    this.keyPrefix = driver.keyPrefix;
    this.silenceLimitMs = silenceLimitMs;
    this.#links = new Links(driver, silenceLimitMs, events);
    this.refusals = this.#links.refusals;
    this.#greeting = new Greeting({
      another: (id) => {
        this.#isAnother = true;
        this.#sameServer.follow(id);
      },
      tooOld: (error) => {
        events.emit('error', () => ({ error }));
      },
    });
    this.#commands = this.#links.forCommands('commands', {
      greet: (client) => this.#greeting.greet(client),
      ready: () => {
        for (const listener of this.#readyListeners) listener(this.#isAnother);
        this.#isAnother = false;
      },
    });
    if (replicas === 0) return;
    const link = this.#links.forCommands('acknowledged commands', { greet: selectDatabase });
    this.#replicated = new Replicated(link, options);
  }

  get isReady(): boolean {
    return this.#commands.isReady;
  }

  /** The state of the connection for commands. */
  get status(): LinkStatus {
    return this.#commands.status;
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
    return this.#commands.client.cluster !== undefined;
  }

  /** Whether the keys of one command must be in one slot: in a cluster, and where the server has said so. */
  get isSlotted(): boolean {
    return this.isCluster || this.refusals.areSlotsApart;
  }

  /** What the server says of itself. */
  get server(): ServerFacts {
    return this.#greeting;
  }

  /** Whether Sentinels name the server: another one may take over that has missed what was written last. */
  get hasSentinels(): boolean {
    return this.#commands.client.hasSentinels;
  }

  /**
   * Which server, or node of a cluster, has a key, and in which database, in words that are the same for all clients; undefined: it does
   * not say.
   */
  async homeOf(key: string, limit: WaitLimit): Promise<string | undefined> {
    await this.whenReady(limit);
    const { database } = this.#commands.client;
    // Any node of a cluster may have answered the greeting.
    const id = this.isCluster
      ? await limit.within(runIdOfNode(key, this.#commands))
      : this.server.id;
    return id === undefined ? undefined : `run_id ${id}, database ${String(database)}`;
  }

  /** Where the server is, for people. */
  get address(): string {
    return this.#commands.client.address;
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

  /** Calls back when a node of a cluster was lost, or slots have moved, while commands can be sent. */
  onDisturbance(listener: (isDisturbed: IsDisturbed) => void): void {
    const { cluster } = this.#commands.client;
    if (!cluster) return; // the connection to a single server is made anew then
    watchTopology(cluster, (isDisturbed) => {
      if (this.isReady) listener(isDisturbed);
    });
  }

  /** Whether a command is unanswered, or is to be sent at the end of this turn of the event loop. */
  get isBusy(): boolean {
    return this.#commands.isAwaitingAnswers || this.#postponed.isPending;
  }

  /** Calls `send` at the end of this turn of the event loop; earlier if another command is to be sent, so that none overtakes it. */
  postpone(send: () => void): void {
    this.#postponed.postpone(send);
  }

  /** Sends what was postponed, without waiting for the end of the turn. */
  sendNow(): void {
    this.#postponed.sendNow();
    this.#commands.client.flush();
  }

  /** Sends to the node that has a key, as far as is known. A cluster's client would follow redirections, for long while a slot moves. */
  senderFor(key: string): Sender | undefined {
    return whoHas(key, this.#commands.client);
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
    this.#postponed.sendNow();
    const parts = [script.sha1 as Argument, keys.length].concat(keys, args);
    const otherwise = (error: Error): Promise<T> | undefined => {
      const look = (key: string): Promise<unknown> =>
        this.#commands.ask('exists', [key], Number, undefined, sender);
      const refused = (refusal: Error): Promise<T> | undefined =>
        denied(refusal, script, keys, look);
      if (!isUnknownScript(error)) return refused(error);
      assertWanted(limit);
      const inFull = [script.source, ...parts.slice(1)];
      return this.#commands.ask('eval', inFull, read, refused, sender);
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
    this.#postponed.sendNow();
    return this.#commands.ask(command, args, (reply) => reply);
  }

  /** Asks the server, or every master of the cluster, whether it is there. */
  async ping(): Promise<void> {
    const { client } = this.#commands;
    const nodes: readonly Sender[] = client.cluster?.masters ?? [client];
    await Promise.all(
      nodes.map((node) => this.#commands.ask('ping', [], Boolean, undefined, node)),
    );
  }

  /** The servers at which channels are subscribed. */
  get homes(): Homes {
    return homesOf(this.#commands.client, () => this.#links.connect());
  }

  /** Opens the link for subscriptions of a client that was made for one of the homes. The caller closes it. */
  linkSubscriber(client: RedisClient, role: string, listener: SubscriptionListener): Link {
    const open = (observed: SubscriptionListener): Link =>
      this.#links.forSubscriptions(client, role, observed);
    return this.isCluster ? open(listener) : this.#sameServer.watch(open, listener);
  }

  async close(): Promise<void> {
    this.#postponed.sendNow();
    await Promise.all([this.#commands.close(), this.#replicated?.close()]);
  }
}
