// The way to Redis for commands: session after session, for as long as the client is open. It knows whether commands can be sent, why not,
// and which calls wait for that.

import { ClosedError, UnavailableError } from '../api/errors.js';
import { backOffMs, type Clock, type Timer } from '../runtime/clock.js';
import { inOwnContext } from '../runtime/node.js';
import type { WaitLimit } from '../runtime/wait-limit.js';
import {
  describe,
  endAtInfo,
  failureKind,
  isLasting,
  isMereLoss,
  isPassing,
  isReadOnly,
  isReply,
  UnsentError,
} from './failure.js';
import { greet, type ServerFacts } from './greeting.js';
import type { Argument, Sender } from './port.js';
import type { Session, SessionHeard, Surroundings } from './session.js';
import type { Events } from '../api/events.js';

/** How soon a server is greeted again after no answer (it is loading, perhaps), or after a refusal. */
const UNANSWERED_MS = 50;
const REFUSED_MS = 1_000;
/** A replica is left at most once in so long: the address may go on leading to a replica. */
const LEFT_MS = 1_000;

/** pausing -> opening -> greeting -> ready -> pausing …, and from all of them to closed. With a timer, the session is to be greeted again. */
type State =
  | { readonly kind: 'pausing'; readonly timer: Timer }
  | {
      readonly kind: 'opening' | 'greeting' | 'ready';
      readonly session: Session;
      readonly timer?: Timer;
    }
  | { readonly kind: 'closed' };

/** How to get to Redis, and callbacks on the way. */
export interface Way {
  place(): string;
  database(): number;
  open(heard: SessionHeard): Session;
  /** The same error, in words that say more. */
  explain(error: Error): Error;
  ready?(server: ServerFacts): void;
  /** The server refuses us by now: waiting for the connection does not help. */
  refused?(): void;
  /** The connection is not ready; `lastError` says what is wrong. */
  failed?(): void;
}

/** Ends the wait of a call, with success or an error; `isForAll` false: only if it makes a single attempt. */
type Settle = (error?: Error, isForAll?: boolean) => void;

export class Reconnecting {
  readonly #surroundings: Surroundings;
  readonly #outage: Outage;
  readonly #way: Way;
  readonly #awaiting = new Set<Settle>();
  #state: State;
  #attempt = 0;
  #lastError: Error | undefined;
  #refusal: UnavailableError | undefined;
  #leftReplicaAtMs = -Infinity;

  constructor(surroundings: Surroundings, outage: Outage, way: Way) {
    this.#surroundings = surroundings;
    this.#outage = outage;
    this.#way = way;
    this.#state = inOwnContext(() => this.#open());
  }

  /** The session that is open, ready or not. */
  get session(): Session | undefined {
    return 'session' in this.#state ? this.#state.session : undefined;
  }

  get status(): 'connecting' | 'ready' | 'refused' | 'closed' {
    const { kind } = this.#state;
    if (kind === 'closed' || kind === 'ready') return kind;
    return this.#refusal ? 'refused' : 'connecting';
  }

  get isReady(): boolean {
    return this.#state.kind === 'ready';
  }

  /** The latest error, until commands can be sent. */
  get lastError(): Error | undefined {
    return this.#lastError;
  }

  /** Why waiting would not help; undefined: it would. */
  get refusal(): Error | undefined {
    return this.#state.kind === 'closed' ? new ClosedError('the client is closed') : this.#refusal;
  }

  /**
   * Resolves when commands can be sent; rejects when waiting does not help: for a single attempt, when the present or next attempt to
   * connect fails.
   */
  async whenReady(limit: WaitLimit): Promise<void> {
    if (this.isReady) return;
    if (this.refusal) throw this.refusal;
    let settle!: Settle;
    const ready = new Promise<void>((resolve, reject) => {
      settle = (error, isForAll = true) => {
        if (!error) resolve();
        else if (isForAll || limit.isSingleAttempt) reject(error);
      };
    });
    this.#awaiting.add(settle);
    // An outage may be long: a call that gives up must leave nothing behind.
    await limit.within(ready).finally(() => this.#awaiting.delete(settle));
  }

  /**
   * Sends one command, once, at the cost of one promise. `otherwise` may replace its error by another outcome; `sender` may be one cluster
   * node.
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
      const why = this.lastError && ` (last connection error: ${describe(this.lastError)})`;
      return Promise.reject(this.#refusal ?? new UnsentError(`not connected${why ?? ''}`));
    }
    return (sender ?? state.session).send(command, args, read, (error) => {
      if (isReadOnly(error) && !state.session.isCluster) this.#leaveReplica(state.session);
      const answer = otherwise?.(error);
      if (answer) return answer;
      throw this.#way.explain(error);
    });
  }

  /**
   * Leaves this session for another one, to wherever the address leads now; that is no failure. Not at once, since other calls await
   * their answers.
   */
  leave(session: Session): void {
    this.#surroundings.clock.setTimer(() => {
      if (this.session === session) session.end();
    }, 1);
  }

  /** Makes the next attempt at once: another server has taken over. */
  hurry(): void {
    if (this.#state.kind === 'pausing') this.#become(this.#open());
  }

  close(): void {
    const { session } = this;
    this.#become({ kind: 'closed' });
    this.#outage.close();
    this.#wentWrong(new ClosedError('its client is closed'));
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
    const session: Session = this.#way.open({
      ready: () => {
        if (this.session === session) this.#greet(session);
      },
      ended: (reason) => {
        if (this.session === session) this.#ended(reason);
      },
      hurt: (error) => {
        if (this.session !== session) return;
        if (!this.isReady) this.#wentWrong(error);
        this.#outage.failed(error, this.#way.place());
      },
    });
    return { kind: 'opening', session };
  }

  #greet(session: Session): void {
    const { clock } = this.#surroundings;
    const isOver = (): boolean => this.session !== session || !session.isReady;
    this.#become({ kind: 'greeting', session });
    greet(session, this.#way.database(), clock).then(
      (server) => {
        if (isOver()) return;
        this.#become({ kind: 'ready', session });
        this.#attempt = 0;
        this.#refusal = undefined;
        this.#lastError = undefined;
        this.#outage.over(this.#way.place());
        this.#settle();
        this.#way.ready?.(server);
      },
      (error: unknown) => {
        if (isOver()) return;
        const refusal = error instanceof UnavailableError ? error : undefined;
        const again = (): void => {
          this.#greet(session);
        };
        const timer = clock.setTimer(again, refusal ? REFUSED_MS : UNANSWERED_MS);
        this.#become({ kind: 'greeting', session, timer });
        if (refusal) this.#failed(refusal, refusal);
        else if (isReply(error)) this.#wentWrong(error); // reported if the session ends by it
      },
    );
  }

  #ended(end: Error | undefined): void {
    const wasReady = this.isReady;
    const reason = this.#state.kind === 'greeting' ? endAtInfo(end) : end;
    const { clock, random } = this.#surroundings;
    const again = (): void => {
      this.#become(this.#open());
    };
    const timer = clock.setTimer(again, backOffMs(++this.#attempt, random));
    this.#become({ kind: 'pausing', timer });
    const isUnsaid = !reason || isMereLoss(reason);
    if (wasReady && isUnsaid) {
      // A restart, or a balancer that drops idle connections: it is news only if the next attempt fails, too.
      this.#wentWrong(reason);
      return;
    }
    // The server's own error says more than a mere loss.
    const said = isUnsaid && isReply(this.lastError) ? this.lastError : reason;
    const error = said ?? new Error('the server closed the connection before it was ready');
    // (A server that is merely gone may let us in when it is back.)
    const isRefused = reason !== undefined && isLasting(reason);
    const isWithout = error.message.includes('NOAUTH');
    const what = `Redis refuses the connection${isWithout ? ' (option "redis" has no password for it)' : ''}`;
    this.#failed(error, isRefused ? unavailable(what, error) : undefined);
  }

  /** The connection cannot be ready: reports that, and ends waits. `refusal`: why no call needs to wait, now or later. */
  #failed(error: Error, refusal?: UnavailableError): void {
    const wasRefused = this.#refusal !== undefined;
    this.#wentWrong(error);
    this.#refusal = refusal;
    this.#outage.begin();
    this.#outage.failed(error, this.#way.place());
    // Calls that wait for a single attempt have seen it fail; later calls wait for the next one.
    this.#settle(refusal ?? unavailable('Redis cannot be reached', error), refusal !== undefined);
    if (refusal && !wasRefused) this.#way.refused?.();
  }

  #wentWrong(error: Error | undefined): void {
    this.#lastError = error;
    this.#way.failed?.();
  }

  /** Leaves a master that has become a replica. */
  #leaveReplica(session: Session): void {
    const nowMs = this.#surroundings.clock.nowMs();
    if (nowMs - this.#leftReplicaAtMs < LEFT_MS) return;
    this.#leftReplicaAtMs = nowMs;
    this.leave(session);
  }

  #settle(...outcome: Parameters<Settle>): void {
    for (const settle of this.#awaiting) settle(...outcome);
  }
}

function unavailable(what: string, cause: Error): UnavailableError {
  return new UnavailableError(`${what}: ${describe(cause)}`, { cause });
}

// Reports trouble with one Redis to users, each thing once: the outages of a connection, and the lasting refusals of a server.

/** Shorter refusals pass by themselves: the server loads its data, or takes over from another one. */
const LASTING_MS = 2_000;
/** Waiting calls ask again within a second or so. If none was refused for so long, the refusal is over. */
const OVER_MS = 5_000;

/** Remembers what was reported: each thing is reported once, since a server that is down fails every attempt with the same error. */
export class News {
  readonly #told = new Set<string>();
  readonly #most: number;

  /** `most`: how many things it reports at most. */
  constructor(most = 20) {
    this.#most = most;
  }

  isNews(what: string): boolean {
    if (this.#told.has(what) || this.#told.size >= this.#most) return false;
    this.#told.add(what);
    return true;
  }

  /** The same for a message: numbers in it do not make it new, such as ports, milliseconds or counts. */
  isNewMessage(message: string): boolean {
    return this.isNews(message.replace(/\d+(\.\d+)?/g, '#'));
  }
}

/** The outages of one connection. */
export class Outage {
  readonly #events: Events;
  readonly #clock: Clock;
  readonly #role: string;
  #news = new News();
  #isOn = false;
  /** When its first error was reported; undefined: none was. */
  #toldAtMs: number | undefined;

  constructor(events: Events, clock: Clock, role: string) {
    this.#events = events;
    this.#clock = clock;
    this.#role = role;
  }

  /** Begins an outage: there is no connection. */
  begin(): void {
    this.#isOn = true;
    this.#events.outage(this, true);
  }

  /** Reports an error, also while there is a connection. `address`: where, for the message. */
  failed(cause: Error, address: string): void {
    if (!this.#news.isNewMessage(describe(cause))) return;
    if (this.#isOn) this.#toldAtMs ??= this.#clock.nowMs();
    const connection = this.#role;
    this.#events.publish('connection', () => ({
      connection,
      address,
      state: 'failed' as const,
      error: cause,
    }));
    tell(this.#events, `the ${this.#role} connection to Redis (${address}) failed`, cause);
  }

  /** Ends the outage: there is a connection again. */
  over(address: string): void {
    const toldAtMs = this.#toldAtMs;
    this.close();
    if (toldAtMs === undefined) return;
    const lastedMs = Math.round(this.#clock.nowMs() - toldAtMs);
    const event = { connection: this.#role, address, lastedMs };
    this.#events.emit('recovered', () => event);
    this.#events.publish('connection', () => ({ ...event, state: 'recovered' as const }));
  }

  /** Ends the outage without an event: no connection is wanted any more. */
  close(): void {
    this.#isOn = false;
    this.#toldAtMs = undefined;
    this.#news = new News();
    this.#events.outage(this, false);
  }
}

/** Reports what a server that is up goes on refusing, while callers wait for it. */
export class Refusals {
  readonly #events: Events;
  readonly #clock: Clock;
  readonly #place: () => string;
  #news = new News();
  /** The times of the first and the latest of the present refusals. */
  #sinceMs = -Infinity;
  #heardMs = -Infinity;

  constructor(events: Events, clock: Clock, place: () => string) {
    this.#events = events;
    this.#clock = clock;
    this.#place = place;
  }

  /** Notes that a waiting call has failed, and will be sent again; reports it if the server goes on refusing. */
  heard(error: unknown): void {
    if (!(error instanceof Error) || failureKind(error) !== 'transient' || isPassing(error)) return;
    const nowMs = this.#clock.nowMs();
    if (nowMs - this.#heardMs > OVER_MS) {
      this.#sinceMs = nowMs;
      this.#news = new News();
    }
    this.#heardMs = nowMs;
    if (nowMs - this.#sinceMs < LASTING_MS || !this.#news.isNewMessage(describe(error))) return;
    tell(this.#events, `Redis (${this.#place()}) goes on refusing what callers wait for`, error);
  }
}

function tell(events: Events, what: string, cause: Error): void {
  const message = `${what}: ${describe(cause)}`;
  events.emit('error', () => ({ error: new UnavailableError(message, { cause }) }));
}
