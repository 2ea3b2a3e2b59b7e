// What a server is asked on every new connection before anything else: which one it is, for how long it has been up, what it can do.

import { UnavailableError } from '../api/errors.js';
import type { RedisClient } from './driver.js';
import { describe, failureKind } from './failure.js';
import { loadScripts } from './script-loading.js';
import {
  isTooOld,
  majorVersion,
  parseServerInfo,
  tooOldMessage,
  type ServerInfo,
} from './server-info.js';

export interface GreetingListener {
  /** The server is another one than on the connection before, or may be. `id` is its run id; undefined: it does not say. */
  readonly another: (id: string | undefined) => void;
  /** The server is too old for holdfast; told once. */
  tooOld(error: UnavailableError): void;
}

/** What a server said when it was greeted. */
export interface ServerFacts {
  /** Whether it is a cluster with sharded channels, those of Redis 7 or newer. */
  readonly isSharded: boolean;
  /** Tells the server from all others; undefined: not known. */
  readonly id: string | undefined;
  /** For how long the server has been up at least, in milliseconds. */
  readonly ageMs: number;
  /** Whether the server has told its age; otherwise `ageMs` is that of the connection. */
  readonly isAgeTold: boolean;
}

export class Greeting implements ServerFacts {
  readonly #listener: GreetingListener;
  #server: ServerInfo = { version: undefined };
  /** When the server was started at the latest, on the monotonic clock. */
  #upSinceMs = Infinity;
  #isSharded = false;
  #saidTooOld = false;

  constructor(listener: GreetingListener) {
    this.#listener = listener;
  }

  get isSharded(): boolean {
    return this.#isSharded;
  }

  get id(): string | undefined {
    return this.#server.runId;
  }

  /**
   * Counted from when the server's answer came: an answer that was late makes the server seem younger, never older. The server is asked
   * once for each connection.
   */
  get ageMs(): number {
    return performance.now() - this.#upSinceMs;
  }

  get isAgeTold(): boolean {
    return this.#server.uptimeMs !== undefined;
  }

  /** @throws UnavailableError the server is too old, or refuses the database */
  async greet(client: RedisClient): Promise<void> {
    await selectDatabase(client);
    const { runId } = this.#server;
    const info = await answerOf(client, 'info', 'server');
    if (failureKind(info) === 'transient') throw info as Error; // the greeting is repeated
    this.#server = parseServerInfo(info instanceof Error ? '' : (info as string));
    // One after the other: the first may make ioredis connect to a node of a cluster, for which it refuses commands until that is done.
    this.#isSharded =
      client.cluster !== undefined &&
      hasShardedChannels(await answerOf(client, 'pubsub', 'SHARDNUMSUB'), this.#server);
    if (runId === undefined || runId !== this.#server.runId)
      this.#listener.another(this.#server.runId);
    this.#upSinceMs = performance.now() - (this.#server.uptimeMs ?? 0);
    if (!isTooOld(this.#server)) {
      loadScripts(client);
      return;
    }
    const error = new UnavailableError(tooOldMessage(this.#server));
    if (!this.#saidTooOld) this.#listener.tooOld(error);
    this.#saidTooOld = true;
    throw error;
  }
}

/**
 * Selects the database that the client is for. ioredis has done so before, but calls the connection ready even if the server refused:
 * our locks would be in database 0 then, beside those of others.
 *
 * @throws UnavailableError the server refuses
 * @throws Error the server refuses for now, or did not answer
 */
export async function selectDatabase(client: RedisClient): Promise<void> {
  const { database } = client;
  if (database === 0) return;
  const answer = await answerOf(client, 'select', String(database));
  if (!(answer instanceof Error)) return;
  if (failureKind(answer) === 'transient') throw answer;
  const message = `Redis refuses database ${String(database)}: ${describe(answer)}`;
  throw new UnavailableError(message, { cause: answer });
}

/**
 * Whether a cluster has sharded channels. Redisson asks by the same command, since all who share a lock must come to the same answer. If
 * the user may not ask, the version decides; if that is not told either, classic channels are used, which every server has.
 */
function hasShardedChannels(answer: unknown, server: ServerInfo): boolean {
  // Refused for now, perhaps since a script runs for long: that says nothing of channels, and the greeting is repeated.
  if (failureKind(answer) === 'transient') throw answer as Error;
  return failureKind(answer) === 'denied' ? majorVersion(server) >= 7 : !(answer instanceof Error);
}

/** What the server answered, also the error if it refuses. Throws only if there was no answer. */
function answerOf(client: RedisClient, command: Lowercase<string>, arg: string): Promise<unknown> {
  return client.send<unknown>(
    command,
    [arg],
    (reply) => reply,
    (error) => {
      const kind = failureKind(error);
      if (kind === 'unanswered' || kind === 'unsent') throw error;
      return error;
    },
  );
}
