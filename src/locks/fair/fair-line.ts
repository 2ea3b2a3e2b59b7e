// The line for one fair lock as far as this client stands in it: its places, the channel where it hears that the lock
// was handed to one of them, and a look at the lock when the holder's lease is over.

import type { Renewable } from '../../core/renewal.js';
import { elapsedMs, now, type Instant } from '../../runtime/clock.js';
import type { Due, Schedule, Scheduled } from '../../runtime/schedule.js';
import type { ChannelListener, Subscription } from '../../waiting/channels.js';
import { Findings } from '../../waiting/findings.js';

/** What the message begins with that tells a new end of the lease. */
const ENDS = 'ends ';

/** What the message begins with that tells an owner that its place was dropped. */
const GONE = 'gone ';

/** A grant: the nonce of the place, the fencing token if there is one, and the owner. */
const GRANT = /^(\d{1,16})(?::(\d{1,16}))? (.+)$/s;

/** A place in this line. */
interface PlaceInLine extends Renewable<unknown> {
  /** The lock was handed over to this place while the place had this nonce, with such a token if it is a fenced one. */
  granted(nonce: number, token?: bigint): void;
  /** The server says that it has dropped this place for what its caller wants. */
  dropped(): void;
  /** The caller who waits at this place is to try. */
  wake(): void;
}

/** The end of the holder's lease, as far as it was told. */
interface LeaseEnd {
  /** When it was told. */
  readonly toldAt: Instant;
  /** How long the lease went on then. */
  readonly ttlMs: number;
}

/** The fair lock, as the line for it knows it. */
interface LineLock {
  readonly schedule: Schedule;
  subscribeToGrants(listener: ChannelListener): Subscription;
  subscribeToUnlocks(listener: ChannelListener): Subscription;
  renewPlaces(places: Iterable<PlaceInLine>): void;
  handOn(): Promise<number>;
  grantedOutOfLine(ownerId: string, isOurs: boolean, nonce: number, token?: bigint): void;
}

export class FairLine implements Due {
  scheduled: Scheduled | undefined;
  /** What the callers in this line were told last of who has the lock. */
  readonly findings: Findings = new Findings();
  readonly #lock: LineLock;
  readonly #onEmpty: () => void;
  readonly #places = new Map<string, PlaceInLine>();
  #grants: Subscription | undefined;
  #unlocks: Subscription | undefined;
  /** When the lock is looked at because of time; undefined: its lease has no end that is known. */
  #leaseEnd: LeaseEnd | undefined;
  /** Whether a look at the lock is under way. */
  #isLooking = false;
  /** A message came while a look was under way, which may have reached the server before what the message tells of. */
  #shallLookAgain = false;
  /** The place that asks, for all in this line, who has the lock; undefined: none does now. */
  #looker: PlaceInLine | undefined;
  /** Since when that place, or the last one that did, asks; on the monotonic clock. */
  #askedSinceMs = 0;

  constructor(lock: LineLock, onEmpty: () => void) {
    this.#lock = lock;
    this.#onEmpty = onEmpty;
  }

  /** Whether our subscription to grants is known to stand. */
  get isListening(): boolean {
    return this.#grants?.isSubscribed ?? false;
  }

  /** Whether a grant or a release may have been published since `sinceMs` (on the monotonic clock) that a place that tried then missed. */
  mayHaveMissed(sinceMs: number): boolean {
    return [this.#grants, this.#unlocks].some((heard) => heard?.mayHaveMissed(sinceMs));
  }

  join(place: PlaceInLine): void {
    this.#places.set(place.ownerId, place);
    this.#grants ??= this.#lock.subscribeToGrants({
      // Until the server knows that we listen, it takes our places for deaf, and may have passed them over.
      subscribed: () => {
        this.renew(this.#places.values());
      },
      message: (payload) => {
        this.hear(payload);
      },
      late: (payload) => {
        this.hear(payload);
      },
      // A grant finds its waiter also outside of this line, so whoever joins later has not missed it. But a new end of the lease is newer
      // than the answer to a join that was sent before it.
      concernsAll: (payload) => payload.startsWith(ENDS),
    });
    // A release that finds nobody in line hands the lock to nobody, and publishes on the unlock channel: that of a reentrant lock
    // of this name, or one after the line was deleted.
    const look = this.#look;
    this.#unlocks ??= this.#lock.subscribeToUnlocks({ subscribed: look, message: look });
  }

  leave(place: PlaceInLine): void {
    this.#places.delete(place.ownerId);
    if (this.#looker === place) this.#looker = undefined;
    if (this.#places.size > 0) return;
    this.#lock.schedule.delete(this);
    this.#grants?.close();
    this.#unlocks?.close();
    this.#onEmpty();
  }

  /**
   * The caller at this place wants to know who has the lock, and asks for all in this line; unless another one has been asking since
   * `sinceMs` (on the monotonic clock). Asking changes nobody's place.
   */
  look(place: PlaceInLine, sinceMs: number): void {
    if (this.#looker && this.#askedSinceMs >= sinceMs) return;
    this.#looker = place;
    this.#askedSinceMs = this.#lock.schedule.clock.nowMs();
    place.wake();
  }

  /** The caller at this place was told who has the lock. If the holder is another place of this line, its caller does not know yet. */
  looked(place: PlaceInLine, holder: string): void {
    if (this.#looker === place) this.#looker = undefined;
    this.#places.get(holder)?.wake();
  }

  renew(places: Iterable<PlaceInLine>): void {
    this.#lock.renewPlaces(places);
  }

  /**
   * The lock is looked at in `ttlMs`, when its lease ends if nobody prolongs it. -1: the lease has no end; below that, the lock is
   * free. What is told here replaces what was told before; an entry in the schedule that is due earlier stays, and `due` looks at
   * the clock, so that many who join one after another cost no timers.
   */
  scheduleLook(ttlMs: number): void {
    if (this.#places.size === 0 || ttlMs === -1) return;
    if (ttlMs < 0) {
      this.#leaseEnd = undefined;
      this.#look();
      return;
    }
    this.#leaseEnd = { toldAt: now(this.#lock.schedule.clock), ttlMs };
    this.#lock.schedule.within(this, ttlMs);
  }

  due(): void {
    if (!this.#leaseEnd) return;
    const leftMs = this.#leaseEnd.ttlMs - elapsedMs(this.#leaseEnd.toldAt);
    if (leftMs > 0) {
      this.#lock.schedule.within(this, leftMs);
      return;
    }
    this.#leaseEnd = undefined;
    this.#look();
  }

  /**
   * A message for this line: a grant, "<nonce> <owner>" or "<nonce>:<token> <owner>", or that the holder's lease is shorter than the one
   * before it, "ends <ttlMs>", or of a weighted lock that a place was dropped, "gone <owner>". Anybody who may publish may say anything:
   * what is none of these is ignored.
   */
  hear(message: string): void {
    if (message.startsWith(ENDS)) {
      this.scheduleLook(Number.parseInt(message.slice(ENDS.length), 10) || 0);
      return;
    }
    if (message.startsWith(GONE)) {
      this.#places.get(message.slice(GONE.length))?.dropped();
      return;
    }
    this.#granted(message, true);
  }

  /** A grant that a script of ours made: to a place of this client, or of any other one, which may have been given the same client id. */
  offer(grant: string): void {
    this.#granted(grant, false);
  }

  #granted(grant: string, isOurs: boolean): void {
    const [, nonce, fencingToken, ownerId] = GRANT.exec(grant) ?? [];
    if (ownerId === undefined) return;
    const token = fencingToken === undefined ? undefined : BigInt(fencingToken);
    const place = this.#places.get(ownerId);
    if (place) place.granted(Number(nonce), token);
    else this.#lock.grantedOutOfLine(ownerId, isOurs, Number(nonce), token);
  }

  /** Looks at the lock, and hands it to the first in line if nobody holds it. */
  readonly #look = (): void => {
    if (this.#isLooking) {
      this.#shallLookAgain = true;
      return;
    }
    this.#isLooking = true;
    this.#lock.handOn().then(
      (ttlMs) => {
        // The lock is free, and there was nobody to hand it to: then our places are gone.
        if (ttlMs < -1) this.renew(this.#places.values());
        else this.scheduleLook(ttlMs);
        this.#looked();
      },
      () => {
        this.#looked(); // the next renewal of the places tells how long the lock is held
      },
    );
  };

  #looked(): void {
    this.#isLooking = false;
    if (!this.#shallLookAgain) return;
    this.#shallLookAgain = false;
    if (this.#places.size > 0) this.#look();
  }
}
