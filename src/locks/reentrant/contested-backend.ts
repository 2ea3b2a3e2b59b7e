// The part of a backend in which the callers of one client meet over one lock on one Redis: their grant, which is watched, and the line in
// which they wait.

import type { KeyPlace } from '../../core/backend.js';
import type { Granted, Heir } from '../../core/granted-lock.js';
import type { Server } from '../../core/server.js';
import { LockKeys } from '../../redis/keys.js';
import type { ChannelListener, Subscription } from '../../waiting/channels.js';
import type { Line } from '../../waiting/line.js';
import { Contests } from './contests.js';
import { HoldRenewer } from './hold-renewer.js';

export abstract class ContestedBackend {
  readonly name: string;
  readonly id: string;
  protected readonly server: Server;
  protected readonly keys: LockKeys;

  constructor(server: Server, key: string, name: string) {
    this.name = name;
    this.server = server;
    this.keys = new LockKeys(key);
    this.id = `${server.listensAt} ${this.keys.lock}`;
  }

  get keyPlaces(): readonly KeyPlace[] {
    return [{ key: this.keys.lock, connection: this.server.connection }];
  }

  /** Tells `listener` of the lock's releases, whoever released it. */
  subscribeToUnlocks(listener: ChannelListener): Subscription {
    return this.server.subscribeToUnlocks(this.keys, listener);
  }

  watch(grant: Granted): void {
    this.server.watchdog.watch(grant, this.keys, this.server.shared(HoldRenewer));
  }

  unwatch(grant: Granted): void {
    this.server.watchdog.unwatch(grant);
  }

  line(): Line<Heir> {
    return this.#contests.line(this.keys.lock, {
      clock: this.server.schedule.clock,
      lookEveryMs: this.server.lockWatchdogTimeoutMs / 3,
      subscribe: (listener) => this.subscribeToUnlocks(listener),
      roundTrip: () => this.server.connection.command('exists', this.keys.lock),
      verify: (grant) => {
        this.server.watchdog.renew([grant]);
      },
    });
  }

  get localLine(): Line<Heir> | undefined {
    return this.#contests.known(this.keys.lock);
  }

  get heldHere(): Granted | undefined {
    return this.#contests.heldHere(this.keys.lock);
  }

  get isBusyHere(): boolean {
    return this.#contests.isBusy(this.keys.lock);
  }

  granted(grant: Granted): void {
    this.#contests.granted(this.keys.lock, grant);
  }

  forget(ownerId: string): void {
    this.#contests.forget(this.keys.lock, ownerId);
  }

  get #contests(): Contests {
    return this.server.shared(Contests);
  }
}
