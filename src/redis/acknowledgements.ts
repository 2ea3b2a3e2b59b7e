// What is sent on one connection and counts only when enough replicas have acknowledged it. WAIT goes out in the same write as the command.
// Commands that are sent before it is answered share the next WAIT, which follows then: the server reads nothing while it waits.

import { setTimer } from '../runtime/clock.js';
import { UnavailableError } from '../api/errors.js';
import type { Sender } from './driver.js';
import { describe, failureKind } from './failure.js';
import type { Link } from './link.js';

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

export class Acknowledgements {
  readonly #node: Sender;
  readonly #link: Link;
  readonly #replicas: number;
  readonly #waitMs: number;
  /** The commands that too few replicas have acknowledged so far, and that are not known to need none. */
  readonly #pending = new Set<Sending>();
  #sentCount = 0;
  #isWaiting = false;

  /** `node`: the connection, one of those of `link`; `replicas`: how many are enough; `silenceLimitMs`: how long it may be silent. */
  constructor(node: Sender, link: Link, replicas: number, silenceLimitMs: number) {
    this.#node = node;
    this.#link = link;
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
    const endsAtMs = performance.now() + limitMs;
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

  async #wait(): Promise<void> {
    this.#isWaiting = true;
    const upTo = this.#sentCount;
    const outcome = await this.#link
      .ask('wait', [this.#replicas, this.#waitMs], Number, undefined, this.#node)
      .catch(asFailure);
    this.#isWaiting = false;
    for (const sending of this.#pending) {
      if (sending.number > upTo) continue;
      sending.outcome = outcome;
      if (this.#isOver(sending)) this.#pending.delete(sending);
      sending.changed();
    }
    if (this.#pending.size > 0) void this.#wait();
  }

  #isOver({ outcome }: Sending): boolean {
    return outcome instanceof Error || outcome >= this.#replicas;
  }

  async #acknowledged(sending: Sending, endsAtMs: number, limitMs: number): Promise<void> {
    if (!this.#isOver(sending)) {
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        sending.changed = () => {
          if (this.#isOver(sending) || sending.isGivenUp()) resolve();
        };
        timer = setTimer(resolve, endsAtMs - performance.now());
      });
      clearTimeout(timer);
    }
    if (sending.outcome instanceof Error) throw sending.outcome;
    if (this.#isOver(sending)) return;
    throw new UnavailableError(
      `${String(sending.outcome)} of ${String(this.#replicas)} replicas acknowledged it within ${String(Math.round(limitMs))} ms, so it does not count`,
    );
  }
}

/** What a failed WAIT means for a command: the server ran it, so this must not pass for its refusal; what replicas have is not known. */
function asFailure(cause: unknown): Error {
  const why = cause instanceof Error ? describe(cause) : String(cause);
  const kind = failureKind(cause);
  const message = `whether replicas acknowledged it is not known: ${why}`;
  const mayHelp = (kind !== 'denied' && kind !== 'defect') || why.startsWith(IS_REPLICA);
  return mayHelp ? new Error(message, { cause }) : new UnavailableError(message, { cause });
}
