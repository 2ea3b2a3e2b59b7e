// One ioredis client of ours, and what is known of its health: ready, refused, silent, closed.

import type { Writable } from 'node:stream';
import { ClosedError, UnavailableError } from '../api/errors.js';
import type { WaitLimit } from '../runtime/wait-limit.js';
import { Awaiting } from './awaiting.js';
import { ASKING_DENIED, isCluster, type RedisClient } from './clients.js';
import { hasNodes, seeToComeback } from './comeback.js';
import { disconnect } from './disconnection.js';
import { describe, failureKind, isMereLoss, isReply, UnsentError } from './failure.js';
import { firstWords } from './first-words.js';
import { Outage } from './outage.js';
import { redacted } from './redaction.js';
import { Silence } from './silence.js';
import { SilentNodes } from './silent-nodes.js';
import { onTrouble, unexplained } from './troubles.js';

/** What the owner of a link wants to know. */
export interface LinkListener {
  /** Runs on every new connection before it counts as ready; an error it throws refuses the connection for good. */
  greet?(client: RedisClient): Promise<void>;
  /** A new connection is ready for commands. */
  ready(): void;
  /** Whether there is none, or none came about; ioredis connects anew by itself. */
  outage(isOn: boolean): void;
  /** Why, or what was wrong with the connection. */
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

/** How a link is: connecting includes connecting anew, for as long as it takes; refused, that waiting would not help. */
export type LinkStatus = 'connecting' | 'ready' | 'refused' | 'closed';

/** ioredis' words for a reply to no command. */
const OUT_OF_STEP = 'Command queue state error';

export class Link {
  readonly client: RedisClient;
  readonly #listener: LinkListener;
  readonly #silence: Silence;
  /** Of a cluster. */
  readonly #silentNodes: SilentNodes | undefined;
  #isReady = false;
  #closing: Promise<void> | undefined;
  /** Counts the connections: what a former one still has to say is of no interest. */
  #epoch = 0;
  readonly #awaiting = new Awaiting();
  /** Why the server does not let us in; waiting would not help. */
  #refusal: UnavailableError | undefined;
  #lastError: Error | undefined;
  #hasListened = false;
  readonly #end = new AbortController();
  readonly #stopLooking: (() => void) | undefined;
  readonly #outage = new Outage();
  /** Whether the connection that ends next is one that was ready: its end is not that of an attempt. */
  #isLeaving = false;
  /** Whether the attempt that is under way has said why it fails. */
  #isExplained = false;

  constructor(client: RedisClient, options: LinkOptions, listener: LinkListener) {
    this.client = client;
    this.#listener = listener;
    const { silenceLimitMs, longestSilenceMs } = options;
    this.#silence = new Silence(silenceLimitMs, longestSilenceMs, (error) => {
      this.#drop(error);
    });
    onTrouble(client, (error) => {
      if (listener.outOfStep && error.message.startsWith(OUT_OF_STEP)) listener.outOfStep();
      else this.#failed(error);
    });
    client.on('connect', () => {
      this.#isExplained = false;
      this.#silence.awaitHandshake();
    });
    client.on('ready', () => {
      void this.#greet();
    });
    client.on('close', () => {
      this.#ended();
    });
    if (isCluster(client)) {
      this.#stopLooking = seeToComeback(client);
      this.#silentNodes = new SilentNodes(client, options, (error) => {
        this.#tellOnce(error);
      });
      client.on(ASKING_DENIED, (error: Error) => {
        this.#tellOnce(redacted(error));
      });
    }
  }

  get status(): LinkStatus {
    if (this.#closing) return 'closed';
    if (this.#isReady) return 'ready';
    return this.#refusal ? 'refused' : 'connecting';
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

  /**
   * Resolves when commands can be sent; rejects when the server refuses us, the link is closed, or patience is over; for a
   * single attempt also when an attempt to connect has failed that ended after this call.
   */
  async whenReady(waitLimit: WaitLimit): Promise<void> {
    if (this.#isReady) return;
    if (this.#refusal) throw this.#refusal;
    if (this.#closing) throw new ClosedError('the client is closed');
    await this.#awaiting.wait(waitLimit);
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
    this.#asked();
    return command(this.client).then(
      (reply) => {
        this.#answered();
        return read(reply);
      },
      (error: unknown) => {
        this.#answered();
        const answer = otherwise?.(error);
        if (answer) return answer;
        throw redacted(error);
      },
    );
  }

  /** Each node of a cluster is listened to by itself: what one says must not hide that another is silent. */
  #asked(): void {
    if (this.#silentNodes) this.#silentNodes.asked();
    else this.#silence.asked();
  }

  #answered(): void {
    if (!this.#silentNodes) this.#silence.answered();
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
    this.#isLeaving ||= this.#isReady;
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
    this.#stopLooking?.();
    this.#down();
    this.#listener.outage(false);
    this.#lastError = new ClosedError('its client is closed');
    this.#awaiting.fail(new ClosedError('the client is closed'));
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
    if (this.#closing || this.#epoch !== epoch || !isReady(this.client)) return;
    this.#silence.handshakeEnded();
    this.#isReady = true;
    this.#refusal = undefined;
    this.#lastError = undefined;
    this.#hasListened = false;
    this.#outage.end();
    this.#isExplained = false;
    this.#listener.outage(false);
    this.#awaiting.ready();
    this.#listener.ready();
  }

  #failed(error: Error): void {
    if (this.#closing) return;
    const isMute = isMereLoss(error);
    if (!isMute || !isReply(this.#lastError)) this.#lastError = error; // what the server said says more
    const isDenied = failureKind(error) === 'denied';
    if (isDenied) this.#refuse(refused(error));
    // (A cluster that is ready tells of single nodes.)
    if (!this.#isReady || !isCluster(this.client)) this.#listener.outage(true);
    const explained = isMute ? this.#listenOnce() : undefined;
    if (!this.#isReady) {
      this.#isExplained = true;
      if (!isDenied) this.#refusal = undefined; // it may let us in when it is back
      if (!this.#isLeaving) this.#attemptFailed(explained);
    }
    if (this.#lastError === error) this.#tellOnce(error);
  }

  #tellOnce(error: Error): void {
    if (!this.#closing && this.#outage.isNews(describe(error))) this.#listener.failed(error);
  }

  /** Whoever makes a single attempt waits for no other, but for why it failed. */
  #attemptFailed(explained?: Promise<void>): void {
    const fail = this.#awaiting.singleAttempts();
    const tell = (): void => {
      if (this.#lastError) fail(unreachable(this.#lastError));
    };
    if (explained) void explained.then(tell);
    else tell();
  }

  /** The server hung up: once in an outage it is asked whether it says why. Resolves when that is known, or was asked before. */
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
    this.#awaiting.fail(refusal);
  }

  /** The connection is gone, or the attempt to make one. */
  #ended(): void {
    const isAttempt = !this.#isReady && !this.#isLeaving && !this.#closing;
    this.#isLeaving = false;
    this.#down();
    // (That an attempt said why it failed was its end: who came since waits for the next one.)
    if (isAttempt && !this.#isExplained) this.#failed(unexplained(this.client));
    this.#isExplained = false;
  }

  #down(): void {
    this.#silence.stop();
    this.#silentNodes?.stop();
    if (this.#isReady) this.#listener.outage(true);
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

/** A cluster may say that it is and have no node. */
function isReady(client: RedisClient): boolean {
  return client.status === 'ready' && !(isCluster(client) && !hasNodes(client));
}

function refused(cause: Error): UnavailableError {
  return new UnavailableError(`Redis refuses the connection: ${cause.message}`, { cause });
}

function unreachable(cause: Error): UnavailableError {
  return new UnavailableError(`Redis cannot be reached: ${describe(cause)}`, { cause });
}

function uncork(stream: Writable): void {
  stream.uncork();
}
