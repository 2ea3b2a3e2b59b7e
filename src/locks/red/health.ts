// The masters of one Redlock as a whole: whether a majority of them can be asked now, may be soon, or never will be.

import type { Clock } from '../../runtime/clock.js';
import type { Master } from './master.js';

/** How often connections that are being made are looked at, in milliseconds. */
const CONNECTING_MS = 5;

export class Health {
  readonly #clock: Clock;
  readonly #masters: readonly Master[];
  readonly #quorum: number;

  constructor(clock: Clock, masters: readonly Master[], quorum: number) {
    this.#clock = clock;
    this.#masters = masters;
    this.#quorum = quorum;
  }

  /** Whether a majority is connected. */
  get isReachable(): boolean {
    return this.#count(({ lock }) => lock.connection.isReady) >= this.#quorum;
  }

  /** Whether waiting for a majority would not help: too many masters are closed, or refuse us. */
  get isHopeless(): boolean {
    const refused = this.#count(({ lock }) => lock.connection.refusal !== undefined);
    return refused > this.#masters.length - this.#quorum;
  }

  /** Whether a majority is connected, or no more will be for now. */
  get isSettled(): boolean {
    return this.isReachable || !this.#isConnecting;
  }

  /** Waits for connections that are being made, until a majority is there or `isGivenUp`. */
  async whenSettled(isGivenUp: () => boolean): Promise<void> {
    while (!this.isSettled && !isGivenUp()) await this.#aMoment();
  }

  /** The same for all of them: until none is being made, or `isGivenUp`. */
  async whenAllSettled(isGivenUp: () => boolean): Promise<void> {
    while (this.#isConnecting && !isGivenUp()) await this.#aMoment();
  }

  #aMoment(): Promise<void> {
    return new Promise((resolve) => {
      this.#clock.setTimer(resolve, CONNECTING_MS);
    });
  }

  get #isConnecting(): boolean {
    return this.#count((master) => master.isConnecting) > 0;
  }

  #count(is: (master: Master) => boolean): number {
    return this.#masters.filter(is).length;
  }
}
