// Many waiters of one client in the line of one fair lock, that join, hand over and leave when told.

import { setTimeout as sleep } from 'node:timers/promises';
import type { FairLock } from '../../src/index.js';
import { Holdfast } from './built-holdfast.js';

/** Long enough that no renewal falls into what is measured. */
const LOCK_WATCHDOG_TIMEOUT_MS = 3_600_000;

export class Crowd {
  readonly #client: InstanceType<typeof Holdfast>;
  readonly #lock: FairLock;
  /** Those in line, the first one first. */
  readonly #waiters: Waiter[] = [];
  #holder: Waiter | undefined;

  constructor(url: string, name: string) {
    this.#client = new Holdfast({ redis: url, lockWatchdogTimeout: LOCK_WATCHDOG_TIMEOUT_MS });
    this.#lock = this.#client.getFairLock(name);
  }

  /** So many more wait at the end of the line; the very first waiter holds the lock. */
  async join(count: number): Promise<void> {
    for (let i = 0; i < count; i++) this.#waiters.push(new Waiter(this.#lock));
    if (!this.#holder) {
      this.#holder = this.#waiters.shift()!;
      await this.#holder.entered;
    }
    await this.#lengthIs(this.#waiters.length);
  }

  /** The lock goes from one to the next so often. */
  async handOver(times: number): Promise<void> {
    for (let i = 0; i < times; i++) {
      const next = this.#waiters.shift()!;
      this.#holder!.letGo();
      await next.entered;
      this.#holder = next;
    }
  }

  /** So many of those in line give up, wherever they are. */
  async leave(count: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      const index = Math.floor(Math.random() * this.#waiters.length);
      this.#waiters.splice(index, 1)[0]!.giveUp();
    }
    await this.#lengthIs(this.#waiters.length);
  }

  async close(): Promise<void> {
    await this.#client.close();
  }

  async #lengthIs(length: number): Promise<void> {
    while ((await this.#lock.getQueueLength()) !== length) await sleep(5);
  }
}

class Waiter {
  readonly entered: Promise<void>;
  readonly #patience = new AbortController();
  #letGo!: () => void;

  constructor(lock: FairLock) {
    const { signal } = this.#patience;
    this.entered = new Promise((enter) => {
      // Under withLock each is an owner of its own, so that nobody is warned of waiting for himself.
      const stay = lock.withLock({ signal }, () => {
        enter();
        return new Promise<void>((resolve) => (this.#letGo = resolve));
      });
      stay.catch(() => undefined); // gave up, or the client was closed
    });
  }

  letGo(): void {
    this.#letGo();
  }

  giveUp(): void {
    this.#patience.abort();
  }
}
