// The silence of a connection while something is expected of it: an answer, or the end of its handshake.

export class Silence {
  readonly #limitMs: number;
  readonly #onTooLong: (error: Error) => void;
  #unanswered = 0;
  #quietSinceMs = 0;
  #answerTimer: NodeJS.Timeout | undefined;
  #handshakeTimer: NodeJS.Timeout | undefined;

  /** `onTooLong` is told what has not come within `limitMs`. */
  constructor(limitMs: number, onTooLong: (error: Error) => void) {
    this.#limitMs = limitMs;
    this.#onTooLong = onTooLong;
  }

  /** There is a new connection: `handshakeEnded` or `stop` is to follow. */
  awaitHandshake(): void {
    clearTimeout(this.#handshakeTimer);
    this.#handshakeTimer = setTimeout(() => {
      this.#onTooLong(new Error(`no handshake within ${String(this.#limitMs)} ms`));
    }, this.#limitMs);
  }

  handshakeEnded(): void {
    clearTimeout(this.#handshakeTimer);
  }

  get isAwaitingAnswers(): boolean {
    return this.#unanswered > 0;
  }

  /** A command goes out. The timer is not re-armed for each, only when it rings and there were answers meanwhile. */
  asked(): void {
    if (this.#unanswered++ === 0) this.#quietSinceMs = performance.now();
    this.#answerTimer ??= setTimeout(this.#check, this.#limitMs);
  }

  /** Its answer came, or it never will: what a lost connection leaves unanswered is rejected. */
  answered(): void {
    this.#unanswered--;
    this.#quietSinceMs = performance.now();
  }

  /** The connection is gone, and nothing is expected of it any more. */
  stop(): void {
    clearTimeout(this.#handshakeTimer);
    clearTimeout(this.#answerTimer);
    this.#answerTimer = undefined;
  }

  readonly #check = (): void => {
    this.#answerTimer = undefined;
    if (this.#unanswered === 0) return;
    const leftMs = this.#quietSinceMs + this.#limitMs - performance.now();
    if (leftMs > 0) {
      this.#answerTimer = setTimeout(this.#check, Math.ceil(leftMs));
      return;
    }
    // After a blocked event loop the answers may be here, unread: read them first.
    const unansweredSinceMs = this.#quietSinceMs;
    this.#answerTimer = setTimeout(() => {
      if (this.#unanswered === 0 || this.#quietSinceMs !== unansweredSinceMs) this.#check();
      else this.#onTooLong(new Error(`no answer within ${String(this.#limitMs)} ms`));
    }, 1);
  };
}
