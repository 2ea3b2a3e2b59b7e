// A grant that is passed on from hand to hand within a process, and the releases that did so: each is settled by the next proof that
// the grant was still on the server when it had been passed on.

import type { Due } from '../runtime/schedule.js';
import type { GrantedLock } from './granted-lock.js';
import { retry } from './retry.js';
import type { Session } from './session.js';

/** How often a grant is passed on at most before others have their turn. */
const MOST_PASSES = 16;

/** And for how long after the server gave it, in milliseconds. */
const LONGEST_MS = 10;

/** How long a proof is awaited that comes anyway, in milliseconds. */
const PROOF_MS = 1;

/** A release that passed the grant on, the how many-eth, and is not settled. */
interface Unproven {
  readonly pass: number;
  resolve(): void;
  reject(error: Error): void;
}

export class Relay implements Due {
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
    this.#endsAtMs = performance.now() - heldForMs + LONGEST_MS;
  }

  /** Whether the grant may be passed on once more. */
  get mayPass(): boolean {
    return this.#passes < MOST_PASSES && performance.now() < this.#endsAtMs;
  }

  /** A hold was released by passing the grant on, and so many are left in line behind who has it now. Resolves with the next proof. */
  passed(waiting: number): Promise<void> {
    const pass = ++this.#passes;
    const proof = new Promise<void>((resolve, reject) => {
      this.#unproven.push({ pass, resolve, reject });
    });
    // Enough are in line to go on to the end, and the release at the end is a proof for all.
    if (waiting > MOST_PASSES - pass) this.#session.schedule.within(this, PROOF_MS);
    else this.due();
    return proof;
  }

  /** Asks whether the grant is still there. */
  due(): void {
    if (!this.#isAsking && !this.#isOver && this.#unproven.length > 0) void this.#ask();
  }

  /** Its release is on its way, or it was lost: nothing is asked any more. */
  end(): void {
    this.#isOver = true;
    this.#session.schedule.delete(this);
  }

  /** What became of the grant in the end, and so of all releases: an error, or it was there until its own release. */
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
      this.#settle(upTo, error as Error);
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
