// Greets the server at the other end of a new connection, before anything else is sent on it: again and again, until the server has
// answered or the connection is gone.

import { UnavailableError } from '../api/errors.js';
import { setTimer } from '../runtime/clock.js';
import { isReply } from './failure.js';
import type { Silence } from './silence.js';

/**
 * How soon a server is greeted again that gave no answer, or refused for now. (Of a cluster, only the node that was asked may be gone: the
 * connections to the others stay.)
 */
const UNANSWERED_MS = 50;

/** How soon a server that refuses us is greeted again: somebody may have permitted meanwhile what the greeting needs. */
const REFUSED_MS = 1_000;

export interface HandshakeListener {
  /** Asks the server what has to be known. An `UnavailableError` that it throws says that the server refuses. */
  readonly greet: () => Promise<void>;
  readonly done: () => void;
  readonly refused: (refusal: UnavailableError) => void;
}

export class Handshake {
  readonly #silence: Silence;
  readonly #listener: HandshakeListener;
  /** Counts the attempts to greet, and the ends of connections: the outcome of an attempt counts only while this has not changed. */
  #attempt = 0;
  /** What the server said when it was greeted last, and refused for now. */
  #hindrance: Error | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(silence: Silence, listener: HandshakeListener) {
    this.#silence = silence;
    this.#listener = listener;
  }

  /** Why the server could not be greeted so far on this connection, in its own words; undefined: it said nothing of that kind. */
  get hindrance(): Error | undefined {
    return this.#hindrance;
  }

  /** The driver's client says that the connection can be used: greets the server. */
  begin(): void {
    clearTimeout(this.#timer);
    this.#silence.awaitHandshake();
    void this.#greet();
  }

  /** The connection is gone, or is not wanted any more. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#hindrance = undefined;
    this.#attempt++;
  }

  async #greet(): Promise<void> {
    const attempt = ++this.#attempt;
    try {
      await this.#listener.greet();
    } catch (error) {
      if (attempt === this.#attempt) this.#failed(error);
      return;
    }
    // Outside of `try`: an error of the listener must not pass for one of the server, which has answered.
    if (attempt !== this.#attempt) return;
    this.#hindrance = undefined;
    this.#listener.done();
  }

  #failed(error: unknown): void {
    this.#hindrance = isReply(error) ? (error as Error) : undefined;
    if (!(error instanceof UnavailableError)) {
      this.#timer = setTimer(() => void this.#greet(), UNANSWERED_MS);
      return;
    }
    this.#listener.refused(error);
    this.#timer = setTimer(() => {
      this.begin();
    }, REFUSED_MS);
  }
}
