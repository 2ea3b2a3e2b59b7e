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
  /** An outage begins, since the connection is gone or none came about; or it is over. */
  outage(isOn: boolean): void;
  /** What went wrong: each thing is told once in an outage. */
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
  /** Whether `#listenOnce` has asked in this outage. */
  #hasListened = false;
  /** Whether the attempt to connect that is under way has said why it fails. */
  #isExplained = false;

  /** `onRefused` is called when the server refuses us: then its handshake is awaited no longer. */
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

  /** Resolves when the connection is ready; rejects when waiting for that would not help, or as soon as the limit says. */
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

  /** The connection is gone. If it was never ready, `unsaid` is the reason, unless the attempt to make it has told one itself. */
  ended(unsaid: Error | undefined): void {
    // (An attempt that told why it failed was over by that for those who waited then; who came since waits for the next one.)
    if (unsaid && !this.#isExplained) this.failed(unsaid);
    this.#isExplained = false;
  }

  readonly failed = (error: Error): void => {
    if (this.#end.signal.aborted) return;
    const { isReady, isLeaving } = this.#situation;
    const isMute = isMereLoss(error);
    if (!isMute || !isReply(this.#lastError)) this.#lastError = error; // the server's own words say more than a mere loss
    const isDenied = failureKind(error) === 'denied';
    if (isDenied) this.refuse(refused(error));
    // (While a cluster is ready, an error is one of a single node.)
    if (!isReady || !this.#client.cluster) this.#listener.outage(true);
    const explained = isMute ? this.#listenOnce() : undefined;
    if (!isReady) {
      this.#isExplained = true;
      if (!isDenied) this.#refusal = undefined; // the server may let us in when it is back
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

  /** Those who wait for a single attempt fail now, or as soon as it is known why it failed. */
  #attemptFailed(explained?: Promise<void>): void {
    const fail = this.#awaiting.singleAttempts();
    const tell = (): void => {
      if (this.#lastError) fail(unreachable(this.#lastError));
    };
    if (explained) void explained.then(tell);
    else tell();
  }

  /** The server hung up without a word: once in an outage, listens whether it says why. Resolves when that is known, or was tried. */
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
