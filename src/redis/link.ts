// One client of the driver, and whether it can be used: ready, refused, silent, closed.

import { ClosedError } from '../api/errors.js';
import type { WaitLimit } from '../runtime/wait-limit.js';
import { DownNodes } from './down-nodes.js';
import type { Argument, ClientListener, RedisClient, Sender } from './driver.js';
import { describe, UnsentError } from './failure.js';
import { Handshake } from './handshake.js';
import { Silence } from './silence.js';
import { SilentNodes, type SilenceLimits } from './silent-nodes.js';
import { Trouble, type TroubleListener } from './trouble.js';

/** What a subscriber wants to know of its link. */
export type SubscriptionListener = Pick<
  ClientListener,
  'ready' | 'closed' | 'outOfStep' | 'message' | 'moved'
>;

const ignore = (): void => undefined;

/** What the owner of a link wants to know. */
export interface LinkListener
  extends Partial<SubscriptionListener>, Pick<TroubleListener, 'outage' | 'failed'> {
  /** Runs on every new connection before it counts as ready. An `UnavailableError` that it throws refuses the connection, for now. */
  greet?(client: RedisClient): Promise<void>;
  /** The error of a command in words that say more. */
  explain?(error: Error, client: RedisClient): Error;
}

/** 'connecting' includes connecting anew, for as long as it takes; 'refused' says that waiting for the link would not help. */
export type LinkStatus = 'connecting' | 'ready' | 'refused' | 'closed';

export class Link {
  readonly client: RedisClient;
  readonly #listener: LinkListener;
  readonly #silence: Silence;
  /** Watches the nodes of a cluster one by one: the answers of one must not hide that another is silent. */
  readonly #silentNodes: SilentNodes | undefined;
  readonly #downNodes: DownNodes | undefined;
  readonly #trouble: Trouble;
  readonly #handshake: Handshake;
  #isReady = false;
  /** Whether the connection that ends next was ready, until `reconnect` dropped it: its end is not that of an attempt to connect. */
  #isLeaving = false;
  #closing: Promise<void> | undefined;

  constructor(client: RedisClient, limits: SilenceLimits, listener: LinkListener) {
    this.client = client;
    this.#listener = listener;
    const { silenceLimitMs, longestSilenceMs } = limits;
    this.#silence = new Silence(silenceLimitMs, longestSilenceMs, this.#drop, client);
    this.#trouble = new Trouble(client, this, listener, () => {
      this.#silence.handshakeEnded();
    });
    this.#handshake = new Handshake(this.#silence, {
      greet: () => listener.greet?.(client) ?? Promise.resolve(),
      done: this.#greeted,
      refused: (refusal) => {
        this.#trouble.refuse(refusal);
      },
    });
    const { failed, reportOnce } = this.#trouble;
    if (client.cluster) {
      this.#downNodes = new DownNodes(client.cluster);
      this.#silentNodes = new SilentNodes(client.cluster, limits, (error) => {
        if (!this.#closing) listener.failed(error);
      });
    }
    client.listen({
      connected: () => {
        this.#trouble.attemptBegan();
        this.#silence.awaitHandshake();
      },
      ready: () => {
        // Also if a cluster's client says so without having a node: the greeting is repeated until it has one, and nobody else would ask.
        if (!this.#closing) this.#handshake.begin();
      },
      closed: (unsaid) => {
        this.#ended(unsaid);
        listener.closed?.(unsaid);
      },
      failed,
      hindered: reportOnce,
      outOfStep: listener.outOfStep ?? failed,
      message: listener.message ?? ignore,
      moved: listener.moved ?? ignore,
    });
  }

  get status(): LinkStatus {
    if (this.#closing) return 'closed';
    if (this.#isReady) return 'ready';
    return this.#trouble.refusal ? 'refused' : 'connecting';
  }

  get isReady(): boolean {
    return this.#isReady;
  }

  get isLeaving(): boolean {
    return this.#isLeaving;
  }

  /** Whether anything that was sent is unanswered. */
  get isAwaitingAnswers(): boolean {
    return this.#silence.isAwaitingAnswers;
  }

  /** The last thing that went wrong with the connection, until it is ready again. */
  get lastError(): Error | undefined {
    return this.#handshake.hindrance ?? this.#trouble.lastError;
  }

  /** Why waiting for the connection would not help; undefined: it would. */
  get refusal(): Error | undefined {
    return this.#closing ? new ClosedError('the client is closed') : this.#trouble.refusal;
  }

  /**
   * Resolves when commands can be sent; rejects when the server refuses us, the link is closed, or the limit is over; for a
   * single attempt also when an attempt to connect has failed that ended after this call.
   */
  async whenReady(limit: WaitLimit): Promise<void> {
    if (!this.#isReady) await this.#trouble.whenOver(limit);
  }

  /**
   * Sends one command, once, and reads its reply. Rejects with the server's error, or with that of the lost connection, unless
   * `otherwise` turns the error into another outcome. `sender` may be one node of a cluster. (All this makes only one promise, since
   * every acquire comes this way.)
   */
  ask<T>(
    command: Lowercase<string>,
    args: readonly Argument[],
    read: (reply: unknown) => T,
    otherwise?: (error: Error) => Promise<T> | undefined,
    sender: Sender = this.client,
  ): Promise<T> {
    if (!this.#isReady) {
      return Promise.reject(
        this.#trouble.refusal ?? new UnsentError(`not connected${this.#because()}`),
      );
    }
    // Commands are written together only while others are unanswered: on an idle connection they must not wait for the end of the turn.
    if (this.#silence.isAwaitingAnswers) sender.gather();
    this.#silence.asked();
    this.#silentNodes?.asked();
    return sender.send(
      command,
      args,
      (reply) => {
        this.#silence.answered();
        return read(reply);
      },
      (error) => {
        this.#silence.answered();
        this.#downNodes?.failed(error);
        const answer = otherwise?.(error);
        if (answer) return answer;
        throw this.#listener.explain?.(error, this.client) ?? error;
      },
    );
  }

  /** Drops the connection and makes another one, to wherever the address leads now. */
  reconnect(): void {
    if (this.#closing) return;
    this.#isLeaving ||= this.#isReady;
    this.#down(); // at once: until its socket is gone, the client would still call itself ready
    this.client.reconnect();
  }

  /** Disconnects for good; resolves when the socket is gone. */
  close(): Promise<void> {
    if (!this.#closing) {
      this.#down();
      this.#trouble.close();
      this.#closing = this.client.close();
    }
    return this.#closing;
  }

  readonly #greeted = (): void => {
    if (!this.client.isReady) return;
    this.#silence.handshakeEnded();
    this.#isReady = true;
    this.#trouble.over();
    this.#listener.ready?.();
  };

  /** The connection is gone, or the attempt to make one. */
  #ended(unsaid: Error): void {
    const isAttempt = !this.#isReady && !this.#isLeaving && !this.#closing;
    this.#isLeaving = false;
    this.#down();
    this.#trouble.ended(isAttempt ? unsaid : undefined);
  }

  #down(): void {
    this.#silence.stop();
    this.#silentNodes?.stop();
    if (this.#isReady) this.#listener.outage(true);
    this.#isReady = false;
    this.#handshake.stop();
  }

  readonly #drop = (error: Error): void => {
    if (this.#closing) return;
    this.#trouble.failed(this.#handshake.hindrance ?? error); // what the server said says more
    this.reconnect();
  };

  #because(): string {
    const { lastError } = this;
    return lastError ? ` (last connection error: ${describe(lastError)})` : '';
  }
}
