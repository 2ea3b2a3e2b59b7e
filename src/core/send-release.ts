// The first command of a release, which mostly settles it.

import type { Due, Scheduled } from '../runtime/schedule.js';
import type { Removable } from './cleanup.js';
import type { Session } from './session.js';

/** A release whose first command did not settle it: that command, and how much of `commandTimeout` is left. */
export interface BegunRelease {
  readonly answer: Promise<boolean>;
  readonly limitMs: number;
}

/** Sends the release, and calls `done` once: without an argument when the lock was released, else with what there is to go on with. */
export function sendRelease(
  session: Session,
  lock: Removable,
  ownerId: string,
  done: (begun?: BegunRelease) => void,
): void {
  const release = new SentRelease(session, lock.release(ownerId), done);
  release.awaitAnswer();
}

class SentRelease implements Due {
  scheduled: Scheduled | undefined;
  readonly #session: Session;
  readonly #answer: Promise<boolean>;
  readonly #endsAtMs: number;
  /** undefined: called back already. */
  #done: ((begun?: BegunRelease) => void) | undefined;

  constructor(session: Session, answer: Promise<boolean>, done: (begun?: BegunRelease) => void) {
    this.#session = session;
    this.#answer = answer;
    this.#done = done;
    this.#endsAtMs = session.clock.nowMs() + session.commandTimeoutMs;
  }

  awaitAnswer(): void {
    this.#session.schedule.within(this, this.#session.commandTimeoutMs);
    this.#answer.then(
      (isReleased) => {
        this.#end(isReleased);
      },
      () => {
        this.#end(false);
      },
    );
  }

  due(): void {
    const leftMs = this.#endsAtMs - this.#session.clock.nowMs();
    if (leftMs > 0) this.#session.schedule.within(this, leftMs);
    else this.#end(false);
  }

  #end(isReleased: boolean): void {
    const done = this.#done;
    if (!done) return;
    this.#done = undefined;
    this.#session.schedule.delete(this);
    if (isReleased) done();
    else done({ answer: this.#answer, limitMs: this.#endsAtMs - this.#session.clock.nowMs() });
  }
}
