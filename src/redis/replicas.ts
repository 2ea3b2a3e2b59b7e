// The way to Redis for what counts only when replicas have acknowledged it: a session of its own, since WAIT keeps everything behind it waiting. In a
// cluster WAIT must go to the very node that ran the script, so redirections are followed here.
//
// WAIT goes out in the same write as the script. Scripts that are sent before it is answered share the next WAIT, which follows then: the server reads
// nothing while it waits.

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

/** How often a command is sent anew to where it was redirected. */
const MAX_REDIRECTIONS = 5;

/** For which part of the time that is left something is waited for: so its answer is here before the caller gives up. */
const WAITING_PART = 0.9;

/** How long one WAIT takes at most. Scripts that are sent behind it are held up for so long, also those that need no replica. */
const LONGEST_WAIT_MS = 100;

/** How the answer to WAIT begins when the master became a replica after it ran the script: the next try finds the new master. */
const IS_REPLICA = 'ERR WAIT cannot be used with';

export interface ReplicatedOptions {
  /** How many replicas must have acknowledged what counts only then; 0: none. */
  replicas: number;
  /** Bounds how long the replicas may take, besides the caller's own limit. */
  commandTimeoutMs: number;
  /** A connection is dropped and made anew when it does not answer for this long. */
  silenceLimitMs: number;
}

/** How many replicas have acknowledged all that was sent before a WAIT; or why that will not be known. */
type Outcome = number | Error;

export class Replicated {
  readonly #options: ReplicatedOptions;
  readonly #commands: Reconnecting;
  readonly #clock: Clock;
  /** The WAIT that is unanswered on a connection, and the one that is sent when that is answered. */
  readonly #present = new WeakMap<Sender, Promise<Outcome>>();
  readonly #next = new WeakMap<Sender, Promise<Outcome>>();

  constructor(commands: Reconnecting, options: ReplicatedOptions, clock: Clock) {
    this.#commands = commands;
    this.#options = options;
    this.#clock = clock;
  }

  /** Commands go another way from now on: the present session is left. */
  leaveSession(): void {
    const { session } = this.#commands;
    if (session) this.#commands.leave(session);
  }

  close(): void {
    this.#commands.close();
  }

  /**
   * Runs a script once, whose keys are all in one slot, and reads its reply. The script must change data: after one that only reads, WAIT may have
   * nothing to wait for.
   *
   * @param isNeeded - whether a reply needs to be acknowledged
   * @throws UnavailableError too few replicas acknowledged the script in time, though it ran
   */
  async run<T>(
    { script, keys, args }: { script: Script; keys: readonly string[]; args: readonly Argument[] },
    read: (reply: unknown) => T,
    isNeeded: (reply: T) => boolean,
    limit: TimeLimit,
  ): Promise<T> {
    let isKnown = true;
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
        const parts = [isKnown ? script.sha1 : script.source, keys.length, ...keys, ...args];
        const sender = askedNode?.asking ?? node;
        return this.#commands.ask(isKnown ? 'evalsha' : 'eval', parts, read, undefined, sender);
      };
      try {
        return await this.#acknowledged(node, send, isNeeded, limit);
      } catch (error) {
        const to = redirections < MAX_REDIRECTIONS ? redirectionOf(error) : undefined;
        if (isKnown && isUnknownScript(error)) {
          assertWanted(limit);
          isKnown = false;
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

  /** Sends by `send`, on this connection. Resolves to the reply when that needs no acknowledgement, or enough replicas have acknowledged it. */
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

  /** For what was sent just now: the WAIT that is unanswered went out before it. */
  #waitBehind(node: Sender, leftMs: number): Promise<Outcome> {
    const present = this.#present.get(node);
    if (!present) return this.#wait(node, leftMs);
    const next = this.#next.get(node) ?? present.then(() => this.#wait(node, leftMs));
    this.#next.set(node, next);
    return next;
  }

  /** For what was sent before the WAIT that is unanswered, if there is one. */
  #wait(node: Sender, leftMs: number): Promise<Outcome> {
    const present = this.#present.get(node);
    if (present) return present;
    const { replicas, silenceLimitMs } = this.#options;
    const longestMs = Math.min(LONGEST_WAIT_MS, silenceLimitMs / 2, leftMs * WAITING_PART);
    const answer = this.#commands
      .ask('wait', [replicas, Math.ceil(longestMs)], Number, undefined, node) // (0 would be for ever)
      .catch(asFailure)
      .finally(() => this.#present.delete(node));
    this.#present.set(node, answer);
    this.#next.delete(node);
    return answer;
  }

  /** The promise's outcome; undefined: it takes longer. */
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

/** Which replicas are how far behind, by the master's answer to INFO. */
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

/** What a failed WAIT means for a script: the server ran it, so this must not pass for its refusal; what replicas have is not known. */
function asFailure(cause: unknown): Error {
  const why = describe(cause as Error);
  const kind = failureKind(cause);
  const message = `whether replicas acknowledged it is not known: ${why}`;
  const mayHelp = (kind !== 'denied' && kind !== 'defect') || why.startsWith(IS_REPLICA);
  return mayHelp ? new Error(message, { cause }) : new UnavailableError(message, { cause });
}
