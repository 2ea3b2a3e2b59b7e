// What is sent at the end of this turn of the event loop; before that, if anything else is sent, so that nothing overtakes it.

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

  /** Called before anything else is sent. */
  readonly sendNow = (): void => {
    const send = this.#send;
    this.#send = undefined;
    // Whoever sends something else now has nothing to do with it.
    if (send) inOwnContext(send);
  };
}
