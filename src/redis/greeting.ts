// Greets the server on every new connection before anything else: asks for its id, its uptime and what it can do.

import { UnavailableError } from '../api/errors.js';
import type { Clock } from '../runtime/clock.js';
import { describe, failureKind, isShutOut } from './failure.js';
import type { Session } from './session.js';

/** What a server says of itself. */
export interface ServerFacts {
  /** Whether it is a cluster with sharded channels, those of Redis 7 or newer. */
  readonly isSharded: boolean;
  /** Differs for every server, and for the same server after a restart; undefined: not known. */
  readonly id?: string | undefined;
  /** How long the server has been up at least, in milliseconds; if it does not say so, how long the connection has been open. */
  readonly ageMs: number;
  /** Whether the server has said how long it has been up. */
  readonly isAgeTold: boolean;
  /** Whether it is a node of a cluster, as far as it says. */
  readonly isClusterNode: boolean;
}

/** How much of an answer an error shows. */
const SHOWN_LENGTH = 60;

export const UNKNOWN_SERVER: ServerFacts = {
  isSharded: false,
  ageMs: -Infinity,
  isAgeTold: false,
  isClusterNode: false,
};

/** @throws UnavailableError it is no Redis, too old, or refuses the database. After any other error the caller greets it again. */
export async function greet(session: Session, db: number, clock: Clock): Promise<ServerFacts> {
  if (db !== 0) {
    // One library calls a connection ready even if the server refused: our locks would be in database 0 then, beside those of others.
    const cause = await answerOf(session, 'select', String(db));
    const refusal = `Redis refuses SELECT, for option "redis" with database ${db}`;
    if (cause instanceof Error)
      throw new UnavailableError(`${refusal}: ${describe(cause)}`, { cause });
  }
  const answer = await answerOf(session, 'info', 'server');
  // Counted from when the answer came: a late answer makes the server seem younger, never older.
  const heardAtMs = clock.nowMs();
  const isDenied = answer instanceof Error;
  if (!isDenied && !(typeof answer === 'string' && /^\w+:/m.test(answer))) {
    // What answers every command in the same way would also "grant" locks.
    const said = JSON.stringify(answer).slice(0, SHOWN_LENGTH);
    throw new UnavailableError(`no Redis answers there: it answers INFO with ${said}`);
  }
  const info = isDenied ? '' : answer;
  const version = infoField(info, 'redis_version'); // Valkey has it, too
  const uptime = infoField(info, 'uptime_in_seconds');
  // A server that does not give its version counts as new enough.
  const [major = 0, minor = 0] = version?.split('.').map(Number) ?? [];
  const needs = 'holdfast needs Redis 6.2 or newer, or any Valkey';
  if (version !== undefined && (major < 6 || (major === 6 && minor < 2)))
    throw new UnavailableError(`Redis ${version} is too old: ${needs}`);
  let isSharded = false;
  if (session.isCluster) {
    // Redisson asks by the same command, and all clients of a lock must get the same answer. If the command is denied, the version decides;
    // if the version is not known either, classic channels are used, which every server has.
    const channels = await answerOf(session, 'pubsub', 'SHARDNUMSUB');
    isSharded = failureKind(channels) === 'denied' ? major >= 7 : !(channels instanceof Error);
  }
  // The server subtracts whole seconds of its clock: one second in its answer may be a moment.
  const upSinceMs = heardAtMs - Math.max(0, Number(uptime ?? 0) - 1) * 1_000;
  return {
    isSharded,
    id: infoField(info, 'run_id'),
    get ageMs() {
      return clock.nowMs() - upSinceMs;
    },
    isAgeTold: uptime !== undefined,
    isClusterNode: infoField(info, 'redis_mode') === 'cluster',
  };
}

/** A field of an answer to INFO. */
export function infoField(info: unknown, name: string): string | undefined {
  return new RegExp(`^${name}:(\\S+)`, 'm').exec(String(info))?.[1];
}

/** The server's answer, or its error if it refuses. Throws if there was no answer, or a refusal for now only. */
function answerOf(session: Session, command: Lowercase<string>, arg: string): Promise<unknown> {
  return session.send<unknown>(
    command,
    [arg],
    (reply) => reply,
    (error) => {
      // The server may take a connection and refuse every command on it.
      if (isShutOut(error)) session.end(error);
      const isFinal = ['denied', 'defect'].includes(failureKind(error));
      if (!isFinal || !session.isReady) throw error;
      return error;
    },
  );
}
