// What is wrong with a link's connection: why there is none, whether waiting for one would help, and who has to be told.

import { ClosedError, UnavailableError } from '../api/errors.js';
import type { WaitLimit } from '../runtime/wait-limit.js';
import { Awaiting } from './awaiting.js';
import type { RedisClient } from './driver.js';
import { describe, failureKind, isMereLoss, isReply } from './failure.js';
import { firstWords } from './first-words.js';
import { Outage } from './outage.js';

/** How a link's connection is at the moment. */
export interface Situation {
  readonly isReady: boolean;
  /** Whether the connection that ends next is one that was ready: its end is not that of an attempt. */
  readonly isLeaving: boolean;
}

export interface TroubleListener {
  /** Whether there is no connection, or none came about. */
  outage(isOn: boolean): void;
  /** Why, told once in an outage for each reason. */
  failed(error: Error): void;
}

export class Trouble {
  readonly #client: RedisClient;
  readonly #situation: Situation;
  readonly #listener: TroubleListener;
  readonly #onRefused: () => void;
  readonly #awaiting = new Awaiting();
  readonly #outage = new Outage();
  readonly #end = new AbortController();
  #lastError: Error | undefined;
  #refusal: UnavailableError | undefined;
  #hasListened = false;
  /** Whether the attempt to connect that is under way has said why it fails. */
  #isExplained = false;

  /** `onRefused`: the server has said what it had to say, and waiting for it would not help. */
  constructor(
    client: RedisClient,
    situation: Situation,
    listener: TroubleListener,
    onRefused: () => void,
  ) {
    this.#client = client;
    this.#situation = situation;
    this.#listener = listener;
    this.#onRefused = onRefused;
  }

  /** The last thing that went wrong with the connection, until it is ready again. */
  get lastError(): Error | undefined {
    return this.#lastError;
  }

  /** Why the server does not let us in; undefined: waiting would help. */
  get refusal(): Error | undefined {
    return this.#refusal;
  }

  /** Resolves when it is over; rejects when waiting for that would not help, or as soon as the limit says. */
  async whenOver(limit: WaitLimit): Promise<void> {
    if (this.#refusal) throw this.#refusal;
    if (this.#end.signal.aborted) throw new ClosedError('the client is closed');
    await this.#awaiting.wait(limit);
  }

  /** The connection is ready. */
  over(): void {
    this.#refusal = undefined;
    this.#lastError = undefined;
    this.#hasListened = false;
    this.#outage.end();
    this.#isExplained = false;
    this.#listener.outage(false);
    this.#awaiting.ready();
  }

  /** The link is closed for good. */
  close(): void {
    this.#end.abort();
    this.#listener.outage(false);
    this.#lastError = new ClosedError('its client is closed');
    this.#awaiting.fail(new ClosedError('the client is closed'));
  }

  attemptBegan(): void {
    this.#isExplained = false;
  }

  /** The connection is gone. If it was never ready, `unsaid` is why, unless the attempt has said that itself. */
  ended(unsaid: Error | undefined): void {
    // (That an attempt said why it failed was its end: who came since waits for the next one.)
    if (unsaid && !this.#isExplained) this.failed(unsaid);
    this.#isExplained = false;
  }

  readonly failed = (error: Error): void => {
    if (this.#end.signal.aborted) return;
    const { isReady, isLeaving } = this.#situation;
    const isMute = isMereLoss(error);
    if (!isMute || !isReply(this.#lastError)) this.#lastError = error; // what the server said says more
    const isDenied = failureKind(error) === 'denied';
    if (isDenied) this.refuse(refused(error));
    // (A cluster that is ready tells of single nodes.)
    if (!isReady || !this.#client.cluster) this.#listener.outage(true);
    const explained = isMute ? this.#listenOnce() : undefined;
    if (!isReady) {
      this.#isExplained = true;
      if (!isDenied) this.#refusal = undefined; // it may let us in when it is back
      if (!isLeaving) this.#attemptFailed(explained);
    }
    if (this.#lastError === error) this.reportOnce(error);
  };

  readonly reportOnce = (error: Error): void => {
    if (!this.#end.signal.aborted && this.#outage.isNews(describe(error)))
      this.#listener.failed(error);
  };

  refuse(refusal: UnavailableError): void {
    this.#onRefused();
    this.#lastError ??= refusal;
    this.#refusal = refusal;
    this.#awaiting.fail(refusal);
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
    const { endpoint } = this.#client;
    const said = endpoint && (await firstWords(endpoint, this.#end.signal));
    if (said && !this.#situation.isReady) this.failed(said);
  }
}

function refused(cause: Error): UnavailableError {
  return new UnavailableError(`Redis refuses the connection: ${cause.message}`, { cause });
}

function unreachable(cause: Error): UnavailableError {
  return new UnavailableError(`Redis cannot be reached: ${describe(cause)}`, { cause });
}
