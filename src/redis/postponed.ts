// A command that is sent at the end of this turn of the event loop; earlier if another command is to be sent, so that none overtakes it.

import { nextTick } from 'node:process';
import { inOwnContext } from '../runtime/own-context.js';

export class Postponed {
  #send: (() => void) | undefined;

  /** Whether something is to be sent. */
  get isPending(): boolean {
    return this.#send !== undefined;
  }

  postpone(send: () => void): void {
    this.sendNow();
    this.#send = send;
    nextTick(this.sendNow);
  }

  /** Called at the end of the turn, and before another command is sent. */
  readonly sendNow = (): void => {
    const send = this.#send;
    this.#send = undefined;
    // Not in the context of whoever sends another command now, which has nothing to do with this one.
    if (send) inOwnContext(send);
  };
}
