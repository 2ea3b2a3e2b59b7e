// What the Redlocks of one Holdfast share: their watchdog, their lines, and what they know of leases.

import type { Granted, Heir } from '../../core/granted-lock.js';
import { Session, type Reachable } from '../../core/session.js';
import { ClosedError } from '../../api/errors.js';
import type { Events } from '../../api/events.js';
import { renewalFailed } from '../../core/server.js';
import type { Line } from '../../waiting/line.js';
import { Lines } from '../../waiting/lines.js';
import { Watchdog } from '../../core/watchdog.js';
import type { RedisClient } from '../../redis/client.js';
import type { Master } from './master.js';
import { ExtensionLimit } from './extension-limit.js';
import { RedRenewer, type RedTarget } from './red-renewer.js';

/**
 * A session of Redlocks takes its servers for reachable: all masters are asked at once, who does not answer is part of the result, and
 * `Health` waits for connections that are being made.
 */
const ALWAYS_REACHABLE: Reachable = {
  isReady: true,
  whenReady: () => Promise.resolve(),
  lastError: undefined,
};

export class QuorumServices {
  /** Redlocks are held, awaited and given up apart from the locks of any one master. */
  readonly session: Session;
  /** Where those of this client wait, for each lock in one line. */
  readonly lines: Lines<Line<Heir>> = new Lines<Line<Heir>>();
  readonly #watchdog: Watchdog;
  readonly #renewer: RedRenewer;
  /** The masters' connections, and what ends listening to them. */
  readonly #connections = new Map<RedisClient, () => void>();
  #longestLeaseMs: number;

  constructor(owner: Session, events: Events) {
    const { lockWatchdogTimeoutMs } = owner;
    const reachable = { ...ALWAYS_REACHABLE, surroundings: owner };
    // When the session is closed, all releases go out in that turn: the clients of the masters may be closing, too.
    this.session = new Session(owner, reachable, events, Infinity);
    this.#longestLeaseMs = lockWatchdogTimeoutMs;
    this.#renewer = new RedRenewer(lockWatchdogTimeoutMs, owner.clock);
    this.#watchdog = new Watchdog({
      schedule: owner.schedule,
      leaseMs: lockWatchdogTimeoutMs,
      failed: (error, leaseCount) => {
        events.emit('error', () => renewalFailed(error, leaseCount));
      },
    });
    // For a Redlock that is made after its client was closed.
    if (owner.isClosed) void this.close();
  }

  /** Renews all Redlocks when a master is back, perhaps empty. */
  renewOnReady(masters: readonly Master[]): void {
    if (this.session.isClosed) return;
    // The clients of masters may come and go.
    for (const connection of this.#connections.keys())
      if (connection.refusal instanceof ClosedError) this.#connections.delete(connection);
    for (const { connection } of masters.map(({ lock }) => lock)) {
      if (this.#connections.has(connection)) continue;
      this.#connections.set(connection, connection.onReady(this.#watchdog.renewAll));
    }
  }

  /** The larger of `lockWatchdogTimeout` and the longest lease so far, in milliseconds. */
  get longestLeaseMs(): number {
    return this.#longestLeaseMs;
  }

  noteLease(leaseMs: number): void {
    if (leaseMs > this.#longestLeaseMs) this.#longestLeaseMs = leaseMs;
  }

  /** Watches the grant of a Redlock, and extends its lease `maxExtensions` times at most. */
  watch(target: RedTarget, maxExtensions: number): void {
    const { grant } = target;
    if (maxExtensions < Infinity) {
      const { lockWatchdogTimeoutMs, clock } = this.session;
      grant.renewalLimit ??= new ExtensionLimit(
        maxExtensions,
        lockWatchdogTimeoutMs,
        grant.ageMs(),
        clock,
      );
    }
    this.#watchdog.watch(grant, target, this.#renewer);
  }

  unwatch(grant: Granted): void {
    this.#watchdog.unwatch(grant);
  }

  /** Ends what Redlocks share. The clients of the masters are others', and may live on. */
  async close(): Promise<void> {
    await this.session.close();
    this.#watchdog.stop();
    for (const stopListening of this.#connections.values()) stopListening();
    this.#connections.clear();
  }
}
