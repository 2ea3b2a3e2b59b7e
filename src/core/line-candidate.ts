// Somebody who wants a lock, and between tries waits among those of the same client, of whom one at a time tries when
// the lock may be free.

import type { Findings } from '../waiting/findings.js';
import type { Line, Place } from '../waiting/line.js';
import type { Candidate, Wanted } from './backend.js';
import type { AcquireReply, HeldReply } from './replies.js';

const NOW = Promise.resolve();

export abstract class LineCandidate implements Candidate {
  abstract readonly ownerId: string;
  protected readonly wanted: Wanted;
  readonly #line: () => Line;
  #place: Place | undefined;

  /** `line` gives the one where those of this client wait who did not get it. */
  constructor(wanted: Wanted, line: () => Line) {
    this.wanted = wanted;
    this.#line = line;
  }

  abstract try(): Promise<AcquireReply>;

  wait({ holderTtlMs, retryInMs = holderTtlMs }: HeldReply, triedAtMs: number): void {
    if (this.#place) this.#place.stillHeld(retryInMs);
    else if (this.wanted.mayWait)
      this.#place = this.#line().join(triedAtMs, retryInMs, this.wanted.seniority);
  }

  get findings(): Findings | undefined {
    return this.#place?.findings;
  }

  look(sinceMs: number): void {
    this.#place?.look(sinceMs);
  }

  get isUp(): boolean {
    return this.#place?.isUp ?? true;
  }

  get woken(): Promise<void> {
    return this.#place?.woken ?? NOW;
  }

  /** Nothing is left on the server: a try that was answered with "held" left nothing there. */
  leave(leaseMs?: number): boolean {
    this.#place?.leave(leaseMs);
    return false;
  }
}
