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
  LostError,
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
 * - `opening`: the session is not ready
 * - `greeting`: it is, and the server is asked what it is; `timer`: until it is asked again
 */
type State =
  | { readonly kind: 'pausing'; readonly timer: Timer }
  | { readonly kind: 'opening' | 'ready'; readonly session: Session }
  | { readonly kind: 'greeting'; readonly session: Session; readonly timer?: Timer }
  | { readonly kind: 'closed' };

export interface ReconnectingListener<Greeted> {
  /** Where Redis is, for people. */
  place(): string;
  open(heard: SessionHeard): Session;
  /**
   * Asks a new server what must be known before it counts as ready.
   *
   * @throws UnavailableError the server is of no use, for now
   * @throws Error it is to be asked again
   */
  greet(session: Session): Promise<Greeted>;
  ready?(greeted: Greeted): void;
  /** The server refuses us by now: waiting for the connection does not help. */
  refused?(): void;
  /** An answer that is an error, in words that say more. */
  explain(error: Error): Error;
}

/** Ends the wait of a call: well, or with an error; `isOver`: also that of a call that makes more than a single attempt. */
type Awaiting = (error?: Error, isOver?: boolean) => void;

export class Reconnecting<Greeted = unknown> {
  readonly #surroundings: Surroundings;
  readonly #outage: Outage;
  readonly #listener: ReconnectingListener<Greeted>;
  readonly #awaiting = new Set<Awaiting>();
  #state: State;
  #attempt = 0;
  #lastError: Error | undefined;
  #refusal: UnavailableError | undefined;
  #leftReplicaAtMs = -Infinity;

  constructor(surroundings: Surroundings, outage: Outage, listener: ReconnectingListener<Greeted>) {
    this.#surroundings = surroundings;
    this.#outage = outage;
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
    return this.#lastError;
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
    let awaiting: Awaiting = () => undefined;
    const ready = new Promise<void>((resolve, reject) => {
      awaiting = (error, isOver = true) => {
        if (!error) resolve();
        else if (isOver || limit.isSingleAttempt) reject(error);
      };
    });
    this.#awaiting.add(awaiting);
    try {
      await limit.within(ready);
    } finally {
      // An outage may be long: a call that has given up must leave nothing behind.
      this.#awaiting.delete(awaiting);
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
      const why = this.#lastError && ` (last connection error: ${describe(this.#lastError)})`;
      return Promise.reject(this.#refusal ?? new UnsentError(`not connected${why ?? ''}`));
    }
    return (sender ?? state.session).send(command, args, read, (error) => {
      if (isReadOnly(error) && !state.session.isCluster) this.#leaveReplica(state.session);
      const answer = otherwise?.(error);
      if (answer) return answer;
      throw this.#listener.explain(error);
    });
  }

  /** Leaves this session for another one, to wherever the address leads now. Nothing has failed by that. Not at once, since others still await answers. */
  leave(session: Session): void {
    this.#surroundings.clock.setTimer(() => {
      if (this.session === session) session.end();
    }, 1);
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
    this.#settle(this.refusal);
    session?.end();
  }

  /** The one place where the state changes. */
  #become(next: State): void {
    const former = this.#state;
    this.#state = next;
    if ('timer' in former) this.#surroundings.clock.clearTimer(former.timer);
    if (former.kind === 'ready') this.#outage.begin();
  }

  #open(): State {
    const session: Session = this.#listener.open({
      ready: () => {
        if (this.session === session) this.#greet(session);
      },
      ended: (reason) => {
        if (this.session === session) this.#ended(reason);
      },
      hurt: (error) => {
        if (this.session !== session) return;
        if (!this.isReady) this.#lastError = error;
        this.#outage.failed(error, this.#listener.place());
      },
    });
    return { kind: 'opening', session };
  }

  #greet(session: Session): void {
    this.#become({ kind: 'greeting', session });
    const isOver = (): boolean => this.session !== session || !session.isReady;
    this.#listener.greet(session).then(
      (greeted) => {
        if (!isOver()) this.#greeted(session, greeted);
      },
      (error: unknown) => {
        if (!isOver()) this.#hindered(session, error as Error);
      },
    );
  }

  #greeted(session: Session, greeted: Greeted): void {
    this.#become({ kind: 'ready', session });
    this.#attempt = 0;
    this.#refusal = undefined;
    this.#lastError = undefined;
    this.#outage.over(this.#listener.place());
    this.#settle();
    this.#listener.ready?.(greeted);
  }

  #hindered(session: Session, error: Error): void {
    if (isUnauthenticated(error)) {
      // Without a password the server takes the connection, and refuses every command on it.
      session.end(error);
      return;
    }
    const isRefused = error instanceof UnavailableError;
    const again = (): void => {
      this.#greet(session);
    };
    const { clock } = this.#surroundings;
    const timer = clock.setTimer(again, isRefused ? REFUSED_MS : UNANSWERED_MS);
    this.#become({ kind: 'greeting', session, timer });
    if (isRefused) this.#failed(error);
    else if (isReply(error)) this.#lastError = error; // told if the session ends by it
  }

  #ended(reason: Error | undefined): void {
    const wasReady = this.isReady;
    const { clock, random } = this.#surroundings;
    const again = (): void => {
      this.#become(this.#open());
    };
    const timer = clock.setTimer(again, backOffMs(++this.#attempt, random));
    this.#become({ kind: 'pausing', timer });
    // A restart, or a balancer that drops what is idle: it is news only if the next attempt fails, too.
    if (wasReady && (!reason || isMereLoss(reason))) this.#lastError = reason;
    else this.#failed(reason ?? new LostError());
  }

  /** It cannot be ready for this reason: that is told. Ends the waits that may not go on. */
  #failed(reason: Error): void {
    // The server's own words say more than a mere loss.
    const error = isMereLoss(reason) && isReply(this.#lastError) ? this.#lastError : reason;
    this.#lastError = error;
    this.#outage.begin();
    this.#outage.failed(error, this.#listener.place());
    const former = this.#refusal;
    this.#refusal = refusalIn(reason); // a server that is gone may let us in when it is back
    // Who waits for a single attempt has seen it fail; who comes now waits for the next one.
    if (!this.#refusal) this.#settle(unreachable(error), false);
    else this.#settle(this.#refusal);
    if (this.#refusal && !former) this.#listener.refused?.();
  }

  /** A master that has become a replica. */
  #leaveReplica(session: Session): void {
    const nowMs = this.#surroundings.clock.nowMs();
    if (nowMs - this.#leftReplicaAtMs < LEFT_MS) return;
    this.#leftReplicaAtMs = nowMs;
    this.leave(session);
  }

  #settle(...outcome: Parameters<Awaiting>): void {
    for (const awaiting of this.#awaiting) awaiting(...outcome);
  }
}

/** Why waiting does not help after such a failure; undefined: it may. */
function refusalIn(cause: Error): UnavailableError | undefined {
  if (cause instanceof UnavailableError) return cause;
  if (failureKind(cause) !== 'denied') return undefined;
  return new UnavailableError(`Redis refuses the connection: ${cause.message}`, { cause });
}

function unreachable(cause: Error): UnavailableError {
  return new UnavailableError(`Redis cannot be reached: ${describe(cause)}`, { cause });
}
