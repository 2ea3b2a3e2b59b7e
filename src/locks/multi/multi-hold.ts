// A hold of several locks at once: as good as its weakest member, and gone with the first that is lost.

import { inspect, type InspectOptionsStylized } from 'node:util';
import { inspected, type HoldDescription } from '../../api/description.js';
import { LockLostError } from '../../api/errors.js';
import type { OwnHold } from '../../core/own-hold.js';
import { currentScope, Scope } from '../../scopes/scope.js';
import type { SingleHold } from '../../core/single-hold.js';

export class MultiHold implements OwnHold {
  readonly lockName: string;
  readonly ownerId: string;
  readonly members: readonly SingleHold[];
  readonly #aborter = new AbortController();
  #loss: LockLostError | undefined;

  constructor(lockName: string, members: readonly SingleHold[]) {
    this.lockName = lockName;
    this.ownerId = members[0]?.ownerId ?? ''; // they share it, unless some were re-entered
    this.members = members;
    for (const { signal } of members) {
      const lost = (): void => {
        this.#lose(signal.reason as LockLostError);
      };
      if (signal.aborted) lost();
      else signal.addEventListener('abort', lost, { once: true });
    }
  }

  get signal(): AbortSignal {
    this.#look();
    return this.#aborter.signal;
  }

  remaining(): number {
    return Math.min(...this.members.map((member) => member.remaining()));
  }

  async extend(lease: number): Promise<void> {
    this.#look();
    if (this.#loss) throw this.#loss;
    await this.#all((member) => member.extend(lease));
  }

  async release(): Promise<void> {
    this.#look();
    await this.#all((member) => member.release());
  }

  async run<T>(fn: () => T | Promise<T>): Promise<T> {
    this.#look();
    if (this.#loss) throw this.#loss;
    const scope = new Scope(currentScope(), false);
    for (const member of this.members) member.enterInto(scope);
    return await scope.run(fn);
  }

  toJSON(): HoldDescription {
    const remainingMs = Math.round(this.remaining()); // each member finds out whether its lease is over
    const isHeld = this.members.every((member) => member.toJSON().state === 'held');
    const state = this.#loss ? 'lost' : isHeld ? 'held' : 'released';
    const { lockName, ownerId } = this;
    return { lockName, state, ownerId, remainingMs };
  }

  /** For `util.inspect` and `console.log`. @internal */
  [inspect.custom](depth: number, options: InspectOptionsStylized): string {
    return inspected('Hold', this.toJSON(), depth, options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.releaseQuietly();
  }

  async releaseQuietly(): Promise<void> {
    this.#look();
    await this.#all((member) => member.releaseQuietly());
  }

  /** Each member finds out whether its lease is over. */
  #look(): void {
    for (const member of this.members) member.remaining();
  }

  /** Calls all members, whatever becomes of the others. If a member was lost, it throws that rather than any other error. */
  async #all(call: (member: SingleHold) => Promise<void>): Promise<void> {
    const outcomes = await Promise.allSettled(this.members.map(call));
    if (this.#loss) throw this.#loss;
    for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
  }

  /** A member was lost: the others are no use by themselves. */
  #lose(cause: LockLostError): void {
    if (this.#loss) return;
    const { lockName } = this;
    const { lossReason } = cause;
    const error = new LockLostError(`lock "${lockName}" lost: ${cause.message}`, {
      lockName,
      lossReason,
      cause,
    });
    this.#loss = error;
    this.#aborter.abort(error);
    for (const member of this.members) member.loseAsMember(error).catch(() => undefined); // one that was lost itself has told so
  }
}
