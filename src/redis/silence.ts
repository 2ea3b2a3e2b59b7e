// Notices that a connection is silent for too long while something is expected of it: an answer, or the end of its handshake.

import { inOwnContext } from '../runtime/own-context.js';

/** After a blocked event loop answers may be here, unread. They have so long to be read before the silence counts. */
const TO_READ_MS = 1;

export class Silence {
  readonly #shortestLimitMs: number;
  readonly #longestLimitMs: number;
  readonly #onTooLong: (error: Error) => void;
  readonly #server: { readonly bytesRead: number };
  #limitMs: number;
  #unanswered = 0;
  /** Since when there was always something unanswered, on the monotonic clock. */
  #busySinceMs = 0;
  /** When the last answer came; or, if none came since then, `#busySinceMs`. */
  #quietSinceMs = 0;
  #answerTimer: NodeJS.Timeout | undefined;
  #handshakeTimer: NodeJS.Timeout | undefined;

  /**
   * `onTooLong` is told what did not come within the limit, and drops the connection. A server that is slower than that would be left
   * each time before it can answer. So the limit for answers doubles each time, up to `longestLimitMs`, until they come quickly again.
   * `server` knows how much has come.
   */
  constructor(
    limitMs: number,
    longestLimitMs: number,
    onTooLong: (error: Error) => void,
    server: { readonly bytesRead: number },
  ) {
    this.#shortestLimitMs = limitMs;
    this.#longestLimitMs = longestLimitMs;
    this.#limitMs = limitMs;
    this.#onTooLong = onTooLong;
    this.#server = server;
  }

  /** There is a new connection: `handshakeEnded` or `stop` is to follow. */
  awaitHandshake(): void {
    clearTimeout(this.#handshakeTimer);
    this.#handshakeTimer = setTimeout(this.#readHandshake, this.#shortestLimitMs);
  }

  handshakeEnded(): void {
    clearTimeout(this.#handshakeTimer);
  }

  get isAwaitingAnswers(): boolean {
    return this.#unanswered > 0;
  }

  /** A command goes out. (The timer is not set anew for each, only when it rings and answers came meanwhile.) */
  asked(): void {
    if (this.#unanswered++ === 0) this.#busySinceMs = this.#quietSinceMs = performance.now();
    // The silence is told to all, so its timer must not run in the context of the caller who happens to send this command.
    this.#answerTimer ??= inOwnContext(() => setTimeout(this.#check, this.#limitMs));
  }

  /** A command was answered; or rejected, as all are that a lost connection leaves unanswered. */
  answered(): void {
    this.#unanswered--;
    this.#quietSinceMs = performance.now();
    if (this.#limitMs === this.#shortestLimitMs || this.#unanswered > 0) return;
    if (this.#quietSinceMs - this.#busySinceMs >= this.#shortestLimitMs / 2) return;
    this.#limitMs = this.#shortestLimitMs;
    clearTimeout(this.#answerTimer);
    this.#answerTimer = undefined;
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
    const unansweredSinceMs = this.#quietSinceMs;
    this.#answerTimer = setTimeout(() => {
      if (this.#unanswered === 0 || this.#quietSinceMs !== unansweredSinceMs) this.#check();
      else this.#tooLong();
    }, TO_READ_MS);
  };

  /** A handshake takes several steps: if one of them was there to be read, the next one has its time, too. */
  readonly #readHandshake = (): void => {
    const { bytesRead } = this.#server;
    this.#handshakeTimer = setTimeout(() => {
      if (this.#server.bytesRead !== bytesRead) this.awaitHandshake();
      else this.#onTooLong(new Error(`no handshake within ${String(this.#shortestLimitMs)} ms`));
    }, TO_READ_MS);
  };

  #tooLong(): void {
    const error = new Error(`no answer within ${String(this.#limitMs)} ms`);
    this.#limitMs = Math.min(2 * this.#limitMs, this.#longestLimitMs);
    this.#onTooLong(error);
  }
}
