// A grant that is passed on from one holder to the next within a process, and the releases that did so: each is settled by the next
// proof that the server still had the grant after that.

import { KeyConflictError } from '../api/errors.js';
import type { Due, Scheduled } from '../runtime/schedule.js';
import type { GrantedLock } from './granted-lock.js';
import { retry } from './retry.js';
import type { Session } from './session.js';

/** How often a grant is passed on at most before other clients have their turn. */
const MOST_PASSES = 16;

/** For how long after the server gave it a grant may be passed on, in milliseconds. */
const LONGEST_MS = 10;

/** How long a proof that the grant's own release should soon bring is awaited before one is asked for, in milliseconds. */
const PROOF_MS = 1;

/** A release that passed the grant on and is not settled; `pass`: 1 for the first release that did so, 2 for the next. */
interface Unproven {
  readonly pass: number;
  resolve(): void;
  reject(error: Error): void;
}

export class Relay implements Due {
  scheduled: Scheduled | undefined;
  readonly #session: Session;
  readonly #lock: GrantedLock;
  readonly #ownerId: string;
  readonly #gone: () => void;
  readonly #endsAtMs: number;
  #passes = 0;
  #unproven: Unproven[] = [];
  #isAsking = false;
  #isOver = false;

  /** `gone` is called when the server has no such owner, though nobody released it. */
  constructor(
    session: Session,
    lock: GrantedLock,
    ownerId: string,
    heldForMs: number,
    gone: () => void,
  ) {
    this.#session = session;
    this.#lock = lock;
    this.#ownerId = ownerId;
    this.#gone = gone;
    this.#endsAtMs = session.clock.nowMs() - heldForMs + LONGEST_MS;
  }

  /** Whether the grant may be passed on once more. */
  get mayPass(): boolean {
    return this.#passes < MOST_PASSES && this.#session.clock.nowMs() < this.#endsAtMs;
  }

  /** A hold was released by passing the grant on; `waiting` are in line behind its new holder. Settled by the next proof. */
  passed(waiting: number): Promise<void> {
    const pass = ++this.#passes;
    const proof = new Promise<void>((resolve, reject) => {
      this.#unproven.push({ pass, resolve, reject });
    });
    // Enough are in line for all passes that are left; the release on the server after the last pass is a proof for all.
    if (waiting > MOST_PASSES - pass) this.#session.schedule.within(this, PROOF_MS);
    else this.due();
    return proof;
  }

  /** Asks whether the grant is still there. */
  due(): void {
    if (!this.#isAsking && !this.#isOver && this.#unproven.length > 0) void this.#ask();
  }

  /** The grant's release is on its way, or the grant was lost: nothing is asked any more. */
  end(): void {
    this.#isOver = true;
    this.#session.schedule.delete(this);
  }

  /** Settles all releases by what became of the grant: without `error` it was there until its own release; else they fail with that. */
  settle(error?: Error): void {
    this.end();
    this.#settle(this.#passes, error);
  }

  async #ask(): Promise<void> {
    const { connection } = this.#session;
    const { name } = this.#lock;
    const upTo = this.#passes;
    this.#isAsking = true;
    try {
      const count = await this.#session.bounded(name, 'not known to be released', (waitLimit) =>
        retry(connection, waitLimit, { name }, () => this.#lock.holdCount(this.#ownerId)),
      );
      if (count > 0) this.#settle(upTo);
      else if (!this.#isOver) this.#gone();
    } catch (error) {
      // Something else is in place of the lock's key: then it is gone, too.
      if (error instanceof KeyConflictError && !this.#isOver) this.#gone();
      else this.#settle(upTo, error as Error);
    } finally {
      this.#isAsking = false;
    }
    if (!this.#isOver && this.#unproven.some(({ pass }) => pass > upTo)) this.due();
  }

  #settle(upTo: number, error?: Error): void {
    const settled = this.#unproven.filter(({ pass }) => pass <= upTo);
    this.#unproven = this.#unproven.filter(({ pass }) => pass > upTo);
    for (const release of settled) {
      if (error) release.reject(error);
      else release.resolve();
    }
  }
}
