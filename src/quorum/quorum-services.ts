// What the Redlocks of one Holdfast share: their watchdog, their lines, and what they know of leases.

import type { HeldLease, Renewable } from '../backend.js';
import { Client, type Reachable } from '../client.js';
import type { Events } from '../events.js';
import { renewalFailed } from '../node.js';
import type { Line } from '../waiting/line.js';
import { Lines } from '../waiting/lines.js';
import { Watchdog } from '../watchdog.js';
import type { Connection } from '../redis/connection.js';
import type { Master } from './master.js';
import { RedRenewer, type RedTarget } from './red-renewer.js';

/** All masters are asked at once, and who does not answer is part of the result; a Redlock itself waits for new connections. */
const ALWAYS_REACHABLE: Reachable = {
  isReady: true,
  whenReady: () => Promise.resolve(),
  lastError: undefined,
};

export class QuorumServices {
  /** Redlocks are held, awaited and given up apart from the locks of any one master. */
  readonly client: Client;
  /** Where those of this client wait, for each lock in one line. */
  readonly lines: Lines<Line> = new Lines<Line>();
  readonly #watchdog: Watchdog;
  readonly #renewer: RedRenewer;
  readonly #connections = new WeakSet<Connection>();
  /** What the watchdog knows a lease by. */
  readonly #watched = new WeakMap<HeldLease, Renewable>();
  #longestLeaseMs: number;

  constructor(owner: Client, events: Events) {
    const { lockWatchdogTimeoutMs } = owner;
    // All releases go out in the turn in which it is closed: the clients of the masters may be closing, too.
    this.client = new Client(owner, ALWAYS_REACHABLE, events, Infinity);
    this.#longestLeaseMs = lockWatchdogTimeoutMs;
    this.#renewer = new RedRenewer(lockWatchdogTimeoutMs / 10);
    this.#watchdog = new Watchdog({
      leaseMs: lockWatchdogTimeoutMs,
      failed: (error, leaseCount) => {
        events.tell('error', () => renewalFailed(error, leaseCount));
      },
    });
  }

  /** A master that is back, perhaps empty, is asked at once. */
  renewOnReady(masters: readonly Master[]): void {
    for (const { connection } of masters.map(({ lock }) => lock)) {
      if (this.#connections.has(connection)) continue;
      this.#connections.add(connection);
      connection.onReady(this.#watchdog.renewAll);
    }
  }

  /** The larger of `lockWatchdogTimeout` and the longest lease so far, in milliseconds. */
  get longestLeaseMs(): number {
    return this.#longestLeaseMs;
  }

  noteLease(leaseMs: number): void {
    if (leaseMs > this.#longestLeaseMs) this.#longestLeaseMs = leaseMs;
  }

  watch(lease: HeldLease, renewable: Renewable, target: RedTarget): void {
    this.#watched.set(lease, renewable);
    this.#watchdog.watch(renewable, target, this.#renewer);
  }

  unwatch(lease: HeldLease): void {
    const renewable = this.#watched.get(lease);
    if (renewable) this.#watchdog.unwatch(renewable);
  }
}
