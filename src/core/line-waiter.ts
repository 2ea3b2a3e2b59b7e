// A waiter that stands in this client's line for the lock between its tries: one of the line at a time tries, when the lock may be
// free, or takes over the grant of another caller of this client.

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
  /** As an heir it wants the lease of the grant that it takes over to be renewed. */
  readonly isWatched = true;
  /** Whether it may be an heir: not where each holder needs something of its own from the server, such as a token. */
  protected readonly mayInherit: boolean = true;
  protected readonly request: LockRequest;
  readonly #line: () => Line<Heir>;
  #sleeper: Sleeper<Heir> | undefined;
  #inherited: Granted | undefined;

  /** `line` gives this client's line for the lock, and makes it if there is none. */
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

  /** The grant that it was to take over was lost before it did. */
  lost(): void {
    this.#inherited = undefined;
  }

  claim(): Granted | undefined {
    const inherited = this.#inherited?.isHeld ? this.#inherited : undefined;
    this.#inherited = undefined;
    return inherited;
  }

  /** Returns false: a waiter of this kind has no place on the server, and a try that was answered with "held" left nothing there. */
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

  /** Whether it stands in line already: if it is asked to try then, its turn has come. */
  protected get isInLine(): boolean {
    return this.#sleeper !== undefined;
  }

  /** This waiter, if it may be an heir: a member of a MultiLock needs the owner of all members, and a fixed lease has to be asked for. */
  get #heir(): Heir | undefined {
    const { isWatched, attemptMs } = this.request;
    return this.mayInherit && isWatched && attemptMs === undefined ? this : undefined;
  }
}
