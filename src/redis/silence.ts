// The silence of a connection while something is expected of it: an answer, or the end of its handshake.

import { inOwnContext } from '../runtime/own-context.js';

/** After a blocked event loop the answers may be here, unread: they are read first. */
const TO_READ_MS = 1;

export class Silence {
  readonly #shortestLimitMs: number;
  readonly #longestLimitMs: number;
  readonly #onTooLong: (error: Error) => void;
  #limitMs: number;
  #unanswered = 0;
  /** Since when something is unanswered. */
  #busySinceMs = 0;
  #quietSinceMs = 0;
  #answerTimer: NodeJS.Timeout | undefined;
  #handshakeTimer: NodeJS.Timeout | undefined;

  /**
   * `onTooLong` is told what has not come within the limit. A server that takes longer to answer would be left each time before it
   * can; so for answers the limit grows, twice as long each time, up to `longestLimitMs`, until they come quickly again.
   */
  constructor(limitMs: number, longestLimitMs: number, onTooLong: (error: Error) => void) {
    this.#shortestLimitMs = limitMs;
    this.#longestLimitMs = longestLimitMs;
    this.#limitMs = limitMs;
    this.#onTooLong = onTooLong;
  }

  /** There is a new connection: `handshakeEnded` or `stop` is to follow. */
  awaitHandshake(): void {
    clearTimeout(this.#handshakeTimer);
    this.#handshakeTimer = setTimeout(() => {
      this.#handshakeTimer = setTimeout(this.#noHandshake, TO_READ_MS);
    }, this.#shortestLimitMs);
  }

  handshakeEnded(): void {
    clearTimeout(this.#handshakeTimer);
  }

  get isAwaitingAnswers(): boolean {
    return this.#unanswered > 0;
  }

  /** A command goes out. The timer is not re-armed for each, only when it rings and there were answers meanwhile. */
  asked(): void {
    if (this.#unanswered++ === 0) this.#busySinceMs = this.#quietSinceMs = performance.now();
    // Not in the context of whoever happens to send it: what follows is told to all.
    this.#answerTimer ??= inOwnContext(() => setTimeout(this.#check, this.#limitMs));
  }

  /** Its answer came, or it never will: what a lost connection leaves unanswered is rejected. */
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

  readonly #noHandshake = (): void => {
    this.#onTooLong(new Error(`no handshake within ${String(this.#shortestLimitMs)} ms`));
  };

  #tooLong(): void {
    const error = new Error(`no answer within ${String(this.#limitMs)} ms`);
    this.#limitMs = Math.min(2 * this.#limitMs, this.#longestLimitMs);
    this.#onTooLong(error);
  }
}
