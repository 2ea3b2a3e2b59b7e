// A caller who between tries stands in the line of this client for the lock: of those in it one at a time tries, when the lock
// may be free, or takes over what another one of this client has of it.

import type { TimeLimit } from '../runtime/clock.js';
import type { Findings } from '../waiting/findings.js';
import type { Line } from '../waiting/line.js';
import type { Sleeper } from '../waiting/sleeper.js';
import type { Granted, Heir } from './granted-lock.js';
import type { AcquireReply, HeldReply } from './replies.js';
import type { LockRequest } from './request.js';
import type { Waiter } from './waiter.js';

const NOW = Promise.resolve();

export abstract class LineWaiter implements Waiter, Heir {
  abstract readonly ownerId: string;
  /** As an heir it wants what it takes over to be renewed. */
  readonly isWatched = true;
  /** Whether it may be one: not where each holder needs something of its own from the server. */
  protected readonly mayInherit: boolean = true;
  protected readonly request: LockRequest;
  readonly #line: () => Line<Heir>;
  #sleeper: Sleeper<Heir> | undefined;
  #inherited: Granted | undefined;

  /** `line` gives the one where those of this client wait who did not get the lock. */
  constructor(request: LockRequest, line: () => Line<Heir>) {
    this.request = request;
    this.#line = line;
  }

  abstract try(limit?: TimeLimit): Promise<AcquireReply>;

  wait({ holderTtlMs, retryInMs = holderTtlMs }: HeldReply, triedAtMs: number): void {
    if (this.#sleeper) this.#sleeper.stillHeld(retryInMs);
    else if (this.request.waitMs > 0)
      this.#sleeper = this.#line().join(triedAtMs, retryInMs, this.request, this.#heir);
  }

  get findings(): Findings | undefined {
    return this.#sleeper?.findings;
  }

  look(sinceMs: number): void {
    this.#sleeper?.look(sinceMs);
  }

  get mayTry(): boolean {
    return this.#sleeper?.mayTry ?? true;
  }

  get woken(): Promise<void> {
    return this.#sleeper?.woken ?? NOW;
  }

  inherit(grant: Granted): void {
    this.#inherited = grant;
    this.#sleeper?.takeTurn();
  }

  /** What it was to take over was lost before it did. */
  lost(): void {
    this.#inherited = undefined;
  }

  claim(): Granted | undefined {
    const inherited = this.#inherited?.isHeld ? this.#inherited : undefined;
    this.#inherited = undefined;
    return inherited;
  }

  /** Nothing is left on the server: a try that was answered with "held" left nothing there. */
  leave(leaseMs?: number): boolean {
    const inherited = this.#inherited;
    this.#inherited = undefined;
    this.#sleeper?.leave(leaseMs);
    inherited?.decline();
    return false;
  }

  /** Joins the line without a try. */
  protected queueIn(line: Line<Heir>): void {
    this.#sleeper = line.queue(this.request, this.#heir);
  }

  /** Whether it stands in line already, and so is the one to try. */
  protected get isInLine(): boolean {
    return this.#sleeper !== undefined;
  }

  /** A member of a lock of several must have the owner of all, and a fixed lease has to be asked for. */
  get #heir(): Heir | undefined {
    const { isWatched, attemptMs } = this.request;
    return this.mayInherit && isWatched && attemptMs === undefined ? this : undefined;
  }
}
