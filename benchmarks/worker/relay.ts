// One end of a hand-over between processes: holds what the other end waits for, or the other way round.

import type { PeerClient, Release } from '../peers/peer.js';
import { monotonicMs } from '../support/clock.js';

export class Relay {
  readonly #held = new Map<string, Release>();
  readonly #entered = new Map<string, Promise<number>>();

  async hold(client: PeerClient, name: string): Promise<void> {
    this.#held.set(name, await client.acquire(name));
  }

  /** Returns when it began. */
  async letGo(name: string): Promise<number> {
    const startMs = monotonicMs();
    await this.#held.get(name)!();
    return startMs;
  }

  wait(client: PeerClient, name: string): void {
    const entered = client.acquire(name).then(async (release) => {
      const enteredMs = monotonicMs();
      await release();
      return enteredMs;
    });
    entered.catch(() => undefined); // told to who asks
    this.#entered.set(name, entered);
  }

  /** When the lock came. */
  async tell(name: string): Promise<number> {
    return await this.#entered.get(name)!;
  }
}
