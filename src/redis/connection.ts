// A client's way to Redis: one connection for commands, and one for subscriptions when somebody first waits.

import { NO_LIMIT, type TimeLimit } from '../runtime/clock.js';
import type { Events } from '../api/events.js';
import { UnavailableError } from '../api/errors.js';
import type { WaitLimit } from '../runtime/wait-limit.js';
import { inOwnContext } from '../runtime/own-context.js';
import {
  clientFactory,
  isCluster,
  type ClientFactory,
  type RedisClient,
  type RedisSource,
} from './clients.js';
import { describe, failureKind, isUnknownScript } from './failure.js';
import { homesOf, type Homes } from './homes.js';
import { Link, type LinkListener, type LinkStatus } from './link.js';
import { Replicated } from './replicated.js';
import { scriptSender, type SendScript } from './script-command.js';
import { scriptDenial } from './script-denial.js';
import type { Script } from './scripts.generated.js';
import {
  isTooOld,
  majorVersion,
  parseServerInfo,
  tooOldMessage,
  type ServerInfo,
} from './server-info.js';
import { watchTopology, type IsDisturbed } from './topology.js';

/** How long a subscriber that is always late may take to answer; those who wait look for themselves meanwhile. */
const LONGEST_SUBSCRIBER_SILENCE_MS = 30_000;

export interface ConnectionOptions {
  redis: RedisSource;
  /** A connection is dropped and made anew when it does not answer for this long. */
  silenceLimitMs: number;
  /** How many replicas must have acknowledged what counts only then; 0: none. */
  replicas: number;
  /** Bounds how long they may take. */
  commandTimeoutMs: number;
}

export class Connection {
  readonly #factory: ClientFactory;
  /** A connection is dropped and made anew when it does not answer for this long. */
  readonly silenceLimitMs: number;
  readonly #events: Events;
  readonly #commands: Link;
  readonly #sendScript: SendScript;
  readonly #replicated: Replicated | undefined;
  readonly #readyListeners = new Set<() => void>();
  #subscriber: Link | undefined;
  #server: ServerInfo = { version: undefined };
  /** When the server was started at the latest, on the monotonic clock. */
  #upSinceMs = Infinity;
  #saidTooOld = false;
  #isSharded = false;

  constructor(options: ConnectionOptions, events: Events) {
    const { redis, silenceLimitMs } = options;
    this.#factory = clientFactory(redis, silenceLimitMs);
    this.silenceLimitMs = silenceLimitMs;
    this.#events = events;
    // Whoever happens to come first must not lend its context to all that the connection will ever say.
    this.#commands = inOwnContext(() =>
      this.#link(this.#factory.create(), 'commands', {
        greet: (client) => this.#greet(client),
        ready: () => {
          for (const listener of this.#readyListeners) listener();
        },
      }),
    );
    this.#sendScript = scriptSender(this.#commands.client);
    if (options.replicas > 0) {
      const link = inOwnContext(() =>
        this.#link(this.#factory.create(), 'acknowledged commands', { ready: () => undefined }),
      );
      this.#replicated = new Replicated(link, options);
    }
  }

  /** The key prefix of the user's own client. */
  get keyPrefix(): string {
    return this.#factory.keyPrefix;
  }

  get isReady(): boolean {
    return this.#commands.isReady;
  }

  /** How the connection for commands is. */
  get status(): LinkStatus {
    return this.#commands.status;
  }

  /** Why waiting for it would not help; undefined: it would. */
  get refusal(): Error | undefined {
    return this.#commands.refusal;
  }

  get isCluster(): boolean {
    return isCluster(this.#commands.client);
  }

  /** Whether this is a cluster with sharded channels, those of Redis 7 or newer. */
  get isSharded(): boolean {
    return this.#isSharded;
  }

  /** Resolves when commands can be sent; rejects when waiting would not help. */
  whenReady(waitLimit: WaitLimit): Promise<void> {
    return this.#commands.whenReady(waitLimit);
  }

  /** Calls back on every new connection, until the function that it returns is called. */
  onReady(listener: () => void): () => void {
    this.#readyListeners.add(listener);
    return () => this.#readyListeners.delete(listener);
  }

  /** Calls back when a node of a cluster was lost, or slots have moved, while commands can be sent. */
  onDisturbance(listener: (isDisturbed: IsDisturbed) => void): void {
    const { client } = this.#commands;
    if (!isCluster(client)) return; // whose connection is made anew then
    watchTopology(client, (isDisturbed) => {
      if (this.isReady) listener(isDisturbed);
    });
  }

  /** Runs a script once and reads its reply: EVALSHA, and EVAL where the server does not know it yet. */
  run<T>(
    script: Script,
    keys: readonly string[],
    args: readonly (string | number)[],
    read: (reply: unknown) => T,
  ): Promise<T> {
    const send = this.#sendScript;
    return this.#commands.ask(
      (client) => send(client, script, true, keys, args),
      read,
      (error) =>
        isUnknownScript(error)
          ? this.#commands.ask(
              (client) => send(client, script, false, keys, args),
              read,
              (refusal) => denied(refusal, script),
            )
          : denied(error, script),
    );
  }

  /** Whether there are scripts whose effect counts only when replicas have acknowledged it. */
  get isReplicated(): boolean {
    return this.#replicated !== undefined;
  }

  /** The same for a script whose effect counts only when the replicas that were asked for have it: if `isEffect` says so of the reply. */
  runReplicated<T>(
    script: Script,
    keys: readonly string[],
    args: readonly (string | number)[],
    read: (reply: unknown) => T,
    isEffect: (reply: T) => boolean,
    limit: TimeLimit = NO_LIMIT,
  ): Promise<T> {
    return this.#replicated
      ? this.#replicated.run({ script, keys, args }, read, isEffect, limit)
      : this.run(script, keys, args, read);
  }

  /** Runs one plain command once. */
  command<T>(send: (client: RedisClient) => Promise<T>): Promise<T> {
    return this.#commands.ask(send, (reply) => reply);
  }

  /** Asks the server, or every master of the cluster, whether it is there. */
  async ping(): Promise<void> {
    await this.command(async (client) => {
      const nodes = isCluster(client) ? client.nodes('master') : [client];
      await Promise.all(nodes.map((node) => node.ping()));
    });
  }

  /** The servers that tell of channels. */
  get homes(): Homes {
    return homesOf(this.#commands.client, this.#factory.create);
  }

  /** The connection of a client for subscriptions, made for one of the homes; whoever asks for it closes it. */
  linkSubscriber(
    client: RedisClient,
    home: string,
    listener: Pick<LinkListener, 'ready' | 'outOfStep'>,
  ): Link {
    const role = home === '' ? 'subscriber' : `subscriber (${home})`;
    // Nobody waits for an answer from it: it may take its time, rather than be asked again and again.
    const link = this.#link(client, role, listener, LONGEST_SUBSCRIBER_SILENCE_MS);
    if (!this.isCluster) this.#subscriber = link;
    return link;
  }

  /**
   * For how long the server has been up at least, in milliseconds. It counts from when the server's answer came, so an answer
   * that was late makes the server seem younger, never older; asked once for each connection.
   */
  get serverAgeMs(): number {
    return performance.now() - this.#upSinceMs;
  }

  /** Tells the server from all others; undefined: not known. */
  get serverId(): string | undefined {
    return this.#server.runId;
  }

  /** Where the server is, for people. */
  get address(): string {
    const { client } = this.#commands;
    if (isCluster(client)) return 'cluster';
    const { host, port, path, sentinels, name } = client.options;
    if (sentinels) return name ?? 'sentinel';
    return path ?? `${host ?? 'localhost'}:${String(port ?? 6379)}`;
  }

  /** What went wrong with the connection last; undefined while it is ready. */
  get lastError(): Error | undefined {
    return this.#commands.lastError;
  }

  async close(): Promise<void> {
    await Promise.all([this.#commands.close(), this.#replicated?.close()]);
  }

  #link(
    client: RedisClient,
    role: string,
    listener: Pick<LinkListener, 'greet' | 'ready' | 'outOfStep'>,
    longestSilenceMs = 0,
  ): Link {
    const { silenceLimitMs } = this;
    const limits = { silenceLimitMs, longestSilenceMs: Math.max(silenceLimitMs, longestSilenceMs) };
    return new Link(client, limits, {
      ...listener,
      outage: (isOn) => {
        this.#events.outage(role, isOn);
      },
      failed: (cause) => {
        const message = `the ${role} connection to Redis failed: ${describe(cause)}`;
        this.#events.emit('error', () => ({ error: new UnavailableError(message, { cause }) }));
      },
    });
  }

  async #greet(client: RedisClient): Promise<void> {
    const { runId } = this.#server;
    const info = await answerOf(client.info('server'));
    this.#server = parseServerInfo(info instanceof Error ? '' : info);
    // One after the other: ioredis refuses what is sent to a cluster's node that is just connecting.
    this.#isSharded =
      isCluster(client) &&
      hasShardedChannels(await answerOf(client.pubsub('SHARDNUMSUB')), this.#server);
    // After a failover nothing else would tell the subscriber that it listens to a replica now.
    const isKnown = runId !== undefined && runId === this.#server.runId;
    if (!isKnown && !isCluster(client)) this.#subscriber?.reconnect();
    this.#upSinceMs = performance.now() - (this.#server.uptimeMs ?? 0);
    if (!isTooOld(this.#server)) return;
    const error = new UnavailableError(tooOldMessage(this.#server));
    if (!this.#saidTooOld) this.#events.emit('error', () => ({ error }));
    this.#saidTooOld = true;
    throw error;
  }
}

/**
 * Redisson asks for this command, too: all who share a lock must come to the same answer. A user who may not ask goes by the
 * version; where that is not told either, by the channels that every server has.
 */
function hasShardedChannels(answer: unknown, server: ServerInfo): boolean {
  return failureKind(answer) === 'denied' ? majorVersion(server) >= 7 : !(answer instanceof Error);
}

/** What the server answered, which may be that it refuses. */
async function answerOf<T>(reply: Promise<T>): Promise<T | Error> {
  try {
    return await reply;
  } catch (error) {
    if (failureKind(error) === 'unanswered') throw error;
    return error as Error;
  }
}

/** What to reject with instead, when the server does not say which command is not permitted. */
function denied(error: unknown, script: Script): Promise<never> | undefined {
  const denial = scriptDenial(error, script);
  return denial && Promise.reject(denial);
}
