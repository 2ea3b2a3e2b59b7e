// One Redis, as the locks of one client use it: commands, unlock channels, waiting lines, renewals.

import { UnavailableError } from './errors.js';
import type { Events } from './events.js';
import type { KeepReply } from './backend.js';
import { Connection, type ConnectionOptions } from './redis/connection.js';
import { describe, failureKind } from './redis/failure.js';
import { hashTag, type LockKeys } from './redis/keys.js';
import { scripts } from './redis/scripts.generated.js';
import { Channels } from './waiting/channels.js';
import { Line } from './waiting/line.js';
import { Watchdog, type WatchedLease } from './watchdog.js';

export interface NodeOptions extends ConnectionOptions {
  lockWatchdogTimeoutMs: number;
}

export class Node {
  readonly connection: Connection;
  readonly watchdog: Watchdog;
  readonly #channels: Channels;
  readonly #lines = new Map<string, Line>();

  constructor(options: NodeOptions, events: Events) {
    this.connection = new Connection(options, events);
    this.#channels = new Channels(this.connection, events);
    this.watchdog = new Watchdog({
      leaseMs: options.lockWatchdogTimeoutMs,
      batchKey: ({ lock }) => (this.connection.isCluster ? hashTag(lock) : ''),
      renew: (batch, leaseMs) => this.#renew(batch, leaseMs),
      failed: (error, batch) => {
        // That the connection is down is told by the connection.
        if (failureKind(error) !== 'unsent')
          events.tell('error', () => renewalFailed(error, batch));
      },
    });
    this.connection.onReady(this.watchdog.renewNow);
  }

  /** The command that publishes on a lock's channel. */
  publishCommand(keys: LockKeys): 'PUBLISH' | 'SPUBLISH' {
    return this.connection.isSharded && keys.isShardable ? 'SPUBLISH' : 'PUBLISH';
  }

  /** The one line in which all of this client wait for a lock. */
  line(keys: LockKeys): Line {
    const known = this.#lines.get(keys.lock);
    if (known) return known;
    const isSharded = this.publishCommand(keys) === 'SPUBLISH';
    const line = new Line(
      (listener) => this.#channels.subscribe(keys.channel, isSharded, listener),
      () => this.#lines.delete(keys.lock),
    );
    this.#lines.set(keys.lock, line);
    return line;
  }

  async close(): Promise<void> {
    this.#channels.close();
    await this.connection.close();
  }

  async #renew(batch: readonly WatchedLease[], leaseMs: number): Promise<readonly KeepReply[]> {
    const keys = batch.flatMap(({ keys: { lock, forced } }) => [lock, forced]);
    const owners = batch.map(({ lease }) => lease.ownerId);
    return await this.connection.run(
      scripts.renew,
      keys,
      [leaseMs, ...owners],
      (replies) => replies as KeepReply[],
    );
  }
}

function renewalFailed(
  cause: unknown,
  batch: readonly WatchedLease[],
): { error: UnavailableError } {
  const why = cause instanceof Error ? describe(cause) : String(cause);
  const message = `renewal of ${String(batch.length)} locks stayed unanswered, to be tried again: ${why}`;
  return { error: new UnavailableError(message, { cause }) };
}
