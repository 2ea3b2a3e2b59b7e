// Runs scripts that count only when replicas have acknowledged them. They have a session of their own, since a WAIT holds up every command
// behind it. In a cluster the WAIT must go to the node that ran the script, so redirections are followed here.
//
// A WAIT goes out in the same write as its script. The server reads nothing while it waits, so scripts that are sent meanwhile share the
// next WAIT, which follows the answer.

import { UnavailableError } from '../api/errors.js';
import type { Clock, TimeLimit, Timer } from '../runtime/clock.js';
import { Cluster, Node } from './cluster.js';
import {
  assertWanted,
  denied,
  describe,
  failureKind,
  isUnknownScript,
  redirectionOf,
  UnsentError,
} from './failure.js';
import type { Argument, Sender } from './port.js';
import type { Reconnecting } from './reconnecting.js';
import type { Script } from './scripts.generated.js';
import { isUploading, uploading } from './uploads.js';

/** How many redirections of one command are followed. */
const MAX_REDIRECTIONS = 5;

/** The part of the remaining time for which an answer is awaited, so that it is here before the caller gives up. */
const WAITING_PART = 0.9;

/** How long one WAIT takes at most: it holds up the scripts behind it, also those that need no replica. */
const LONGEST_WAIT_MS = 100;

/** The beginning of WAIT's error after the master became a replica, having run the script: the next try finds the new master. */
const IS_REPLICA = 'ERR WAIT cannot be used with';

export interface ReplicatedOptions {
  /** How many replicas must acknowledge a script; 0: none. */
  replicas: number;
  /** Bounds how long the replicas may take, besides the caller's own limit. */
  commandTimeoutMs: number;
  /** A connection is dropped and made anew when it does not answer for this long. */
  silenceLimitMs: number;
}

/** How many replicas have acknowledged everything that was sent before a WAIT; or why that will not be known. */
type Outcome = number | Error;

export class Replicated {
  readonly #options: ReplicatedOptions;
  readonly #commands: Reconnecting;
  readonly #clock: Clock;
  /** The unanswered WAIT of a connection, and the one that follows its answer. */
  readonly #present = new WeakMap<Sender, Promise<Outcome>>();
  readonly #next = new WeakMap<Sender, Promise<Outcome>>();

  constructor(commands: Reconnecting, options: ReplicatedOptions, clock: Clock) {
    this.#commands = commands;
    this.#options = options;
    this.#clock = clock;
  }

  /** Leaves the present session: commands go another way from now on. */
  leaveSession(): void {
    const { session } = this.#commands;
    if (session) this.#commands.leave(session);
  }

  close(): void {
    this.#commands.close();
  }

  /**
   * Runs a script once and reads its reply; its keys must be in one slot. The script must change data: after a script that only reads, WAIT
   * may have nothing to wait for.
   *
   * @param isNeeded - whether a reply needs to be acknowledged
   * @throws UnavailableError the script ran, and too few replicas acknowledged it in time
   */
  async run<T>(
    { script, keys, args }: { script: Script; keys: readonly string[]; args: readonly Argument[] },
    read: (reply: unknown) => T,
    isNeeded: (reply: T) => boolean,
    limit: TimeLimit,
  ): Promise<T> {
    let isInFull = false;
    let isBehind = false; // another call's upload
    let askedNode: Node | undefined;
    for (let redirections = 0; ; redirections++) {
      const { session } = this.#commands;
      const cluster = session instanceof Cluster ? session : undefined;
      const node = askedNode ?? (cluster ? cluster.nodeOf(keys[0] ?? '') : session);
      if (!node) {
        cluster?.refresh();
        throw new UnsentError('the node that has the key is not known');
      }
      const send = (): Promise<T> => {
        const parts = [isInFull ? script.source : script.sha1, keys.length, ...keys, ...args];
        const command = isInFull ? 'eval' : 'evalsha';
        const sent = this.#commands.ask(command, parts, read, undefined, askedNode?.asking ?? node);
        return isInFull ? uploading(node, script, sent) : sent;
      };
      try {
        return await this.#acknowledged(node, send, isNeeded, limit);
      } catch (error) {
        const to = redirections < MAX_REDIRECTIONS ? redirectionOf(error) : undefined;
        if (!isInFull && isUnknownScript(error)) {
          assertWanted(limit);
          isInFull = isBehind || !isUploading(node, script);
          isBehind = true;
        } else if (to && cluster && node instanceof Node) {
          cluster.learnFrom(error as Error, node.address);
          const at = cluster.reachedAt(to.address, node.address);
          askedNode = to.kind === 'ASK' ? cluster.node(at) : undefined;
        } else {
          await denied(error, script, keys);
          throw error;
        }
      }
    }
  }

  /** Sends by `send`, on this connection. Resolves to the reply when it needs no acknowledgement, or has enough. */
  async #acknowledged<T>(
    node: Sender,
    send: () => Promise<T>,
    isNeeded: (reply: T) => boolean,
    limit: TimeLimit,
  ): Promise<T> {
    const { replicas, commandTimeoutMs } = this.#options;
    const limitMs = Math.min(commandTimeoutMs, limit.leftMs * WAITING_PART);
    const endsAtMs = this.#clock.nowMs() + limitMs;
    node.gather();
    const sent = send();
    let waiting = this.#waitBehind(node, limitMs);
    const reply = await sent;
    if (!isNeeded(reply)) return reply;
    let count = 0;
    for (;;) {
      const outcome = await this.#within(waiting, endsAtMs - this.#clock.nowMs());
      if (outcome instanceof Error) throw outcome;
      count = outcome ?? count;
      if (count >= replicas) return reply;
      const leftMs = endsAtMs - this.#clock.nowMs();
      if (leftMs <= 0 || limit.leftMs <= 0) break;
      waiting = this.#wait(node, leftMs);
    }
    const info = this.#commands.ask('info', ['replication'], lagging, undefined, node);
    const notPermitted = (): string => '';
    const behind = await this.#within(info.catch(notPermitted), limit.leftMs * WAITING_PART);
    throw new UnavailableError(
      `${String(count)} of ${String(replicas)} replicas acknowledged it within ${String(Math.round(limitMs))} ms, so it does not count${behind ?? ''}`,
    );
  }

  /** A WAIT for commands that were sent just now: an unanswered WAIT went out before them. */
  #waitBehind(node: Sender, leftMs: number): Promise<Outcome> {
    const present = this.#present.get(node);
    if (!present) return this.#wait(node, leftMs);
    const next = this.#next.get(node) ?? present.then(() => this.#wait(node, leftMs));
    this.#next.set(node, next);
    return next;
  }

  /** A WAIT for commands that were sent before the unanswered WAIT, if there is one. */
  #wait(node: Sender, leftMs: number): Promise<Outcome> {
    const present = this.#present.get(node);
    if (present) return present;
    const { replicas, silenceLimitMs } = this.#options;
    const longestMs = Math.min(LONGEST_WAIT_MS, silenceLimitMs / 2, leftMs * WAITING_PART);
    const answer = this.#commands
      .ask('wait', [replicas, Math.ceil(longestMs)], Number, undefined, node) // (0 would be forever)
      .catch(asFailure)
      .finally(() => this.#present.delete(node));
    this.#present.set(node, answer);
    this.#next.delete(node);
    return answer;
  }

  /** The promise's outcome; undefined: it takes longer than `ms`. */
  async #within<T>(promise: Promise<T>, ms: number): Promise<T | undefined> {
    let timer: Timer | undefined;
    const late = new Promise<undefined>((resolve) => {
      timer = this.#clock.setTimer(() => {
        resolve(undefined);
      }, ms);
    });
    try {
      return await Promise.race([promise, late]);
    } finally {
      this.#clock.clearTimer(timer);
    }
  }
}

/** How far each replica is behind, by the master's answer to INFO. */
function lagging(info: unknown): string {
  const text = String(info);
  if (/^connected_slaves:0/m.test(text)) return '; no replica is connected';
  const endsAt = Number(/^master_repl_offset:(\d+)/m.exec(text)?.[1]);
  const replicas = text.matchAll(/^slave\d+:ip=(.*),port=(.*),state=(.*),offset=(\d+),lag=(\d+)/gm);
  const each = Array.from(replicas, (match) => {
    const [, host, port, state, offset, lag] = match as unknown as readonly string[];
    const behind = `${String(endsAt - Number(offset))} bytes behind, last heard from ${lag} s ago`;
    return `${host}:${port} (${state === 'online' ? behind : state})`;
  });
  return each.length > 0 ? `; connected: ${each.join(', ')}` : '';
}

/**
 * The error of a failed WAIT. The server ran the script, so the error must not pass for a refusal of the script; what replicas have is not
 * known.
 */
function asFailure(cause: unknown): Error {
  const why = describe(cause as Error);
  const kind = failureKind(cause);
  const message = `whether replicas acknowledged it is not known: ${why}`;
  const mayHelp = (kind !== 'denied' && kind !== 'defect') || why.startsWith(IS_REPLICA);
  return mayHelp ? new Error(message, { cause }) : new UnavailableError(message, { cause });
}
