// The line for one fair lock as far as this client stands in it: its places, the channel where it hears that the lock
// was handed to one of them, and a look at the lock when the holder's lease is over.

import { setTimer } from '../../runtime/clock.js';
import type { Renewable } from '../../core/watchdog.js';
import type { ChannelListener, Subscription } from '../../waiting/channels.js';
import { Findings } from '../../waiting/findings.js';

/** Two ends of a lease that are as near as this are one. */
const SAME_TIME_MS = 5;

/** A place in this line. */
interface PlaceInLine extends Renewable<unknown> {
  /** The lock was handed over to it while it had this nonce. */
  granted(nonce: number): void;
  /** It is its turn to try. */
  wake(): void;
}

/** The fair lock, as the line for it knows it. */
interface LineLock {
  subscribeToGrants(listener: ChannelListener): Subscription;
  subscribeToUnlocks(listener: ChannelListener): Subscription;
  renewPlaces(places: Iterable<PlaceInLine>): void;
  handOn(): Promise<number>;
  returnGrant(ownerId: string): void;
}

export class FairLine {
  readonly findings: Findings = new Findings();
  readonly #lock: LineLock;
  readonly #onEmpty: () => void;
  readonly #places = new Map<string, PlaceInLine>();
  #grants: Subscription | undefined;
  #unlocks: Subscription | undefined;
  #timer: NodeJS.Timeout | undefined;
  #lookAtMs = Infinity;
  #isLooking = false;
  /** Who asks who has the lock, for all. */
  #looker: PlaceInLine | undefined;
  /** Since when, on the monotonic clock. */
  #lookedSinceMs = 0;
  /** A message came while a look was under way: that may have been too early. */
  #shallLookAgain = false;

  constructor(lock: LineLock, onEmpty: () => void) {
    this.#lock = lock;
    this.#onEmpty = onEmpty;
  }

  /** Whether grants are known to be heard. */
  get isListening(): boolean {
    return this.#grants?.isUp ?? false;
  }

  /** Whether a grant may have come since then (on the monotonic clock), and nobody heard it. */
  mayHaveMissed(sinceMs: number): boolean {
    return this.#grants?.mayHaveMissed(sinceMs) ?? false;
  }

  join(place: PlaceInLine): void {
    this.#places.set(place.ownerId, place);
    this.#grants ??= this.#lock.subscribeToGrants({
      // Before, our places counted as deaf, or were passed over.
      subscribed: () => {
        this.renew(this.#places.values());
      },
      message: (payload) => {
        this.hear(payload);
      },
      late: (payload) => {
        this.hear(payload);
      },
    });
    // Freed with nobody in line: by a reentrant lock of this name, or after the line was deleted.
    const look = (): void => {
      this.#look();
    };
    this.#unlocks ??= this.#lock.subscribeToUnlocks({ subscribed: look, message: look });
  }

  leave(place: PlaceInLine): void {
    this.#places.delete(place.ownerId);
    if (this.#looker === place) this.#looker = undefined;
    if (this.#places.size > 0) return;
    clearTimeout(this.#timer);
    this.#grants?.close();
    this.#unlocks?.close();
    this.#onEmpty();
  }

  /** One that wants to know who has the lock asks for all, unless one did since `sinceMs` (monotonic): their places do not depend on which. */
  look(place: PlaceInLine, sinceMs: number): void {
    if (this.#looker && this.#lookedSinceMs >= sinceMs) return;
    this.#looker = place;
    this.#lookedSinceMs = performance.now();
    place.wake();
  }

  /** A place was told who has the lock. If that is another of ours, nobody has told that one. */
  looked(place: PlaceInLine, holder: string): void {
    if (this.#looker === place) this.#looker = undefined;
    this.#places.get(holder)?.wake();
  }

  renew(places: Iterable<PlaceInLine>): void {
    this.#lock.renewPlaces(places);
  }

  /** The lock's lease ends in `ttlMs` (-1: never) if nobody prolongs it; it is looked at then. */
  scheduleLook(ttlMs: number): void {
    if (this.#places.size === 0 || ttlMs === -1) return;
    const atMs = performance.now() + ttlMs;
    if (Math.abs(atMs - this.#lookAtMs) < SAME_TIME_MS) return;
    clearTimeout(this.#timer);
    this.#lookAtMs = atMs;
    const look = (): void => {
      this.#lookAtMs = Infinity;
      this.#look();
    };
    if (ttlMs < 0) look();
    else this.#timer = setTimer(look, ttlMs);
  }

  /** A grant, "<nonce> <owner>", or that the holder's lease is shorter than it was: "ends <ttlMs>". */
  hear(message: string): void {
    const space = message.indexOf(' ');
    const [what, rest] = [message.slice(0, space), message.slice(space + 1)];
    if (what === 'ends') {
      this.scheduleLook(Number.parseInt(rest, 10) || 0);
      return;
    }
    const place = this.#places.get(rest);
    if (place) place.granted(Number(what));
    else this.#lock.returnGrant(rest);
  }

  /** Hands the lock on if nobody holds it. */
  #look(): void {
    if (this.#isLooking) {
      this.#shallLookAgain = true;
      return;
    }
    this.#isLooking = true;
    this.#lock.handOn().then(
      (ttlMs) => {
        // Free, and nobody in line: then our places are gone.
        if (ttlMs < -1) this.renew(this.#places.values());
        else this.scheduleLook(ttlMs);
        this.#looked();
      },
      () => {
        this.#looked(); // the next renewal tells how long the lock is held
      },
    );
  }

  #looked(): void {
    this.#isLooking = false;
    if (!this.#shallLookAgain) return;
    this.#shallLookAgain = false;
    if (this.#places.size > 0) this.#look();
  }
}
