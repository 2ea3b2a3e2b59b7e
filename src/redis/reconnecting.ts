// The way to Redis for commands: session after session, for as long as the client is open. Knows whether commands can be sent, and why not, and
// who waits for that.

import { ClosedError, UnavailableError } from '../api/errors.js';
import type { Timer } from '../runtime/clock.js';
import { inOwnContext } from '../runtime/own-context.js';
import type { WaitLimit } from '../runtime/wait-limit.js';
import {
  describe,
  failureKind,
  isMereLoss,
  isReadOnly,
  isReply,
  isUnauthenticated,
  UnsentError,
} from './failure.js';
import type { Outage } from './outage.js';
import type { Argument, Sender } from './port.js';
import { backOffMs, type Session, type SessionHeard, type Surroundings } from './session.js';

/** How soon a server is greeted again that did not answer (it is loading, perhaps), or that refuses us. */
const UNANSWERED_MS = 50;
const REFUSED_MS = 1_000;

/** How often a replica is left at most, for wherever the address leads: that may go on being a replica. */
const LEFT_MS = 1_000;

/** The state of a connection for commands. */
export type LinkStatus = 'connecting' | 'ready' | 'refused' | 'closed';

/**
 * pausing -> opening -> greeting -> ready -> pausing …, and from all of them to closed:
 * - `pausing`: until the next attempt
 * - `opening`: a session is not ready
 * - `greeting`: it is, and the server is asked what it is; `hindrance`: what it said to that, if it is to be asked again
 */
type State =
  | { readonly kind: 'pausing'; readonly timer: Timer }
  | { readonly kind: 'opening'; readonly session: Session }
  | {
      readonly kind: 'greeting';
      readonly session: Session;
      readonly hindrance?: Error | undefined;
      readonly timer?: Timer;
    }
  | { readonly kind: 'ready'; readonly session: Session }
  | { readonly kind: 'closed' };

export interface ReconnectingListener {
  open(heard: SessionHeard): Session;
  /**
   * Asks a new server what must be known before it counts as ready.
   *
   * @throws UnavailableError the server is of no use, for now
   * @throws Error it is to be asked again
   */
  greet(session: Session): Promise<void>;
  ready(): void;
  /** The server refuses us by now: waiting for the connection does not help. */
  refused(): void;
  /** An answer that is an error, in words that say more. */
  explain(error: Error): Error;
}

export class Reconnecting {
  readonly #surroundings: Surroundings;
  readonly #listener: ReconnectingListener;
  readonly #awaiting = new Set<AwaitingCall>();
  readonly #outage: Outage;
  /** Where Redis is, for people. */
  readonly #place: () => string;
  #state: State;
  #attempt = 0;
  #lastError: Error | undefined;
  #refusal: UnavailableError | undefined;
  #leftReplicaAtMs = -Infinity;

  constructor(
    surroundings: Surroundings,
    outage: Outage,
    place: () => string,
    listener: ReconnectingListener,
  ) {
    this.#surroundings = surroundings;
    this.#outage = outage;
    this.#place = place;
    this.#listener = listener;
    this.#state = inOwnContext(() => this.#open());
  }

  /** The session that is open, ready or not. */
  get session(): Session | undefined {
    return 'session' in this.#state ? this.#state.session : undefined;
  }

  get status(): LinkStatus {
    const { kind } = this.#state;
    if (kind === 'closed' || kind === 'ready') return kind;
    return this.#refusal ? 'refused' : 'connecting';
  }

  get isReady(): boolean {
    return this.#state.kind === 'ready';
  }

  /** The last thing that went wrong, until commands can be sent. */
  get lastError(): Error | undefined {
    return (this.#state.kind === 'greeting' ? this.#state.hindrance : undefined) ?? this.#lastError;
  }

  /** Why waiting would not help; undefined: it would. */
  get refusal(): Error | undefined {
    return this.#state.kind === 'closed' ? new ClosedError('the client is closed') : this.#refusal;
  }

  /**
   * Resolves when commands can be sent; rejects when waiting would not help, or the limit is over; for a single attempt also when an attempt to
   * connect has failed that ended after this call.
   */
  async whenReady(limit: WaitLimit): Promise<void> {
    if (this.isReady) return;
    const { refusal } = this;
    if (refusal) throw refusal;
    let call: AwaitingCall | undefined;
    const ready = new Promise<void>((resolve, reject) => {
      this.#awaiting.add((call = { resolve, reject, isSingleAttempt: limit.isSingleAttempt }));
    });
    try {
      await limit.within(ready);
    } finally {
      // An outage may be long: a call that has given up must leave nothing behind.
      if (call) this.#awaiting.delete(call);
    }
  }

  /**
   * Sends one command, once, and reads its reply. Rejects with the error, unless `otherwise` turns it into another outcome. `sender` may be one
   * node of a cluster. (All this makes only one promise, since every acquire comes this way.)
   */
  ask<T>(
    command: Lowercase<string>,
    args: readonly Argument[],
    read: (reply: unknown) => T,
    otherwise?: (error: Error) => Promise<T> | undefined,
    sender?: Sender,
  ): Promise<T> {
    const state = this.#state;
    if (state.kind !== 'ready') {
      const { lastError } = this;
      const because = lastError ? ` (last connection error: ${describe(lastError)})` : '';
      return Promise.reject(this.#refusal ?? new UnsentError(`not connected${because}`));
    }
    return (sender ?? state.session).send(command, args, read, (error) => {
      if (isReadOnly(error) && !state.session.isCluster) this.#leaveReplica(state.session);
      const answer = otherwise?.(error);
      if (answer) return answer;
      throw this.#listener.explain(error);
    });
  }

  /** Leaves this session for another one, to wherever the address leads now. Nothing has failed by that. */
  leave(session: Session): void {
    if (this.session === session) session.end();
  }

  /** Another server has taken over: the next attempt need not wait. */
  hurry(): void {
    if (this.#state.kind === 'pausing') this.#become(this.#open());
  }

  close(): void {
    const { session } = this;
    this.#become({ kind: 'closed' });
    this.#outage.close();
    this.#lastError = new ClosedError('its client is closed');
    this.#settle(new ClosedError('the client is closed'));
    session?.end();
  }

  /** The one place where the state changes. */
  #become(next: State): void {
    const former = this.#state;
    this.#state = next;
    if ('timer' in former && former.timer !== ('timer' in next ? next.timer : undefined))
      this.#surroundings.clock.clearTimer(former.timer);
    if (former.kind === 'ready') this.#outage.begin();
  }

  #open(): State {
    const session: Session = this.#listener.open({
      ready: () => {
        if (this.session === session) void this.#greet(session);
      },
      ended: (reason) => {
        if (this.session === session) this.#ended(reason);
      },
      hurt: (error) => {
        if (this.session === session) this.#hurt(error);
      },
    });
    return { kind: 'opening', session };
  }

  async #greet(session: Session): Promise<void> {
    const hindrance = this.#state.kind === 'greeting' ? this.#state.hindrance : undefined;
    this.#become({ kind: 'greeting', session, hindrance });
    const isOver = (): boolean => this.session !== session || !session.isReady;
    if (isOver()) return;
    try {
      await this.#listener.greet(session);
    } catch (error) {
      if (!isOver()) this.#hindered(session, error as Error);
      return;
    }
    if (!isOver()) this.#greeted(session);
  }

  #hindered(session: Session, error: Error): void {
    if (isUnauthenticated(error)) {
      // Without a password the server takes the connection, and refuses every command on it.
      session.end(error);
      return;
    }
    const isRefused = error instanceof UnavailableError;
    const hindrance = isReply(error) ? error : undefined;
    const again = (): void => void this.#greet(session);
    const { clock } = this.#surroundings;
    const timer = clock.setTimer(again, isRefused ? REFUSED_MS : UNANSWERED_MS);
    this.#become({ kind: 'greeting', session, hindrance, timer });
    if (isRefused) this.#refuse(error);
  }

  #greeted(session: Session): void {
    this.#become({ kind: 'ready', session });
    this.#attempt = 0;
    this.#refusal = undefined;
    this.#lastError = undefined;
    this.#outage.over(this.#place());
    this.#settle();
    this.#listener.ready();
  }

  #ended(reason: Error | undefined): void {
    const wasReady = this.isReady;
    const { lastError } = this;
    const hindrance = this.#state.kind === 'greeting' ? this.#state.hindrance : undefined;
    const { clock, random } = this.#surroundings;
    const again = (): void => {
      this.#become(this.#open());
    };
    const timer = clock.setTimer(again, backOffMs(++this.#attempt, random));
    this.#become({ kind: 'pausing', timer });
    // What the server itself said explains more than that it hung up.
    const error = reason && !isMereLoss(reason) ? reason : (hindrance ?? reason);
    if (wasReady && (!error || isMereLoss(error))) {
      // A restart, or a balancer that drops what is idle: it is news only if the next attempt fails, too.
      this.#lastError = error ?? lastError;
      return;
    }
    this.#failed(error ?? hungUp());
    if (wasReady) return;
    // Who waits for a single attempt has seen it fail; who comes now waits for the next one.
    const cause = this.#lastError;
    if (cause && !this.#refusal) this.#settle(unreachable(cause), true);
  }

  #failed(error: Error): void {
    this.#outage.begin();
    // The server's own words say more than a mere loss.
    const isBetterKnown = isMereLoss(error) && isReply(this.#lastError);
    if (!isBetterKnown) this.#lastError = error;
    if (failureKind(error) === 'denied') this.#refuse(refused(error));
    else this.#refusal = undefined; // it may let us in when it is back
    if (!isBetterKnown) this.#outage.failed(error, this.#place());
  }

  /** Something went wrong with a part of the session, such as one node of a cluster. */
  #hurt(error: Error): void {
    if (!this.isReady) this.#lastError = error;
    this.#outage.failed(error, this.#place());
  }

  #refuse(refusal: UnavailableError): void {
    this.#lastError ??= refusal;
    const isNew = this.#refusal === undefined;
    this.#refusal = refusal;
    this.#settle(refusal);
    if (isNew) this.#listener.refused();
  }

  /** A master that has become a replica. Not at once, since others still await their answers. */
  #leaveReplica(session: Session): void {
    const { clock } = this.#surroundings;
    if (clock.nowMs() - this.#leftReplicaAtMs < LEFT_MS) return;
    this.#leftReplicaAtMs = clock.nowMs();
    clock.setTimer(() => {
      this.leave(session);
    }, 1);
  }

  /** Ends the wait of those who wait now; `isForSingleAttempts`: only of those who wait for a single attempt. */
  #settle(error?: Error, isForSingleAttempts = false): void {
    for (const { resolve, reject, isSingleAttempt } of this.#awaiting) {
      if (isForSingleAttempts && !isSingleAttempt) continue;
      if (error) reject(error);
      else resolve();
    }
  }
}

/** A call that waits until commands can be sent. */
interface AwaitingCall {
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
  readonly isSingleAttempt: boolean;
}

function hungUp(): Error {
  const error = new Error('the server closed the connection before it was ready');
  return Object.assign(error, { code: 'ECONNRESET' });
}

function refused(cause: Error): UnavailableError {
  return new UnavailableError(`Redis refuses the connection: ${cause.message}`, { cause });
}

function unreachable(cause: Error): UnavailableError {
  return new UnavailableError(`Redis cannot be reached: ${describe(cause)}`, { cause });
}
