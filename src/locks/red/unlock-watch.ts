// Listens to the unlock channels of several masters: a release is told by each of them, and is one wake-up. It comes when
// most have told, since before that a new election would fail.

import { PROCESS_CLOCK, type Clock, type Timer } from '../../runtime/clock.js';
import type { ChannelListener, Subscription } from '../../waiting/channels.js';
import type { Master } from './master.js';

/** How long a message waits for those of other masters. */
const GATHER_MS = 10;

export class UnlockWatch implements Subscription {
  readonly #clock: Clock;
  readonly #listener: ChannelListener;
  readonly #quorum: number;
  readonly #stragglingMs: number;
  readonly #subscriptions: readonly Subscription[];
  /** The masters that have told of a release which was not passed on yet. */
  readonly #heard = new Set<Master>();
  /** The masters that have not yet told of a release that was passed on already, a moment ago. */
  readonly #stragglers = new Set<Master>();
  #passedOnAtMs = -Infinity;
  #timer: Timer | undefined;

  /** `nodeTimeoutMs`: how much later some masters may tell than others. */
  constructor(
    masters: readonly Master[],
    quorum: number,
    nodeTimeoutMs: number,
    listener: ChannelListener,
    clock: Clock = PROCESS_CLOCK,
  ) {
    this.#clock = clock;
    this.#listener = listener;
    this.#quorum = quorum;
    this.#stragglingMs = Math.max(GATHER_MS, nodeTimeoutMs);
    this.#subscriptions = masters.map((master) => {
      const hear = (): void => {
        this.#hear(master, masters);
      };
      return master.lock.subscribeToUnlocks({ subscribed: hear, message: hear });
    });
  }

  get isSubscribed(): boolean {
    return this.#subscriptions.filter(({ isSubscribed }) => isSubscribed).length >= this.#quorum;
  }

  mayHaveMissed(sinceMs: number): boolean {
    return this.#subscriptions.some((subscription) => subscription.mayHaveMissed(sinceMs));
  }

  close(): void {
    this.#clock.clearTimer(this.#timer);
    for (const subscription of this.#subscriptions) subscription.close();
  }

  #hear(master: Master, masters: readonly Master[]): void {
    const isPassedOn = this.#clock.nowMs() - this.#passedOnAtMs < this.#stragglingMs;
    if (this.#stragglers.delete(master) && isPassedOn) return;
    this.#heard.add(master);
    if (this.#heard.size >= this.#quorum) {
      for (const other of masters) if (!this.#heard.has(other)) this.#stragglers.add(other);
      this.#passedOnAtMs = this.#clock.nowMs();
      this.#notify();
    } else {
      this.#timer ??= this.#clock.setTimer(this.#notify, GATHER_MS);
    }
  }

  readonly #notify = (): void => {
    this.#clock.clearTimer(this.#timer);
    this.#timer = undefined;
    this.#heard.clear();
    this.#listener.message('0');
  };
}
