// The masters of the show, which are killed and started again, and what was last said of them.

import type { NodeAnswer } from '../../src/index.js';
import type { RedisServer } from '../../test/support/redis-server.js';
import { monotonicMs } from '../support/clock.js';

type MasterState = 'up' | 'killed' | 'back';

export class Master {
  readonly name: string;
  /** As errors name it. */
  readonly address: string;
  state: MasterState = 'up';
  /** Since when it has been in this state, on the monotonic clock. */
  sinceMs: number = monotonicMs();
  /** What the last QuorumError said of it; undefined: nothing since it changed. */
  answer: NodeAnswer | undefined;
  readonly #server: RedisServer;

  constructor(name: string, server: RedisServer) {
    this.name = name;
    this.address = `${server.host}:${server.port}`;
    this.#server = server;
  }

  /** SIGKILL: what it knew of locks is gone. */
  async kill(): Promise<void> {
    await this.#server.kill();
    this.#become('killed');
  }

  /** On the same port, with nothing in it. */
  async startAgain(): Promise<void> {
    await this.#server.start();
    this.#become('back');
  }

  #become(state: MasterState): void {
    this.state = state;
    this.sinceMs = monotonicMs();
    this.answer = undefined;
  }
}
