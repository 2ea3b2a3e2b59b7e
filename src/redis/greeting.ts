// What a server is asked on every new connection before anything else: which one it is, for how long it has been up, what it can do.

import { UnavailableError } from '../api/errors.js';
import type { Clock } from '../runtime/clock.js';
import { describe, failureKind, isUnauthenticated } from './failure.js';
import { scripts } from './scripts.generated.js';
import type { Session } from './session.js';
import { ignore } from './wire.js';

export interface GreetingListener {
  /** The server is another one than on the connection before, or may be. */
  another(): void;
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
  readonly #clock: Clock;
  readonly #listener: GreetingListener;
  #server: ServerInfo = { version: undefined };
  /** When the server was started at the latest, on the monotonic clock. */
  #upSinceMs = Infinity;
  #isSharded = false;
  #saidTooOld = false;

  constructor(clock: Clock, listener: GreetingListener) {
    this.#clock = clock;
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
    return this.#clock.nowMs() - this.#upSinceMs;
  }

  get isAgeTold(): boolean {
    return this.#server.uptimeMs !== undefined;
  }

  /** @throws UnavailableError the server is too old, or refuses the database */
  async greet(session: Session, database: number): Promise<void> {
    await selectDatabase(session, database);
    const { runId } = this.#server;
    const info = await answerOf(session, 'info', 'server');
    if (failureKind(info) === 'transient') throw info as Error; // the greeting is repeated
    this.#server = parseServerInfo(info instanceof Error ? '' : (info as string));
    this.#isSharded =
      session.isCluster &&
      hasShardedChannels(await answerOf(session, 'pubsub', 'SHARDNUMSUB'), this.#server);
    if (runId === undefined || runId !== this.#server.runId) this.#listener.another();
    this.#upSinceMs = this.#clock.nowMs() - (this.#server.uptimeMs ?? 0);
    if (!isTooOld(this.#server)) {
      loadScripts(session);
      return;
    }
    const error = new UnavailableError(tooOldMessage(this.#server));
    if (!this.#saidTooOld) this.#listener.tooOld(error);
    this.#saidTooOld = true;
    throw error;
  }
}

/**
 * Selects the database of the locks. The libraries are not asked to: one of them calls a connection ready even if the server refused, and our
 * locks would be in database 0 then, beside those of others.
 *
 * @throws UnavailableError the server refuses
 * @throws Error the server refuses for now, or did not answer
 */
export async function selectDatabase(session: Session, database: number): Promise<void> {
  if (database === 0) return;
  const answer = await answerOf(session, 'select', String(database));
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

/** What the server answered, also the error if it refuses. Throws only if there was no answer, or the server wants a password first. */
function answerOf(session: Session, command: Lowercase<string>, arg: string): Promise<unknown> {
  return session.send<unknown>(
    command,
    [arg],
    (reply) => reply,
    (error) => {
      const kind = failureKind(error);
      if (kind === 'unanswered' || kind === 'unsent' || isUnauthenticated(error)) throw error;
      return error;
    },
  );
}

/** The oldest Redis that holdfast is made for. */
const MINIMUM_VERSION = { major: 6, minor: 2 } as const;

interface ServerInfo {
  /** `redis_version`, which Valkey reports too; undefined when the server does not tell. */
  readonly version: string | undefined;
  /** Tells the server from all others, and from itself before a restart. */
  readonly runId?: string | undefined;
  /** For how long the server has been up at least, in milliseconds. */
  readonly uptimeMs?: number;
}

/** The run id in an answer to INFO. */
export function runIdIn(info: string): string | undefined {
  return parseServerInfo(info).runId;
}

function parseServerInfo(info: string): ServerInfo {
  const version = /^redis_version:(\S+)/m.exec(info)?.[1];
  const runId = /^run_id:(\S+)/m.exec(info)?.[1];
  const uptime = /^uptime_in_seconds:(\d+)/m.exec(info)?.[1];
  if (uptime === undefined) return { version, runId };
  // The server subtracts whole seconds of its clock: what it calls a second may be a moment.
  return { version, runId, uptimeMs: Math.max(0, Number(uptime) - 1) * 1_000 };
}

function majorVersion(server: ServerInfo): number {
  return Number.parseInt(server.version ?? '0', 10);
}

/** A server that does not tell its version is taken to be new enough. */
function isTooOld({ version }: ServerInfo): boolean {
  if (version === undefined) return false;
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return (
    major < MINIMUM_VERSION.major ||
    (major === MINIMUM_VERSION.major && minor < MINIMUM_VERSION.minor)
  );
}

function tooOldMessage({ version }: ServerInfo): string {
  return `Redis ${version ?? ''} is too old: holdfast needs Redis ${String(MINIMUM_VERSION.major)}.${String(MINIMUM_VERSION.minor)} or newer, or any Valkey`;
}

// A server that was restarted, or has taken over, knows no script: all calls at that moment would be refused, and sent again with the script in
// full. And Redis 7.4 forgets scripts that came by EVAL sooner.

/**
 * Sends all scripts, and awaits no answer: commands that are sent on the same connection later find them. A server that refuses them
 * is sent a script in full when it is needed; so are the nodes of a cluster, most of which may never be asked for anything.
 */
function loadScripts(session: Session): void {
  if (session.isCluster) return;
  session.gather();
  for (const { source } of Object.values(scripts))
    void session.send('script', ['LOAD', source], ignore, ignore);
}
