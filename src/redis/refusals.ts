// What the server at the other end refuses, made plain to an operator: which server it is, what to do, and that it goes on.

import { UnavailableError } from '../api/errors.js';
import type { Events } from '../api/events.js';
import type { Clock } from '../runtime/clock.js';
import {
  describe,
  failureKind,
  isCrossSlot,
  isPassing,
  isReadOnly,
  replyError,
} from './failure.js';
import { News } from './outage.js';

/** A server that refuses for no longer is about to be well again: it loads its data, or takes over from another one. */
const LASTING_MS = 2_000;

/** Who waits asks again within a second or so. If nobody was refused for so long, it is over. */
const OVER_MS = 5_000;

export class Refusals {
  readonly #events: Events;
  readonly #clock: Clock;
  readonly #told = new News();
  #areSlotsApart = false;
  #place = '';
  /** When the first of the refusals that go on was heard of, and when the last, on the monotonic clock. */
  #sinceMs = -Infinity;
  #heardMs = -Infinity;

  constructor(events: Events, clock: Clock) {
    this.#events = events;
    this.#clock = clock;
  }

  /** Whether it has refused keys of several slots in one command: a node of a cluster does, and so does what stands in front of one. */
  get areSlotsApart(): boolean {
    return this.#areSlotsApart;
  }

  /** The error in words that say more. `place`: where Redis is, for people. */
  explain(error: Error, place: string, isCluster: boolean): Error {
    this.#areSlotsApart ||= isCrossSlot(error);
    this.#place = place;
    if (isCluster || !isReadOnly(error)) return error;
    const hint = `${place} is a read-only replica: if it stays one, give the address of the master, a "primary endpoint"`;
    return replyError(`${describe(error)} (${hint})`, { cause: error });
  }

  /** The call of somebody who waits has failed, and will be sent again: emits `error`, once, where the server goes on refusing. */
  heard(error: unknown): void {
    if (!(error instanceof Error) || failureKind(error) !== 'transient') return;
    if (isPassing(error)) return;
    const nowMs = this.#clock.nowMs();
    if (nowMs - this.#heardMs > OVER_MS) {
      this.#sinceMs = nowMs;
      this.#told.end();
    }
    this.#heardMs = nowMs;
    const words = describe(error);
    if (nowMs - this.#sinceMs < LASTING_MS || !this.#told.isNews(words)) return;
    const message = `Redis (${this.#place}) goes on refusing what callers wait for: ${words}`;
    this.#events.emit('error', () => ({ error: new UnavailableError(message, { cause: error }) }));
  }
}
