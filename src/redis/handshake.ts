// Greets the server at the other end of a new connection, before anything else is sent on it: again and again, until the server has
// answered or the connection is gone.

import { UnavailableError } from '../api/errors.js';
import { setTimer } from '../runtime/clock.js';
import type { Silence } from './silence.js';

/**
 * How soon a cluster is greeted again when no answer came: the node that was asked is gone, and the connection to the others stays.
 */
const UNANSWERED_MS = 50;

/** How soon a server that refused is greeted again: somebody may have permitted meanwhile what it takes. */
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
  /** Counts the attempts and the ends of connections: what comes of a former attempt is of no interest. */
  #attempt = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(silence: Silence, listener: HandshakeListener) {
    this.#silence = silence;
    this.#listener = listener;
  }

  /** The connection can be used, as far as the client of the driver knows. */
  begin(): void {
    clearTimeout(this.#timer);
    this.#silence.awaitHandshake();
    void this.#greet();
  }

  /** The connection is gone, or is not wanted any more. */
  stop(): void {
    clearTimeout(this.#timer);
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
    // Outside: whatever a listener makes of it, the server has answered.
    if (attempt === this.#attempt) this.#listener.done();
  }

  #failed(error: unknown): void {
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
