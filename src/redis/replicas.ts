// The way to Redis for what counts only when replicas have acknowledged it: a session of its own, since WAIT keeps everything behind it waiting. In a
// cluster WAIT must go to the very node that ran the script, so redirections are followed here.

import { UnavailableError } from '../api/errors.js';
import type { Clock, TimeLimit, Timer } from '../runtime/clock.js';
import { Cluster, Node } from './cluster.js';
import {
  assertWanted,
  describe,
  failureKind,
  isUnknownScript,
  redirectionOf,
  UnsentError,
} from './failure.js';
import type { Argument, Sender } from './port.js';
import type { Reconnecting } from './reconnecting.js';
import { denied } from './script-denial.js';
import type { Script } from './scripts.generated.js';
import { ignore } from './wire.js';

/** How often a command is sent anew to where it was redirected. */
const MAX_REDIRECTIONS = 5;

/** For which part of the caller's time acknowledgements are waited for: so they are counted before the caller gives up. */
const WAITING_PART = 0.9;

export interface ReplicatedOptions {
  /** How many replicas must have acknowledged what counts only then; 0: none. */
  replicas: number;
  /** Bounds how long the replicas may take, besides the caller's own limit. */
  commandTimeoutMs: number;
  /** A connection is dropped and made anew when it does not answer for this long. */
  silenceLimitMs: number;
}

/** A script and what it is called with. */
interface ScriptCall {
  readonly script: Script;
  /** The script's keys, which are all in one slot. */
  readonly keys: readonly string[];
  readonly args: readonly Argument[];
}

export class Replicated {
  readonly #options: ReplicatedOptions;
  readonly #commands: Reconnecting;
  readonly #clock: Clock;
  readonly #connections = new WeakMap<Sender, Acknowledgements>();

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
   * Runs a script once and reads its reply.
   *
   * @param isNeeded - whether a reply needs to be acknowledged
   * @throws UnavailableError too few replicas acknowledged the script in time, though it ran
   */
  async run<T>(
    { script, keys, args }: ScriptCall,
    read: (reply: unknown) => T,
    isNeeded: (reply: T) => boolean,
    limit: TimeLimit,
  ): Promise<T> {
    const limitMs = Math.min(this.#options.commandTimeoutMs, limit.leftMs * WAITING_PART);
    let isKnown = true;
    let askedNode: Node | undefined;
    for (let redirections = 0; ; redirections++) {
      const node = askedNode ?? this.#senderFor(keys[0] ?? '');
      const sender = askedNode?.asking ?? node;
      const [command, text] = isKnown
        ? (['evalsha', script.sha1] as const)
        : (['eval', script.source] as const);
      const send = (): Promise<T> =>
        this.#commands.ask(command, [text, keys.length, ...keys, ...args], read, undefined, sender);
      try {
        return await this.#on(node).run(send, isNeeded, limitMs, () => limit.leftMs <= 0);
      } catch (error) {
        if (isKnown && isUnknownScript(error)) {
          assertWanted(limit);
          isKnown = false;
          continue;
        }
        const to = redirectionOf(error);
        const cluster = this.#commands.session;
        if (
          !to ||
          !(cluster instanceof Cluster) ||
          !(node instanceof Node) ||
          redirections === MAX_REDIRECTIONS
        ) {
          await denied(error, script, keys);
          throw error;
        }
        cluster.learnFrom(error as Error, node.address);
        askedNode =
          to.kind === 'ASK' ? cluster.node(cluster.reachedAt(to.address, node.address)) : undefined;
      }
    }
  }

  #on(node: Sender): Acknowledgements {
    let acknowledgements = this.#connections.get(node);
    if (!acknowledgements) {
      const { replicas, silenceLimitMs } = this.#options;
      acknowledgements = new Acknowledgements(
        node,
        this.#commands,
        replicas,
        silenceLimitMs,
        this.#clock,
      );
      this.#connections.set(node, acknowledgements);
    }
    return acknowledgements;
  }

  /** The one server, or the node of a cluster that has the key. */
  #senderFor(key: string): Sender {
    const { session } = this.#commands;
    const sender = session instanceof Cluster ? session.nodeOf(key) : session;
    if (sender) return sender;
    if (session instanceof Cluster) session.refresh();
    throw new UnsentError('the node that has the key is not known');
  }
}

// What is sent on one connection and counts only when enough replicas have acknowledged it. WAIT goes out in the same write as the command.
// Commands that are sent before it is answered share the next WAIT, which follows then: the server reads nothing while it waits.

/** How long one WAIT takes at most. Commands that are sent behind it are held up for so long, also those that need no replica. */
const LONGEST_WAIT_MS = 100;

/** How the answer to WAIT begins when the master became a replica after it ran the command: the next try finds the new master. */
const IS_REPLICA = 'ERR WAIT cannot be used with';

/** One command whose acknowledgements are awaited. */
interface Sending {
  /** The command's number in the order of sending. */
  readonly number: number;
  /** How many replicas had acknowledged the command when that was last asked; or why it will not be known. */
  outcome: number | Error;
  readonly isGivenUp: () => boolean;
  /** Called after each WAIT that was sent behind the command. */
  changed: () => void;
}

class Acknowledgements {
  readonly #node: Sender;
  readonly #commands: Reconnecting;
  readonly #replicas: number;
  readonly #waitMs: number;
  readonly #clock: Clock;
  /** The commands that too few replicas have acknowledged so far, and that are not known to need none. */
  readonly #pending = new Set<Sending>();
  #sentCount = 0;
  #isWaiting = false;
  /** Which replicas are behind, as the master said after a WAIT that fell short. */
  #behind = '';

  /** `node`: the connection, one of those of `commands`; `replicas`: how many are enough; `silenceLimitMs`: how long it may be silent. */
  constructor(
    node: Sender,
    commands: Reconnecting,
    replicas: number,
    silenceLimitMs: number,
    clock: Clock,
  ) {
    this.#clock = clock;
    this.#node = node;
    this.#commands = commands;
    this.#replicas = replicas;
    this.#waitMs = Math.max(1, Math.min(LONGEST_WAIT_MS, Math.floor(silenceLimitMs / 2)));
  }

  /**
   * Sends a command. Resolves to its reply when that needs no acknowledgement, or enough replicas have acknowledged it.
   *
   * @param send - sends the command, which must change data: after one that only reads, WAIT may have nothing to wait for
   * @param isNeeded - whether a reply needs to be acknowledged
   * @param limitMs - how long to wait for the acknowledgements, from now
   * @param isGivenUp - whether nobody waits for the command any more
   * @throws UnavailableError too few replicas acknowledged it
   */
  async run<T>(
    send: () => Promise<T>,
    isNeeded: (reply: T) => boolean,
    limitMs: number,
    isGivenUp: () => boolean,
  ): Promise<T> {
    const endsAtMs = this.#clock.nowMs() + limitMs;
    const sending: Sending = {
      number: ++this.#sentCount,
      outcome: 0,
      isGivenUp,
      changed: () => undefined,
    };
    this.#pending.add(sending);
    try {
      const reply = await this.#sendWithWait(send);
      if (isNeeded(reply)) await this.#acknowledged(sending, endsAtMs, limitMs);
      return reply;
    } finally {
      this.#pending.delete(sending);
    }
  }

  #sendWithWait<T>(send: () => Promise<T>): Promise<T> {
    this.#node.gather();
    const reply = send();
    if (!this.#isWaiting) void this.#wait();
    return reply;
  }

  async #wait(hasFallenShort = false): Promise<void> {
    this.#isWaiting = true;
    const upTo = this.#sentCount;
    const commands = this.#commands;
    this.#node.gather();
    if (hasFallenShort)
      commands
        .ask('info', ['replication'], lagging, undefined, this.#node)
        .then((behind) => (this.#behind = behind), ignore);
    const outcome = await commands
      .ask('wait', [this.#replicas, this.#waitMs], Number, undefined, this.#node)
      .catch(asFailure);
    this.#isWaiting = false;
    for (const sending of this.#pending) {
      if (sending.number > upTo) continue;
      sending.outcome = outcome;
      if (this.#isOver(sending)) this.#pending.delete(sending);
      sending.changed();
    }
    if (this.#pending.size > 0)
      void this.#wait(outcome instanceof Error || outcome < this.#replicas);
  }

  #isOver({ outcome }: Sending): boolean {
    return outcome instanceof Error || outcome >= this.#replicas;
  }

  async #acknowledged(sending: Sending, endsAtMs: number, limitMs: number): Promise<void> {
    if (!this.#isOver(sending)) {
      let timer: Timer | undefined;
      await new Promise<void>((resolve) => {
        sending.changed = () => {
          if (this.#isOver(sending) || sending.isGivenUp()) resolve();
        };
        timer = this.#clock.setTimer(resolve, endsAtMs - this.#clock.nowMs());
      });
      this.#clock.clearTimer(timer);
    }
    if (sending.outcome instanceof Error) throw sending.outcome;
    if (this.#isOver(sending)) return;
    throw new UnavailableError(
      `${String(sending.outcome)} of ${String(this.#replicas)} replicas acknowledged it within ${String(Math.round(limitMs))} ms, so it does not count${this.#behind}`,
    );
  }
}

/** Which replicas are how far behind, by the master's answer to INFO. */
function lagging(info: unknown): string {
  const replicas = [...String(info).matchAll(/^slave\d+:(.*)$/gm)].map(
    ([, fields = '']) =>
      Object.fromEntries(
        fields
          .trim()
          .split(',')
          .map((field) => field.split('=')),
      ) as Partial<Record<string, string>>,
  );
  const endsAt = Number(/^master_repl_offset:(\d+)/m.exec(String(info))?.[1]);
  const each = replicas.map(({ ip, port, state, offset, lag }) => {
    const behind = `${String(endsAt - Number(offset))} bytes behind, last heard of ${String(lag)} s ago`;
    return `${String(ip)}:${String(port)} is ${state === 'online' ? behind : String(state)}`;
  });
  return ` (${each.length > 0 ? each.join('; ') : 'the master is connected to no replica'})`;
}

/** What a failed WAIT means for a command: the server ran it, so this must not pass for its refusal; what replicas have is not known. */
function asFailure(cause: unknown): Error {
  const why = cause instanceof Error ? describe(cause) : String(cause);
  const kind = failureKind(cause);
  const message = `whether replicas acknowledged it is not known: ${why}`;
  const mayHelp = (kind !== 'denied' && kind !== 'defect') || why.startsWith(IS_REPLICA);
  return mayHelp ? new Error(message, { cause }) : new UnavailableError(message, { cause });
}
