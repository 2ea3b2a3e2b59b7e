// The subscription connection to one node, a server that delivers the messages of some channels: connection after connection, for as long
// as a channel is wanted there. It knows no channels; subscriptions.ts subscribes on it.

import { backOffMs, type Timer } from '../runtime/clock.js';
import type { RedisClient } from './client.js';
import { isMereLoss } from './failure.js';
import { infoField } from './greeting.js';
import type { Outage } from './reconnecting.js';
import { addressIn, ONLY_NODE, textOf } from './port.js';
import { ignore, Wire, type WireHeard } from './wire.js';

/** How soon a subscriber reconnects that is at another server than the commands; then twice as late each time. */
const ELSEWHERE_MS = 500;
/** After so long, if each connection has led to another server (by a balancer, perhaps), the subscriber stays where it is. */
const LONGEST_ELSEWHERE_MS = 30_000;

type State =
  | { readonly kind: 'pausing'; readonly timer: Timer }
  | { readonly kind: 'opening' | 'ready'; readonly wire: Wire }
  | { readonly kind: 'closed' };

export class Subscriber {
  /** The address of a master, or ONLY_NODE. */
  readonly node: string;
  readonly isSharded: boolean;
  readonly #client: RedisClient;
  readonly #outage: Outage;
  readonly #heard: WireHeard;
  #state: State;
  #attempt = 0;
  #pingTimer: Timer | undefined;
  /** The run id of the server at the other end; undefined: not known. */
  #runId: string | undefined;
  #elsewhereMs = ELSEWHERE_MS;
  #elsewhereTimer: Timer | undefined;

  /** `heard`: called for one connection after another. Each begins without a subscription, and loses its own when it ends. */
  constructor(client: RedisClient, node: string, isSharded: boolean, heard: WireHeard) {
    this.node = node;
    this.isSharded = isSharded;
    this.#client = client;
    this.#outage = client.outageOf(isSharded ? 'sharded subscriber' : 'subscriber');
    this.#heard = heard;
    this.#state = this.#open();
  }

  /** The connection, if it can subscribe. After its end comes another one, to wherever the node is then. */
  get wire(): Wire | undefined {
    return this.#state.kind === 'ready' && this.#state.wire.isReady ? this.#state.wire : undefined;
  }

  /** Whether the last attempt to connect has failed. */
  get isFailing(): boolean {
    return this.#attempt > 0;
  }

  /**
   * Pings the server from now on, for as long as channels are wanted: a connection that died silently looks like one on which nothing is
   * published.
   */
  watch(): void {
    const { clock, silenceLimitMs } = this.#client.surroundings;
    this.#pingTimer ??= clock.setTimer(() => {
      this.#pingTimer = undefined;
      if (!this.wire) return;
      this.watch();
      // (With a text: otherwise ioredis 5 silently drops an unasked `sunsubscribe` that comes before the answer.)
      void this.wire.send('ping', ['holdfast'], ignore, ignore);
    }, silenceLimitMs);
  }

  /** Stops pinging: no channel is wanted. */
  rest(): void {
    this.#client.surroundings.clock.clearTimer(this.#pingTimer);
    this.#pingTimer = undefined;
  }

  /**
   * Reconnects if commands go, or may go, to another server than the subscriber. One that is at that server already stays: while it
   * reconnected, its waiters in a queue would be taken for gone.
   */
  commandsMoved(): void {
    this.#elsewhereMs = ELSEWHERE_MS;
    const mayBeElsewhere = this.#commandsAt === undefined || this.#isElsewhere;
    if (this.node === ONLY_NODE && mayBeElsewhere) this.wire?.end();
  }

  close(): void {
    const former = this.#state;
    this.#become({ kind: 'closed' });
    this.#outage.close();
    if ('wire' in former) former.wire.end();
  }

  #become(next: State): void {
    if (this.#state.kind === 'pausing')
      this.#client.surroundings.clock.clearTimer(this.#state.timer);
    this.#state = next;
    if ('wire' in next) return;
    this.rest();
    this.#client.surroundings.clock.clearTimer(this.#elsewhereTimer);
    this.#runId = undefined;
  }

  #open(): State {
    const address = this.node === ONLY_NODE ? this.#client.address : addressIn(this.node);
    if (!address) return this.#pause();
    const heard: WireHeard = {
      ...this.#heard,
      ready: () => {
        this.#ready(wire);
      },
      ended: (reason) => {
        if (this.#state.kind !== 'closed') this.#ended(wire, reason);
      },
    };
    const wire = new Wire(this.#client.surroundings, address, 'subscriptions', heard);
    return { kind: 'opening', wire };
  }

  #ready(wire: Wire): void {
    this.#become({ kind: 'ready', wire });
    this.#attempt = 0;
    this.#outage.over(textOf(wire.address));
    // Asked now, since a subscribed connection may not ask. If that is lost or not permitted, the id stays unknown.
    if (this.node === ONLY_NODE) void wire.send('info', ['server'], this.#learnRunId, ignore);
    this.#heard.ready();
  }

  #ended(wire: Wire, reason: Error | undefined): void {
    const wasReady = this.#state.kind === 'ready';
    this.#become(this.#pause());
    this.#outage.begin();
    // A connection that is merely lost is news only if the next attempt fails, too.
    const isUnsaid = wasReady && (!reason || isMereLoss(reason));
    const error = reason ?? new Error('the server closed the connection');
    if (!isUnsaid) this.#outage.failed(error, textOf(wire.address));
    this.#heard.ended(reason);
  }

  #pause(): State {
    const { clock, random } = this.#client.surroundings;
    const again = (): void => {
      this.#become(this.#open());
    };
    return { kind: 'pausing', timer: clock.setTimer(again, backOffMs(++this.#attempt, random)) };
  }

  readonly #learnRunId = (info: unknown): void => {
    if (!this.wire) return;
    this.#runId = infoField(info, 'run_id');
    this.#lookLater();
  };

  /** The run id of the server that commands go to; undefined: not known at present. */
  get #commandsAt(): string | undefined {
    return this.#client.isReady ? this.#client.server.id : undefined;
  }

  get #isElsewhere(): boolean {
    return this.#runId !== undefined && this.#runId !== this.#commandsAt;
  }

  /** If it is at another server, it checks again later: the Sentinel that it asks may not know the new master yet. */
  #lookLater(): void {
    if (!this.#isElsewhere || this.#elsewhereMs > LONGEST_ELSEWHERE_MS) return;
    this.#elsewhereTimer = this.#client.surroundings.clock.setTimer(() => {
      if (this.#commandsAt === undefined) this.#lookLater();
      else if (this.#isElsewhere) this.wire?.end();
    }, this.#elsewhereMs);
    this.#elsewhereMs *= 2;
  }
}
