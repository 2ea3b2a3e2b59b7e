// One Redis as the locks of one client use it: commands, channels, waiting lines and renewals.

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
import { notAnswered, publishRefused, renewalFailed, wishRefused } from './messages.js';
import { hexDigits } from './session.js';
import type { Renewer } from './protocol.js';
import { type RenewerRow, RowRenewer, Watchdog } from './watchdog.js';

export interface NodeOptions extends RedisClientOptions {
  lockWatchdogTimeoutMs: number;
  /** The `keyPrefix` option. It is appended to the prefix of the `redis` that was given. */
  keyPrefix: string;
  /** Whether releases are published on classic channels even if the server has sharded ones. */
  hasClassicUnlockChannels: boolean;
}

export class Server {
  /** The suffix of the channels on which this client receives its grants. Unique, since grants must reach no other client. */
  readonly channelSuffix: string;
  readonly lockWatchdogTimeoutMs: number;
  readonly #hasClassicUnlockChannels: boolean;
  readonly connection: RedisClient;
  /** The prefix of every lock name. */
  readonly keyPrefix: string;
  readonly channels: Channels;
  readonly watchdog: Watchdog;
  /** The timer that all leases, renewals and releases of its client share. */
  readonly schedule: Schedule;
  readonly #shared = new Map<object, unknown>();
  readonly #events: Events;
  /** The kinds of channels on which refused publishing was reported. */
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
        // The connection itself reports that it is down or refused; but a cluster's connection is up while a single node is down.
        if (this.connection.refusal) return;
        if (failureKind(error) !== 'unsent' || this.connection.isReady)
          events.emit('error', () => ({ error: renewalFailed(error, leaseCount) }));
      },
      counted: (outcome, leases) => {
        events.publish('renewed', () => ({ outcome, leases }));
      },
    });
    this.connection.listen({
      ready: this.watchdog.renewAll,
      refused: this.watchdog.renewAll, // so that waiters in a queue get the error
      disturbed: this.watchdog.doubt,
    });
  }

  /** An object that all locks of a kind share on this server; created on first use. */
  shared<T>(Kind: new (connection: RedisClient) => T): T {
    let made = this.#shared.get(Kind) as T | undefined;
    if (made === undefined) this.#shared.set(Kind, (made = new Kind(this.connection)));
    return made;
  }

  /** The renewer for leases of one kind on this server. */
  renewer<Target>(row: RenewerRow<Target>): Renewer<Target> {
    let made = this.#shared.get(row) as Renewer<Target> | undefined;
    if (!made) this.#shared.set(row, (made = new RowRenewer(this.connection, row)));
    return made;
  }

  /** The polling interval: the longest time, in milliseconds, that the first waiter of a line sleeps without a message. */
  get #lookEveryMs(): number {
    return this.lockWatchdogTimeoutMs / 3;
  }

  /** Whether the server has sharded channels, which can be used if a lock and its channel share a slot. */
  get isSharded(): boolean {
    return this.connection.server.isSharded;
  }

  /** The command that publishes on a lock's unlock channel. */
  publishCommand(keys: LockKeys): 'PUBLISH' | 'SPUBLISH' {
    const isSharded = this.isSharded && keys.isShardable && !this.#hasClassicUnlockChannels;
    return isSharded ? 'SPUBLISH' : 'PUBLISH';
  }

  /** A script did its work, but may not publish that to the waiters: emits `error`, once for each kind of channel. */
  publishRefused(channel: string, reason: string): void {
    const [kind = channel] = channel.split(':', 1);
    if (!this.#refused.isNews(kind)) return;
    this.#events.emit('error', () => ({
      error: publishRefused(channel, kind, reason, this.#lookEveryMs),
    }));
  }

  /** A script found a lock kept by another client, which it may not ask to let go: emits `error` once. */
  wishRefused(reason: string): void {
    if (this.#refused.isNews('holdfast_wishes'))
      this.#events.emit('error', () => ({ error: wishRefused(reason) }));
  }

  subscribeToUnlocks(keys: LockKeys, listener: ChannelListener): Subscription {
    const isSharded = (): boolean => this.publishCommand(keys) === 'SPUBLISH';
    return this.channels.subscribe(keys.channel, isSharded, listener);
  }

  /** Returns the server's response time in milliseconds. Sent once only: it measures the current state. */
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

  /** `silent`: the nodes that have not answered. */
  #unanswered(error: unknown, limitMs: number, silent: ReadonlySet<string>): Error {
    if (error instanceof HoldfastError) return error;
    const isOver = error instanceof WaitEnded;
    if (isOver && error.ending === 'closed') return new ClosedError('the client is closed');
    const { lastError, opening } = this.connection;
    const cause = lastError ?? (isOver ? opening : (error as Error));
    const where = silent.size > 0 ? [...silent].join(', ') : this.connection.place;
    return notAnswered(where, isOver ? limitMs : undefined, cause);
  }

  async close(): Promise<void> {
    this.watchdog.stop();
    await Promise.all([this.channels.close(), this.connection.close()]);
  }
}
