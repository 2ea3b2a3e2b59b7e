// The hold of one acquisition of a semaphore: that of a lock, without what only an owner of a lock can do.

import { inspect, type InspectOptionsStylized } from 'node:util';
import { inspected } from '../../api/description.js';
import type { PermitHold, PermitHoldDescription } from '../../api/semaphore.js';
import type { OwnHold } from '../../core/own-hold.js';

export class HeldPermits implements PermitHold {
  readonly permits: number;
  readonly #hold: OwnHold;

  constructor(hold: OwnHold, permits: number) {
    this.#hold = hold;
    this.permits = permits;
  }

  get lockName(): string {
    return this.#hold.lockName;
  }

  get ownerId(): string {
    return this.#hold.ownerId;
  }

  get signal(): AbortSignal {
    return this.#hold.signal;
  }

  remaining(): number {
    return this.#hold.remaining();
  }

  extend(lease: number): Promise<void> {
    return this.#hold.extend(lease);
  }

  release(): Promise<void> {
    return this.#hold.release();
  }

  toJSON(): PermitHoldDescription {
    return { ...this.#hold.toJSON(), permits: this.permits };
  }

  /** For `util.inspect` and `console.log`. @internal */
  [inspect.custom](depth: number, options: InspectOptionsStylized): string {
    return inspected('PermitHold', this.toJSON(), depth, options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#hold.releaseQuietly();
  }
}
