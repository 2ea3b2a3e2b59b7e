// The connection for subscriptions at one home, a server that delivers the messages of some channels: connection after connection, for as long as a
// channel is wanted there. It knows of no channel; subscriptions.ts says which are asked for on it.

import type { Timer } from '../runtime/clock.js';
import { runIdIn } from './greeting.js';
import type { Outage } from './outage.js';
import { textOf, type Address } from './port.js';
import { backOffMs, type Surroundings } from './session.js';
import { ignore, SilenceError, Wire, type WireHeard } from './wire.js';

/** A slow server would be left each time before it can confirm a subscription, and nobody's call waits for that: its limit grows up to this. */
const LONGEST_SILENCE_MS = 30_000;

/** How soon a subscriber that is at another server than the commands connects anew; then twice as late each time. */
const ELSEWHERE_MS = 500;
/** If each connection leads to another server until then (by a balancer, perhaps), the subscriber stays where it is. */
const LONGEST_ELSEWHERE_MS = 30_000;

/** How the text begins that each PING carries. */
const ECHO = 'holdfast ping ';

/** Errors that a PING never gets: they are replies to another command. */
const ABOUT_A_SLOT = /^(MOVED|ASK|CLUSTERDOWN) /;

export interface SubscriberHeard {
  /** A new connection can be asked for channels: it has none. */
  ready(subscriber: Subscriber): void;
  /** The connection is gone, and all its subscriptions with it. */
  ended(subscriber: Subscriber): void;
  readonly message: (channel: string, payload: string) => void;
  /** Some sharded channels are not subscribed any more. */
  readonly moved: () => void;
}

/** What a subscriber knows of its server. */
export interface Home {
  /** Names it among the homes of a client. */
  readonly name: string;
  readonly isSharded: boolean;
  /** Where it is now; undefined: that is not known at the moment. */
  address(): Address | undefined;
  /** The run id of the server that commands go to, where subscriber and commands must be at the same one; undefined: not known now. */
  commandsAt?(): string | undefined;
}

type State =
  | { readonly kind: 'pausing'; readonly timer: Timer }
  | { readonly kind: 'opening' | 'ready'; readonly wire: Wire }
  | { readonly kind: 'closed' };

export class Subscriber {
  readonly home: Home;
  /** How many channels are still subscribed though nobody wants them, since the server does not permit to unsubscribe them. */
  strayCount = 0;
  readonly #surroundings: Surroundings;
  readonly #outage: Outage;
  readonly #heard: SubscriberHeard;
  #state: State;
  #attempt = 0;
  /** For how long the server may be silent at the moment. */
  #silenceLimitMs: number;
  #pingTimer: Timer | undefined;
  #pingCount = 0;
  /** The run id of the server at the other end; undefined: not known. */
  #runId: string | undefined;
  #elsewhereMs = ELSEWHERE_MS;
  #elsewhereTimer: Timer | undefined;

  constructor(surroundings: Surroundings, home: Home, outage: Outage, heard: SubscriberHeard) {
    this.#surroundings = surroundings;
    this.home = home;
    this.#outage = outage;
    this.#heard = heard;
    this.#silenceLimitMs = surroundings.silenceLimitMs;
    this.#state = this.#open();
  }

  /** The connection, if channels can be asked for on it. */
  get wire(): Wire | undefined {
    return this.#state.kind === 'ready' && this.#state.wire.isReady ? this.#state.wire : undefined;
  }

  /** Whether the last attempt to connect has failed. */
  get isFailing(): boolean {
    return this.#attempt > 0;
  }

  /** Ends the connection, and makes another one to wherever the home is now. */
  reconnect(reason?: Error): void {
    if ('wire' in this.#state) this.#state.wire.end(reason);
  }

  /**
   * A connection that died without a word looks like one on which nothing is published: from now on the server is asked whether it is there, for as
   * long as channels are wanted.
   */
  watch(): void {
    this.#pingTimer ??= this.#surroundings.clock.setTimer(() => {
      this.#pingTimer = undefined;
      if (!this.wire) return;
      this.watch();
      this.#ping(this.wire);
    }, this.#surroundings.silenceLimitMs);
  }

  /** No channel is wanted: the server is asked no more. */
  rest(): void {
    this.#surroundings.clock.clearTimer(this.#pingTimer);
    this.#pingTimer = undefined;
  }

  /**
   * Commands go to another server than before, or may do so. A subscriber that is at that server already stays: while it connected anew, those who
   * wait in line would be taken for gone.
   */
  commandsMoved(): void {
    if (!this.home.commandsAt || !this.wire) return;
    const runId = this.home.commandsAt();
    this.#elsewhereMs = ELSEWHERE_MS;
    const isElsewhere = this.#runId !== undefined && this.#runId !== runId;
    if (runId === undefined || isElsewhere) this.reconnect();
  }

  close(): void {
    const wire = 'wire' in this.#state ? this.#state.wire : undefined;
    this.#become({ kind: 'closed' });
    this.#outage.close();
    wire?.end();
  }

  #become(next: State): void {
    if (this.#state.kind === 'pausing') this.#surroundings.clock.clearTimer(this.#state.timer);
    this.#state = next;
    if (next.kind === 'opening' || next.kind === 'ready') return;
    this.rest();
    this.#surroundings.clock.clearTimer(this.#elsewhereTimer);
    this.#runId = undefined;
    this.strayCount = 0;
  }

  #open(): State {
    const address = this.home.address();
    if (!address) return this.#pause();
    const heard: WireHeard = {
      ready: () => {
        if (!this.#isAt(wire)) return;
        this.#become({ kind: 'ready', wire });
        this.#attempt = 0;
        this.#outage.over(textOf(address));
        if (this.home.commandsAt) this.#askRunId(wire);
        this.#heard.ready(this);
      },
      ended: (reason) => {
        if (this.#isAt(wire)) this.#ended(wire, reason);
      },
      message: this.#heard.message,
      moved: this.#heard.moved,
    };
    const wire = new Wire(
      this.#surroundings,
      address,
      'subscriptions',
      heard,
      this.#silenceLimitMs,
    );
    return { kind: 'opening', wire };
  }

  #isAt(wire: Wire): boolean {
    return 'wire' in this.#state && this.#state.wire === wire;
  }

  #ended(wire: Wire, reason: Error | undefined): void {
    const wasReady = this.#state.kind === 'ready';
    const limitMs = this.#silenceLimitMs;
    if (reason instanceof SilenceError && wasReady)
      this.#silenceLimitMs = Math.max(limitMs, Math.min(2 * limitMs, LONGEST_SILENCE_MS));
    this.#become(this.#pause());
    const error = reason ?? (wasReady ? undefined : new Error('the server closed the connection'));
    this.#outage.begin();
    if (error) this.#outage.failed(error, textOf(wire.address));
    this.#heard.ended(this);
  }

  #pause(): State {
    const { clock, random } = this.#surroundings;
    const again = (): void => {
      this.#become(this.#open());
    };
    return { kind: 'pausing', timer: clock.setTimer(again, backOffMs(++this.#attempt, random)) };
  }

  #ping(wire: Wire): void {
    const echo = ECHO + String(++this.#pingCount);
    const { clock, silenceLimitMs } = this.#surroundings;
    const sentAtMs = clock.nowMs();
    void wire.send(
      'ping',
      [echo],
      (pong) => {
        if (clock.nowMs() - sentAtMs < silenceLimitMs / 2) this.#silenceLimitMs = silenceLimitMs;
        const last: unknown = Array.isArray(pong) ? pong.at(-1) : pong;
        // Any other text is taken for an answer to PING: a server may not know the one with an argument.
        const isOfAnother =
          typeof last === 'number' || (String(last).startsWith(ECHO) && last !== echo);
        if (isOfAnother) wire.end(new Error('replies are mixed up'));
      },
      (error) => {
        if (ABOUT_A_SLOT.test(error.message)) wire.end(new Error('replies are mixed up'));
      },
    );
  }

  /** Before it subscribes, since under RESP2 a connection that has subscribed may not ask. Nobody waits for the answer. */
  #askRunId(wire: Wire): void {
    const read = (info: unknown): void => {
      if (!this.#isAt(wire)) return;
      this.#runId = runIdIn(String(info));
      this.#lookLater(wire);
    };
    void wire.send('info', ['server'], read, ignore); // lost, or not permitted: the id stays unknown
  }

  /** If it is at another server, it looks again later: a Sentinel that shows the way may not know yet who has taken over. */
  #lookLater(wire: Wire): void {
    const isThere = (): boolean => this.home.commandsAt?.() === this.#runId;
    if (this.#runId === undefined || isThere()) return;
    if (this.#elsewhereMs > LONGEST_ELSEWHERE_MS) return;
    this.#elsewhereTimer = this.#surroundings.clock.setTimer(() => {
      if (!this.#isAt(wire) || isThere()) return;
      if (this.home.commandsAt?.() === undefined) this.#lookLater(wire);
      else this.reconnect();
    }, this.#elsewhereMs);
    this.#elsewhereMs *= 2;
  }
}
