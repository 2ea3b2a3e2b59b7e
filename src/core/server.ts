// One Redis, as the locks of one client use it: commands, channels, waiting lines, renewals.

import { ClosedError, HoldfastError } from '../api/errors.js';
import type { Events } from '../api/events.js';
import { RedisClient, type RedisClientOptions } from '../redis/client.js';
import { failureKind } from '../redis/failure.js';
import { News } from '../redis/reconnecting.js';
import { inTurn } from '../runtime/node.js';
import type { Schedule } from '../runtime/schedule.js';
import type { LockKeys } from '../redis/keys.js';
import { type ChannelListener, Channels, type Subscription } from '../waiting/channels.js';
import { type Call, WaitEnded, WaitLimit } from '../runtime/wait-limit.js';
import { notAnswered, publishRefused, renewalFailed } from './messages.js';
import { hexDigits } from './session.js';
import type { Renewer } from './protocol.js';
import { type RenewerRow, RowRenewer, Watchdog } from './watchdog.js';

export interface NodeOptions extends RedisClientOptions {
  lockWatchdogTimeoutMs: number;
  /** The `keyPrefix` option; it follows the prefix of what was given as `redis`. */
  keyPrefix: string;
  /** Whether releases are published on classic channels also where there are sharded ones. */
  hasClassicUnlockChannels: boolean;
}

export class Server {
  /** The end of the names of the channels on which this client hears of its grants. It is unique: grants must reach nobody else. */
  readonly channelSuffix: string;
  readonly lockWatchdogTimeoutMs: number;
  readonly #hasClassicUnlockChannels: boolean;
  readonly connection: RedisClient;
  /** What stands in front of every lock name. */
  readonly keyPrefix: string;
  readonly channels: Channels;
  readonly watchdog: Watchdog;
  /** The timer that all leases, renewals and releases of its client share. */
  readonly schedule: Schedule;
  readonly #shared = new Map<object, unknown>();
  readonly #events: Events;
  /** On which kinds of channels publishing is refused. */
  readonly #refused = new News();

  constructor(options: NodeOptions, events: Events, schedule: Schedule) {
    this.channelSuffix = hexDigits(32, options.library.random);
    this.#events = events;
    this.schedule = schedule;
    this.lockWatchdogTimeoutMs = options.lockWatchdogTimeoutMs;
    this.#hasClassicUnlockChannels = options.hasClassicUnlockChannels;
    this.connection = new RedisClient(options, events);
    this.keyPrefix = options.library.keyPrefix + options.keyPrefix;
    this.channels = new Channels(this.connection, events, this.#lookEveryMs);
    this.watchdog = new Watchdog({
      schedule,
      leaseMs: options.lockWatchdogTimeoutMs,
      failed: (error, leaseCount) => {
        // The connection itself tells that it is down, or refused; but that of a cluster is up while a node is down.
        if (this.connection.refusal) return;
        if (failureKind(error) !== 'unsent' || this.connection.isReady)
          events.emit('error', () => ({ error: renewalFailed(error, leaseCount) }));
      },
    });
    this.connection.listen({
      ready: this.watchdog.renewAll,
      refused: this.watchdog.renewAll, // so that who stands in a line hears of it
      disturbed: this.watchdog.doubt,
    });
  }

  /** What all locks of a kind have in common on this server, such as how they are renewed: made for the first that asks for it. */
  shared<T>(Kind: new (connection: RedisClient) => T): T {
    let made = this.#shared.get(Kind) as T | undefined;
    if (made === undefined) this.#shared.set(Kind, (made = new Kind(this.connection)));
    return made;
  }

  /** What renews leases of one kind on this server. */
  renewer<Target>(row: RenewerRow<Target>): Renewer<Target> {
    let made = this.#shared.get(row) as Renewer<Target> | undefined;
    if (!made) this.#shared.set(row, (made = new RowRenewer(this.connection, row)));
    return made;
  }

  /** How long whoever is first in a line sleeps at most, whatever messages come or do not. */
  get #lookEveryMs(): number {
    return this.lockWatchdogTimeoutMs / 3;
  }

  /** Whether the server has sharded channels, which can be used where a lock and its channel share a slot. */
  get isSharded(): boolean {
    return this.connection.server.isSharded;
  }

  /** The command that publishes on a lock's unlock channel. */
  publishCommand(keys: LockKeys): 'PUBLISH' | 'SPUBLISH' {
    const isSharded = this.isSharded && keys.isShardable && !this.#hasClassicUnlockChannels;
    return isSharded ? 'SPUBLISH' : 'PUBLISH';
  }

  /** A script did its work, but may not publish that to those who wait: emits `error`, once for each kind of channel. */
  publishRefused(channel: string, reason: string): void {
    const [kind = channel] = channel.split(':', 1);
    if (!this.#refused.isNews(kind)) return;
    this.#events.emit('error', () => ({
      error: publishRefused(channel, kind, reason, this.#lookEveryMs),
    }));
  }

  subscribeToUnlocks(keys: LockKeys, listener: ChannelListener): Subscription {
    const isSharded = (): boolean => this.publishCommand(keys) === 'SPUBLISH';
    return this.channels.subscribe(keys.channel, isSharded, listener);
  }

  /** Returns in how many milliseconds the server answers. It is asked once: what counts is how it is now. */
  async ping(limitMs: number, registry: Set<Call>): Promise<number> {
    const { clock } = this.schedule;
    const waitLimit = new WaitLimit({ clock, limitMs, registry, isSingleAttempt: true });
    const asked = new Set<string>();
    try {
      await this.connection.whenReady(waitLimit);
      const sentAtMs = clock.nowMs();
      await waitLimit.within(this.connection.ping(asked));
      return clock.nowMs() - sentAtMs;
    } catch (error) {
      throw await inTurn(this.#unanswered(error, limitMs, asked));
    } finally {
      waitLimit.dispose();
    }
  }

  /** `silent`: those who were asked and have not answered. */
  #unanswered(error: unknown, limitMs: number, silent: ReadonlySet<string>): Error {
    if (error instanceof HoldfastError) return error;
    const isOver = error instanceof WaitEnded;
    if (isOver && error.ending === 'closed') return new ClosedError('the client is closed');
    const cause = this.connection.lastError ?? (isOver ? undefined : (error as Error));
    const where = silent.size > 0 ? [...silent].join(', ') : this.connection.place;
    return notAnswered(where, isOver ? limitMs : undefined, cause);
  }

  async close(): Promise<void> {
    this.watchdog.stop();
    await Promise.all([this.channels.close(), this.connection.close()]);
  }
}
