// One ioredis client of ours, and what is known of its health: ready, refused, silent, closed.

import type { Writable } from 'node:stream';
import { ClosedError, UnavailableError } from '../errors.js';
import type { Patience } from '../waiting/patience.js';
import { isCluster, type RedisClient } from './clients.js';
import { disconnect } from './disconnection.js';
import { describe, failureKind, isMereLoss, isReply, UnsentError } from './failure.js';
import { firstWords } from './first-words.js';
import { redacted } from './redaction.js';
import { Silence } from './silence.js';

/** What the owner of a link wants to know. */
export interface LinkListener {
  /** Runs on every new connection before it counts as ready; an error it throws refuses the connection for good. */
  greet?(client: RedisClient): Promise<void>;
  /** A new connection is ready for commands. */
  ready(): void;
  /** The connection failed; ioredis connects anew by itself. */
  failed(error: Error): void;
  /** The server said something that was not asked for: replies may have been taken for those to other commands. */
  outOfStep?(): void;
}

export interface LinkOptions {
  /** A connection that stays silent for so long while something is unanswered is dropped and made anew. */
  silenceLimitMs: number;
  /** What the limit for answers grows to where they never come in time. */
  longestSilenceMs: number;
}

/** A call that waits for the connection. */
interface Waiter {
  resolve: () => void;
  reject: (error: Error) => void;
}

/** ioredis' words for a reply to no command. */
const OUT_OF_STEP = 'Command queue state error';

export class Link {
  readonly client: RedisClient;
  readonly #listener: LinkListener;
  readonly #silence: Silence;
  #isReady = false;
  #closing: Promise<void> | undefined;
  /** Counts the connections: what a former one still has to say is of no interest. */
  #epoch = 0;
  readonly #waiters = new Set<Waiter>();
  /** Why the server does not let us in; waiting would not help. */
  #refusal: UnavailableError | undefined;
  #lastError: Error | undefined;
  #hasListened = false;
  readonly #end = new AbortController();

  constructor(client: RedisClient, options: LinkOptions, listener: LinkListener) {
    this.client = client;
    this.#listener = listener;
    const { silenceLimitMs, longestSilenceMs } = options;
    this.#silence = new Silence(silenceLimitMs, longestSilenceMs, (error) => {
      this.#drop(error);
    });
    client.on('error', (error: Error) => {
      if (listener.outOfStep && error.message.startsWith(OUT_OF_STEP)) listener.outOfStep();
      else this.#failed(redacted(error));
    });
    client.on('connect', () => {
      this.#silence.awaitHandshake();
    });
    client.on('ready', () => {
      void this.#greet();
    });
    client.on('close', () => {
      this.#down();
    });
  }

  get isReady(): boolean {
    return this.#isReady;
  }

  /** The last thing that went wrong with the connection, until it is ready again. */
  get lastError(): Error | undefined {
    return this.#lastError;
  }

  /** Why waiting for it would not help; undefined: it would. */
  get refusal(): Error | undefined {
    return this.#closing ? new ClosedError('the client is closed') : this.#refusal;
  }

  /** Resolves when commands can be sent; rejects when the server refuses us, the link is closed, or patience is over. */
  async whenReady(patience: Patience): Promise<void> {
    if (this.#isReady) return;
    if (this.#refusal) throw this.#refusal;
    if (this.#closing) throw new ClosedError('the client is closed');
    let waiter: Waiter | undefined;
    const ready = new Promise<void>((resolve, reject) => {
      waiter = { resolve, reject };
      this.#waiters.add(waiter);
    });
    try {
      await patience.within(ready);
    } finally {
      // An outage may be long: whoever has given up leaves nothing behind.
      if (waiter) this.#waiters.delete(waiter);
    }
  }

  /**
   * Sends one command, once, and reads its reply. Rejects with the server's error, or with that of the connection it was
   * lost with; `otherwise` may have a better answer to an error. (One promise for all: every acquire comes this way.)
   */
  ask<Reply, T>(
    command: (client: RedisClient) => Promise<Reply>,
    read: (reply: Reply) => T,
    otherwise?: (error: unknown) => Promise<T> | undefined,
  ): Promise<T> {
    if (!this.#isReady) {
      return Promise.reject(this.#refusal ?? new UnsentError(`not connected${this.#because()}`));
    }
    this.#gather();
    this.#silence.asked();
    return command(this.client).then(
      (reply) => {
        this.#silence.answered();
        return read(reply);
      },
      (error: unknown) => {
        this.#silence.answered();
        const answer = otherwise?.(error);
        if (answer) return answer;
        throw redacted(error);
      },
    );
  }

  /**
   * Has what is sent on a busy connection written once in each turn of the event loop: ioredis makes a system call of each
   * command, and for a server that is waiting each would be a wake-up of its own. On an idle one nothing is worth waiting for.
   */
  #gather(): void {
    if (isCluster(this.client) || !this.#silence.isAwaitingAnswers) return;
    const { stream } = this.client;
    if (stream.writableCorked > 0) return;
    stream.cork();
    process.nextTick(uncork, stream);
  }

  /** Connects anew, to wherever the address leads now: the server at the other end is the wrong one. */
  reconnect(): void {
    if (this.#closing) return;
    this.#down(); // at once: until its socket is gone, ioredis would still call itself ready
    this.client.disconnect(true);
  }

  /** Disconnects for good; resolves when the socket is gone. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#end.abort();
    this.#down();
    this.#lastError = new ClosedError('its client is closed');
    for (const waiter of this.#waiters) waiter.reject(new ClosedError('the client is closed'));
    await disconnect(this.client);
  }

  async #greet(): Promise<void> {
    const epoch = this.#epoch;
    try {
      await this.#listener.greet?.(this.client);
    } catch (error) {
      if (error instanceof UnavailableError) this.#refuse(error);
      return;
    }
    if (this.#closing || this.#epoch !== epoch || this.client.status !== 'ready') return;
    this.#silence.handshakeEnded();
    this.#isReady = true;
    this.#refusal = undefined;
    this.#lastError = undefined;
    this.#hasListened = false;
    for (const waiter of this.#waiters) waiter.resolve();
    this.#listener.ready();
  }

  #failed(error: Error): void {
    if (this.#closing) return;
    if (isMereLoss(error)) {
      if (isReply(this.#lastError)) return; // which says more
      void this.#listenOnce();
    }
    const isNews = error.message !== this.#lastError?.message;
    this.#lastError = error;
    if (failureKind(error) === 'denied') {
      this.#refuse(
        new UnavailableError(`Redis refuses the connection: ${error.message}`, { cause: error }),
      );
    }
    // A server that is down fails every attempt in the same words: say it once.
    if (isNews) this.#listener.failed(error);
  }

  /** The server hung up: once in an outage it is asked whether it says why. */
  async #listenOnce(): Promise<void> {
    if (this.#hasListened) return;
    this.#hasListened = true;
    const said = await firstWords(this.client, this.#end.signal);
    if (said && !this.#isReady) this.#failed(said);
  }

  #refuse(refusal: UnavailableError): void {
    this.#silence.handshakeEnded(); // it said what it had to say
    this.#lastError ??= refusal;
    this.#refusal = refusal;
    for (const waiter of this.#waiters) waiter.reject(refusal);
  }

  #down(): void {
    this.#silence.stop();
    this.#isReady = false;
    this.#epoch++;
  }

  #drop(error: Error): void {
    if (this.#closing) return;
    this.#failed(error);
    this.reconnect();
  }

  #because(): string {
    return this.#lastError ? ` (last connection error: ${describe(this.#lastError)})` : '';
  }
}

function uncork(stream: Writable): void {
  stream.uncork();
}
