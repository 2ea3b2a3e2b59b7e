// Tells the leases of one client that they are over, by one timer for all.

import { Alarm } from '../runtime/alarm.js';

/** A lease on which somebody relies. */
export interface Ending {
  /** Milliseconds that are left; 0 or less when it is over. */
  readonly leaseLeftMs: number;
  /** Looks whether it is over. */
  checkDeadline(): void;
}

export class Deadlines {
  readonly #leases = new Set<Ending>();
  readonly #alarm = new Alarm(() => {
    this.#check();
  });

  /** From now on it is told when it is over; a lease that is prolonged is just told later. */
  add(lease: Ending): void {
    if (this.#leases.has(lease)) return;
    this.#leases.add(lease);
    this.#alarm.within(lease.leaseLeftMs);
  }

  delete(lease: Ending): void {
    this.#leases.delete(lease);
    if (this.#leases.size === 0) this.#alarm.rest();
  }

  stop(): void {
    this.#leases.clear();
    this.#alarm.stop();
  }

  #check(): void {
    let nextMs = Infinity;
    for (const lease of this.#leases) {
      lease.checkDeadline();
      const leftMs = lease.leaseLeftMs;
      // (One that is over and still here is just being released: nobody relies on it.)
      if (leftMs > 0 && leftMs < nextMs) nextMs = leftMs;
    }
    if (nextMs < Infinity) this.#alarm.within(nextMs);
  }
}
